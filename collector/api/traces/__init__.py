"""Traces, spans and sessions over HTTP: found, read, exported, deleted."""
