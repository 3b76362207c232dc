"""Leftover files in a data directory: copies and scratch files of killed processes."""

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

SCRATCH: Final = ("tmp", "quack")
"""Folders whose files are useless after the process ends: DuckDB's temporary files, and answers for Quack clients."""

_TEMPORARY: Final = ("backup-*", "*.part")  # files of older versions, and of `restore`
_MAGIC_OFFSET, _MAGIC = 8, b"DUCK"


def remove_leftovers(directory: Path) -> None:
    """Remove files that killed processes left in a directory. For the holder of its lock, before the database opens."""
    for path in _temporary(directory):
        log.warning("removed %s, left by a killed process", path)
        path.unlink(missing_ok=True)
    for name in SCRATCH:
        shutil.rmtree(directory / name, ignore_errors=True)


def foreign_copies(directory: Path, known: Path) -> list[Path]:
    """Return other databases in a directory, at any depth: each may hold deleted rows."""
    return [path for path in sorted(directory.rglob("*")) if path != known and _is_database(path)]


def forget_answers(directory: Path, before_s: float) -> None:
    """Delete the files of answers for Quack clients that were written before an instant (seconds since the epoch)."""
    for path in (directory / "quack").glob("*"):
        try:
            if path.stat().st_mtime < before_s:
                path.unlink(missing_ok=True)
        except FileNotFoundError:  # its reader was done with it
            continue


def forget_records(paths: Iterable[Path], trace_ids: set[str]) -> None:
    """Delete files with rows that could not be stored, if they contain one of these trace ids."""
    for path in paths:
        content = path.read_bytes()  # searched as bytes, since a damaged file cannot be parsed
        if any(trace_id.encode() in content for trace_id in trace_ids):
            path.unlink()
            log.info("deleted %s, because its trace was deleted", path)


def _temporary(directory: Path) -> list[Path]:
    return [path for pattern in _TEMPORARY for path in directory.glob(pattern) if path.is_file()]


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(_MAGIC_OFFSET + len(_MAGIC))[_MAGIC_OFFSET:] == _MAGIC
    except OSError:  # a folder, or gone meanwhile
        return False
