"""Datasets: their items, files of items, and items made from recorded traces, spans and sessions."""
