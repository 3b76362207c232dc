"""Evaluators: a test case goes in, a verdict or a failure comes out."""
