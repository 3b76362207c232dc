"""Exports of a run as files."""
