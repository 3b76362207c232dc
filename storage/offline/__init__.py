"""Datasets, runs and what was scored in them."""
