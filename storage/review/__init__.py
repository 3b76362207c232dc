"""Annotations, and the queues of reviewers."""
