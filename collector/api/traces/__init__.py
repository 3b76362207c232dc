"""Traces, spans and sessions over HTTP: search, read, export, delete."""
