"""Names shared by the process that speaks Quack and the server's endpoint for it."""

from typing import Final

PATH: Final = "/quack"
ERROR: Final = "error"
"""Key in the metadata of a batch that follows an error, with its message; no batch comes after it."""
