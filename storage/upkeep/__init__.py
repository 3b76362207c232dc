"""Retention, deletion, erasure from the file, and backups."""
