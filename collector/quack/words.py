"""Names shared by the process that speaks Quack and the server's endpoint for it."""

from typing import Final

PATH: Final = "/quack"
ERROR: Final = "error"
"""In the metadata of a batch: why it is the last one."""
