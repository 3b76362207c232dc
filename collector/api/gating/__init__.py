"""Comparisons of runs over HTTP."""
