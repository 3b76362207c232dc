"""Experiments without code: a file says what is run on which cases, and what judges it."""
