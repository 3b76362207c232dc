"""Datasets, experiments, runs and review."""
