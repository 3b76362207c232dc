"""Asking a model for a judgement: prompts, the client, and the reading of replies."""
