"""Traces and sessions: lists, one trace, one session."""
