"""Processes of our own that do what may hang, die, or take memory and time that ingest needs."""
