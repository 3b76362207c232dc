"""Experiments without code: a file names the task, the cases, and the evaluators."""
