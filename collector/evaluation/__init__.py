"""Evaluations from outside: cases from traces and files, many at a time, and what is told of them."""
