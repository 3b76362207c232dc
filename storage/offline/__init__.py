"""Datasets, runs and their scores."""
