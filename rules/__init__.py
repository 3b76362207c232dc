"""Decisions only: the meaning of a rule, its matches, and whether a score has really dropped."""
