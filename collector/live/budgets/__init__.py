"""Budgets of judging."""
