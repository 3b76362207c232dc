"""Asking a model: the two protocols, the client, and the reading of replies."""
