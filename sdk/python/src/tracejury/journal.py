"""Journal of a simulation: a line of JSON for each finished conversation, and for what others spent, for resuming."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from tracejury.plain import plain

Place = tuple[str, int]
"""The key of a scenario, and the trial."""


class JournalInUse(Exception):
    """Another process writes this file."""


class Journal:
    """Context manager: finished conversations, each once. One process at a time may have the journal open.

    Opening the journal removes a truncated line, and conversations that ended by a fault of the simulator: these
    conversations are repeated. `lost` has what they spent, and what conversations that the budget broke off did.
    """

    def __init__(self, path: Path) -> None:
        """Open the journal.

        Raises:
            JournalInUse: another process has it.
            ValueError: the file is not a journal.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.lost: list[Sequence[Mapping[str, Any]]] = []
        self._lock: IO[bytes] = path.with_name(f"{path.name}.lock").open("ab")
        try:
            _lock(self._lock, path)
            self.kept = self._read()
            self._file: IO[bytes] = path.open("ab")
        except BaseException:  # raised again: no lock stays behind
            self._lock.close()
            raise

    def __enter__(self) -> "Journal":  # noqa: PYI034 - `Self` is not in Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._lock.close()

    def write(self, document: Mapping[str, Any]) -> None:
        """Keep a conversation: it is on the disk when this returns."""
        self._file.write(_line(document))
        self._file.flush()
        os.fsync(self._file.fileno())

    def write_lost(self, spent: Sequence[Mapping[str, Any]]) -> None:
        """Keep what a conversation spent that is to be repeated."""
        self.write({"lost": spent})

    def _read(self) -> dict[Place, Mapping[str, Any]]:
        content = self.path.read_bytes() if self.path.exists() else b""
        documents: dict[Place, Mapping[str, Any]] = {}
        for number, line in enumerate(content.splitlines(keepends=True), start=1):
            if not line.endswith(b"\n"):
                break  # its writer was killed
            try:
                document = json.loads(line)
                if "lost" in document:
                    self.lost.append(document["lost"])
                    continue
                place, source = (document["key"], document["trial"]), document["errorSource"]
                if source == "simulator":
                    self.lost.append([document["userSpent"], document["agentSpent"]])
            except (ValueError, LookupError, TypeError):
                raise ValueError(f"{self.path}: line {number} is not a conversation of a simulation") from None
            if source != "simulator":
                documents.setdefault(place, document)
        complete = b"".join(map(_line, (*documents.values(), *({"lost": each} for each in self.lost))))
        if complete != content:
            part = self.path.with_name(f"{self.path.name}.part")
            part.write_bytes(complete)
            part.replace(self.path)
        return documents


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock in a file.

    Raises:
        JournalInUse: another process holds the lock, and `wait` is False.
    """
    with path.open("ab") as file:
        _lock(file, path, wait=wait)
        yield


def _line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(plain(document), ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _lock(file: IO[bytes], path: Path, *, wait: bool = False) -> None:
    with suppress(ImportError):  # without this module, two processes may share the file
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise JournalInUse(f"{path} is in use by another process") from None
