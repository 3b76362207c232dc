"""Comparison of two finished runs: the one engine behind the gate and the differences of runs."""
