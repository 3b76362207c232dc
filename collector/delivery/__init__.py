"""Telling receivers about alerts: what they are sent, how it is signed, where it may go, and when it is tried again."""
