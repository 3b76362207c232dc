"""Matching: which stored spans, traces and sessions each rule evaluates."""
