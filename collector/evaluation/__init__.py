"""Evaluations outside of the server: cases from traces and files, many at a time, and their reports."""
