"""Monitors of scores, rates and other measures."""
