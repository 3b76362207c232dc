"""Files of datasets, read in a child process: its memory is bounded, and it does not hold the GIL of the server."""

import io
import os
import sys
from collections.abc import Iterator
from typing import BinaryIO, Final

from collector.children.process import ChildFailed, ChildProcess

_PROGRAM: Final = "from collector.datasets.apart_child import main; main()"
_TIMEOUT_S: Final = 60.0
"""Timeout of the child process for one answer, which has up to 256 KB of rows; then it is killed. A guess: a row takes
at most a second on an idle machine."""


class Unread(Exception):
    """Failure to read a file. With `is_lost`, the process died over it or took too long."""

    def __init__(self, message: str, *, is_lost: bool = False) -> None:
        super().__init__(message)
        self.is_lost = is_lost


def path_of(file: BinaryIO) -> str:
    """Return the path at which other processes open this file, also one without a name; "" if there is none."""
    try:
        return f"/proc/{os.getpid()}/fd/{file.fileno()}" if sys.platform == "linux" else ""
    except io.UnsupportedOperation:
        return ""


def read_apart(path: str, form: str) -> Iterator[tuple[str, str]]:
    """Yield the documents of a file as JSON, each with its line or row.

    Raises:
        Unread: something in it is wrong; the message says where.
    """
    child = ChildProcess(_PROGRAM, {}, timeout_s=_TIMEOUT_S)
    try:
        for answer, _ in child.ask({"path": path, "form": form}, []):
            if error := answer.get("error"):
                raise Unread(error)
            yield from answer.get("documents", ())
    except ChildFailed:
        raise Unread("the process that reads it failed over it, or took too long", is_lost=True) from None
    finally:
        child.close()
