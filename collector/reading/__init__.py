"""Reads what committed spans mean, in a process of its own, so that ingest pays nothing for it."""
