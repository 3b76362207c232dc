"""Datasets, experiments and runs over HTTP."""
