"""Queries: SQL of clients within limits, lists, exports, search, sessions."""
