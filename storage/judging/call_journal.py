"""Journal of judge calls: a call is synced to disk before its request is sent, and stored in the database later.

A file consists of records, to which one thread appends. A record is a header (CRC-32 and length of the body) and a body
of JSON: calls that were reserved, and calls that were settled. Reading ends at a torn record, which was never
acknowledged.
"""

import json
import os
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from storage.errors import Overloaded

_HEADER: Final = struct.Struct("<II")
_SUFFIX: Final = ".calls"
_MOST_BYTES: Final = 256 << 10
_MOST_S: Final = 60.0
"""A new file is begun when the current one has this size or age. Guesses: a start has little to read, and a file does
not keep data for long that was deleted from the database."""

_sync = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedCall:
    """A request to be made, and its reservation."""

    call_id: int
    day: date  # UTC
    tenant: str
    project: str | None
    rule_id: str | None
    connection_id: str
    job_id: int | None
    reserved_tokens: int
    reserved_usd: float
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledCall:
    """Outcome of a call."""

    call_id: int
    input_tokens: int | None
    output_tokens: int | None
    tokens: int  # charged to the budget
    usd: float | None  # charged to the budget; None if the price of a token is unknown
    outcome: str  # answered, the kind of failure, or unsent if no request was made
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """Calls that were reserved or settled at one time."""

    reserved: Sequence[ReservedCall] = ()
    settled: Sequence[SettledCall] = ()


class CallJournal:
    """The journal's files in one directory. For one thread; `recover` may be called from another before that starts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._old = sorted(directory.glob(f"*{_SUFFIX}"))
        self._number = int(self._old[-1].stem) if self._old else 0
        self._path: Path | None = None
        self._file = -1
        self._size = 0
        self._began_s = 0.0

    def recover(self) -> Iterator[JournalRecord]:
        """Yield the records of files that are not released, oldest first."""
        for path in self._old:
            yield from _records(path.read_bytes())

    def append(self, record: JournalRecord) -> None:
        """Write a record. Its reservations are durable on return; its settlements survive the end of this process.

        Raises:
            Overloaded: the disk is full or failing; if only the sync failed, the record may still be in the file.
        """
        body = json.dumps([[_as_json(each) for each in record.reserved], [_as_json(each) for each in record.settled]])
        data = body.encode()
        data = _HEADER.pack(zlib.crc32(data), len(data)) + data
        try:
            if self._path is None:
                self._open()
            written = os.write(self._file, data)
            if written == len(data) and record.reserved:
                _sync(self._file)
        except OSError as error:
            self.rotate()
            raise Overloaded(f"calls cannot be put on record: {error.strerror or error}", retry_after_s=5) from error
        if written < len(data):
            self.rotate()  # nothing is read after a torn record
            raise Overloaded("calls cannot be put on record: the disk is full", retry_after_s=5)
        self._size += len(data)

    @property
    def due_in_s(self) -> float | None:
        """Return the seconds until the current file is due to be replaced, or None without a current file."""
        if self._path is None:
            return None
        return 0.0 if self._size >= _MOST_BYTES else max(self._began_s + _MOST_S - time.monotonic(), 0.0)

    def rotate(self) -> None:
        """Write the next records to another file."""
        if self._path is not None:
            os.close(self._file)
            self._old.append(self._path)
            self._path = None

    @property
    def full(self) -> Sequence[Path]:
        """Return the closed files."""
        return tuple(self._old)

    def release(self, files: Sequence[Path]) -> None:
        """Delete these files, because the database has their contents."""
        for path in files:
            path.unlink(missing_ok=True)
        self._old = [path for path in self._old if path not in files]

    def _open(self) -> None:
        self._number += 1
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{self._number:012d}{_SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._path, self._size, self._began_s = path, 0, time.monotonic()
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)  # so that the new file survives a power cut
        finally:
            os.close(directory)


def _records(data: bytes) -> Iterator[JournalRecord]:
    at = 0
    while at + _HEADER.size <= len(data):
        checksum, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        body = data[at : at + length]
        if len(body) < length or zlib.crc32(body) != checksum:
            return
        at += length
        reserved, settled = json.loads(body)
        yield JournalRecord(
            reserved=tuple(ReservedCall(**_read(row, "started_at")) for row in reserved),
            settled=tuple(SettledCall(**_read(row, "ended_at")) for row in settled),
        )


def _read(row: dict[str, Any], time_of: str) -> dict[str, Any]:
    read = row | {time_of: datetime.fromisoformat(row[time_of])}
    return read | {"day": date.fromisoformat(row["day"])} if "day" in row else read


def _as_json(call: ReservedCall | SettledCall) -> dict[str, Any]:
    values = ((name, getattr(call, name)) for name in call.__dataclass_fields__)
    return {name: value.isoformat() if isinstance(value, date) else value for name, value in values}  # or a datetime
