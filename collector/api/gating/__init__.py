"""Runs compared with others, over HTTP."""
