"""Decisions only: what a rule means, what it matches, and when a score has really dropped."""
