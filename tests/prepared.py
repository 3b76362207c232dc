"""A database of this version's schema without a row, made once in each process of tests, and copied.

To make one takes a tenth of a second of CPU, and the tests open more than a thousand stores. A store that finds a copy
does what a second start does; tests of a first start open a directory that is empty.
"""

import tempfile
from functools import cache
from pathlib import Path

from storage.engine.database import FILE_NAME, Database, DatabaseOptions


def prepare(directory: Path) -> None:
    """Create a database if there is none."""
    file = directory / FILE_NAME
    if not file.exists():
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # as a first start does: no warning about it
        file.write_bytes(_empty_database())


@cache
def _empty_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        Database(Path(folder), DatabaseOptions()).close()
        return Path(folder, FILE_NAME).read_bytes()
