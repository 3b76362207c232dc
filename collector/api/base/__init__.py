"""Shared parts of all routes: context, turns, pages of lists, problems, versions."""
