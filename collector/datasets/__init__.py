"""Datasets: what an item is, files of items, and items that come from what was recorded."""
