"""Calls of models: connections, limits, tracing."""
