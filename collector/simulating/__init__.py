"""Simulated users against an application, as a file describes them."""
