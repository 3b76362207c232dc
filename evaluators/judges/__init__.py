"""Evaluators that use a judge: one module for each family."""
