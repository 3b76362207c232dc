"""Evaluators that ask a judge: one module for each family."""
