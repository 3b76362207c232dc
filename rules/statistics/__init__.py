"""Comparison of sets of results: tests of finished sets, and tests that may be read at any time."""
