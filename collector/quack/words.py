"""Names shared by the process that speaks Quack and the server's endpoint for it."""

from typing import Final

PATH: Final = "/quack"
ERROR: Final = "error"
"""Metadata key of the batch that is sent after an error, with the error's message; that batch is the last."""
