"""Redaction of spans and log records before any part of them is written."""
