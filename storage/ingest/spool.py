"""The spool: decoded groups on disk, synced before their senders are answered.

A segment is a file of records, to which one thread appends. A record is a header (magic, CRC-32 of all bytes after it,
length of the body, sequence number) and the body, a `SpanBatch`. A torn record is an incomplete last one after a crash,
and was not acknowledged. A damaged one is detected by its checksum. Both are skipped up to the next whole record.
"""

import logging
import os
import shutil
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from storage.errors import Overloaded
from storage.ingest.batch import SpanBatch

log = logging.getLogger(__name__)

_MAGIC = b"TJsp"
_HEADER, _NUMBERS = struct.Struct("<4sIQQ"), struct.Struct("<QQ")  # the second is the end of the first
_SUFFIX, _DIGITS = ".spool", 20  # a segment's name begins with its number, zero-padded
_SEGMENT_BYTES = 32 << 20
"""Size at which a segment is closed. A guess: there are few files under overload, and a segment of which only a little
is not committed yet keeps little disk space."""
_REFRESH_S = 0.05
"""How long a measurement of free space is reused. A guess: in that time, little is written compared to the reserve."""
_sync = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter
_VECTORS = min(os.sysconf("SC_IOV_MAX"), 1024)


@dataclass(frozen=True, slots=True)
class Position:
    """Committed part of the spool: all groups up to `sequence`, and the first `rows` rows of the next group."""

    sequence: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolGroup:
    """A batch that is durable in the spool."""

    sequence: int
    batch: SpanBatch
    nbytes: int
    parts: Mapping[str, int] = field(default_factory=dict)  # bytes by sender, as far as they are known


@dataclass(slots=True)
class _Segment:
    path: Path
    last_sequence: int
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolLoss:
    """Records that were acknowledged, are damaged, and are not committed."""

    records: int = 0
    rows: int = 0  # spans and log records in them, as far as their number can be read
    uncounted: int = 0  # records whose number of rows cannot be read

    def __str__(self) -> str:
        counted = f"{self.rows} spans and log records in damaged records (records: {self.records - self.uncounted})"
        hidden = f"all in damaged records that hide their number (records: {self.uncounted})"
        parts = [counted] * (self.records > self.uncounted) + [hidden] * (self.uncounted > 0)
        return f"{' and '.join(parts)} were acknowledged and are lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolReport:
    """Result of reading all segments."""

    records: int  # number of whole records
    torn: tuple[str, ...]  # places at which a kill tore a record, which was not acknowledged
    damaged: tuple[str, ...]
    loss: SpoolLoss


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Bytes of a segment that are not a complete record, or are a complete one that cannot be read."""

    path: Path
    offset: int
    latest: int  # highest possible number of its first record: the header's, or the segment's if that is less
    body: pa.Buffer  # may be incomplete
    is_torn: bool
    error: Exception | None = None  # why the body of a complete record could not be read

    def __str__(self) -> str:
        if self.error is not None:
            return f"record {self.latest} of {self.path} cannot be read: {self.error}"
        return f"{self.path} is {'torn' if self.is_torn else 'damaged'} at byte {self.offset}"


class Spool:
    """Append-only segments in one directory. `append` and `release` may be called from different threads."""

    def __init__(self, directory: Path, *, after: Position, is_read_only: bool = False) -> None:
        if not is_read_only:
            directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._is_read_only = directory, is_read_only
        self._old = [_Segment(path, _last_sequence(path), path.stat().st_size) for path in _segments(directory)]
        # The number of a partly committed group is never used again, even if the rest of the group is lost.
        taken = after.sequence + bool(after.rows)
        self._sequence = max([taken, *(segment.last_sequence for segment in self._old)])
        self._active: _Segment | None = None
        self._opened = 0
        self._free_bytes, self._look_again_s = 0, 0.0
        self._file = -1
        self._set_aside: set[int] = set()  # numbers of records that could not be read
        self.lost = SpoolLoss()  # damaged records that `recover` passed over
        self.is_damaged = False  # True once `recover` found damage, lost records or not

    @property
    def sequence(self) -> int:
        """Return the number of the last group that is durable."""
        return self._sequence

    @property
    def nbytes(self) -> int:
        """Return the bytes on disk."""
        active = self._active
        return sum(segment.size for segment in list(self._old)) + (active.size if active else 0)

    @property
    def free_bytes(self) -> int:
        """Return the free bytes of the disk as of a moment ago, because each system call takes a while."""
        now_s = time.monotonic()
        if now_s >= self._look_again_s:
            self._free_bytes, self._look_again_s = shutil.disk_usage(self._directory).free, now_s + _REFRESH_S
        return self._free_bytes

    @staticmethod
    def check(directory: Path, after: Position) -> SpoolReport:
        """Read all records on disk and report damage; damaged records up to `after` are committed, so not lost."""
        seen: list[int | _Place] = []
        for path in _segments(directory):
            seen += (each.sequence if isinstance(each, SpoolGroup) else each for each in _groups(path, after))
        places = [each for each in seen if isinstance(each, _Place)]
        return SpoolReport(
            records=len(seen) - len(places),
            torn=tuple(str(place) for place in places if place.is_torn),
            damaged=tuple(str(place) for place in places if not place.is_torn),
            loss=_loss(seen, after),
        )

    def recover(self, after: Position) -> Iterator[SpoolGroup]:
        """Yield the groups on disk beyond `after`, oldest first; when exhausted, `lost` counts the damaged records."""
        seen: list[int | _Place] = []
        for path in _segments(self._directory):
            for each in _groups(path, after):
                seen.append(each.sequence if isinstance(each, SpoolGroup) else each)
                if isinstance(each, SpoolGroup):
                    yield each
                elif isinstance(each, _Place):
                    self.is_damaged = self.is_damaged or not each.is_torn
                    log.warning("spool: %s", each)
                    if each.error is not None and not self._is_read_only:
                        (self._directory / f"{each.latest:020d}.unreadable").write_bytes(each.body)
                        self._set_aside.add(each.latest)
        self.lost = _loss(seen, after)

    def append(self, batches: Sequence[SpanBatch]) -> list[SpoolGroup]:
        """Write the batches and sync them: all are durable on return, or none was stored.

        Raises:
            Overloaded: the disk is full or failing.
        """
        groups, buffers = [], []
        for number, batch in enumerate(batches, self._sequence + 1):
            body = batch.to_buffers()
            size = sum(len(memoryview(buffer)) for buffer in body)
            checksum = zlib.crc32(_NUMBERS.pack(size, number))
            for buffer in body:
                checksum = zlib.crc32(buffer, checksum)
            buffers += [_HEADER.pack(_MAGIC, checksum, size, number), *body]
            # The batch that waits for its commit uses the buffers that are written. The decoder's columns would take
            # several times as much memory, because columns that were decoded together are only freed together.
            groups.append(SpoolGroup(sequence=number, batch=SpanBatch.from_streams(body[1:]), nbytes=size))
        self._write(buffers, groups[-1].sequence)
        self._sequence = groups[-1].sequence
        return groups

    def release(self, sequence: int) -> None:
        """Drop the groups up to `sequence`; files that hold nothing else are removed."""
        while sequence + 1 in self._set_aside:
            sequence += 1
        for segment in [segment for segment in self._old if segment.last_sequence <= sequence]:
            segment.path.unlink(missing_ok=True)
            self._old.remove(segment)

    def close(self) -> None:
        """Stop writing; the active segment is removed by the next start if all of it is committed."""
        self.rotate()

    def _write(self, buffers: list[pa.Buffer | bytes], last_sequence: int) -> None:
        try:
            segment = self._segment(last_sequence)
        except OSError as error:
            raise _refusal(error) from error
        try:
            size = _write_all(self._file, buffers)
            _sync(self._file)
        except OSError as error:
            self._undo(segment, last_sequence)
            raise _refusal(error) from error
        segment.size += size
        segment.last_sequence = last_sequence
        if segment.size >= _SEGMENT_BYTES:
            self.rotate()

    def _segment(self, sequence: int) -> _Segment:
        if self._active is None:
            path = self._unused(sequence)
            self._file = _create(path)
            self._active = _Segment(path, sequence - 1)
        return self._active

    def _unused(self, sequence: int) -> Path:
        while True:
            self._opened += 1
            path = self._directory / f"{sequence:020d}-{self._opened:06d}{_SUFFIX}"
            if not path.exists():  # an earlier start may have left an empty file
                return path

    def _undo(self, segment: _Segment, last_sequence: int) -> None:
        """Cut a failed append off. If a part stays after a crash, it is harmless: a span is stored only once.

        If it cannot be cut off, its sequence numbers are not used again, because a restart could find two groups with
        the same number.
        """
        try:
            os.ftruncate(self._file, segment.size)
            os.lseek(self._file, segment.size, os.SEEK_SET)
        except OSError:
            log.exception("spool: cannot undo a failed append; starting a new segment")
            self._sequence = segment.last_sequence = last_sequence
            self.rotate()

    def rotate(self) -> None:
        """Write the next groups to another file. For the thread that appends."""
        if self._active is not None:
            os.close(self._file)
            self._old.append(self._active)
            self._active = None


def _refusal(error: OSError) -> Overloaded:
    return Overloaded(f"the spool cannot be written: {error.strerror or error}", retry_after_s=5)


def _write_all(file: int, buffers: Iterable[pa.Buffer | bytes]) -> int:
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    views = [view for view in views if len(view)]
    total = 0
    while views:
        written = os.writev(file, views[:_VECTORS])
        total += written
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if written:
            views[0] = views[0][written:]
    return total


def _create(path: Path) -> int:
    """Create a file that survives a power cut."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _sync_directory(path.parent)
    except OSError:
        os.close(file)
        path.unlink(missing_ok=True)
        raise
    return file


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _segments(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{_SUFFIX}"))


def _last_sequence(path: Path) -> int:
    return max((each[0] for each in _read(path) if not isinstance(each, _Place)), default=0)


def _read(path: Path) -> Iterator[tuple[int, pa.Buffer] | _Place]:
    """Read a segment: the number and the body of each whole record, and the damaged places between records."""
    if path.stat().st_size == 0:
        return
    with pa.memory_map(str(path)) as file:
        data = file.read_buffer()
    offset = 0
    while offset <= data.size - _HEADER.size:
        record = _record_at(data, offset)
        if record is not None:
            yield record
            offset += _HEADER.size + record[1].size
            continue
        following = _after_damage(data, offset)
        yield _place(path, data, offset, following)
        offset = following


def _groups(path: Path, after: Position) -> Iterator[SpoolGroup | int | _Place]:
    """Read a segment: each group beyond `after`, the number of each earlier one, and damaged places between them."""
    for each in _read(path):
        if isinstance(each, _Place) or each[0] <= after.sequence:
            yield each if isinstance(each, _Place) else each[0]
            continue
        sequence, body = each
        try:
            group = SpoolGroup(sequence=sequence, batch=SpanBatch.from_buffer(body), nbytes=body.size)
        except (pa.ArrowException, OSError, struct.error) as error:
            yield _Place(path=path, offset=0, latest=sequence, body=body, is_torn=False, error=error)
        else:
            yield group


def _record_at(data: pa.Buffer, offset: int) -> tuple[int, pa.Buffer] | None:
    """Return the number and the body of the record at an offset, or None if there is no whole one."""
    if offset > data.size - _HEADER.size:
        return None
    magic, checksum, size, sequence = _HEADER.unpack(data.slice(offset, _HEADER.size).to_pybytes())
    start = offset + _HEADER.size
    if magic != _MAGIC or start + size > data.size:
        return None
    body = data.slice(start, size)
    return (sequence, body) if zlib.crc32(body, zlib.crc32(_NUMBERS.pack(size, sequence))) == checksum else None


def _after_damage(data: pa.Buffer, offset: int) -> int:
    """Return the start of the next record, or the end of the file.

    The length in the header is used if it leads to a record or to the end; else the next whole record is searched.
    """
    magic, _, size, _ = _HEADER.unpack(data.slice(offset, _HEADER.size).to_pybytes())
    end, file_end = offset + _HEADER.size + int(size), int(data.size)
    if magic == _MAGIC and (end == file_end or _find(data, _MAGIC, end, end + len(_MAGIC)) == end):
        return end  # not searched within: a body may contain bytes that look like a record
    while (offset := _find(data, _MAGIC, offset + 1, file_end)) >= 0:
        if _record_at(data, offset) is not None:
            return offset
    return file_end


def _place(path: Path, data: pa.Buffer, offset: int, following: int) -> _Place:
    magic, _, size, sequence = _HEADER.unpack(data.slice(offset, _HEADER.size).to_pybytes())
    start = offset + _HEADER.size
    body = data.slice(start, max(following - start, 0))
    if magic == _MAGIC:  # a torn body is shorter than its length; if it is a whole batch, the length is damaged
        is_torn = following == data.size < start + size and SpanBatch.count_rows(body) is None
    else:  # a power cut may leave zeros
        is_torn = following == data.size and not bytes(data.slice(offset)).strip(b"\0")
    latest = min(sequence, int(name)) if (name := path.name[:_DIGITS]).isdigit() else sequence
    return _Place(path=path, offset=offset, latest=latest, body=body, is_torn=is_torn)


def _loss(seen: Iterable[int | _Place], after: Position) -> SpoolLoss:
    """Count the damaged, uncommitted records, from whole records and damaged places in the order of the files.

    Records are numbered consecutively. So the numbers that are missing between two whole records tell which records
    were in a damaged place, whatever its header says. A place between consecutive numbers held no acknowledged record.
    """
    rows: list[int | None] = []
    run: list[_Place] = []
    previous: int | None = None
    for each in [*seen, None]:
        if isinstance(each, _Place):
            run.append(each)
            continue
        if run:
            rows += _lost_rows(run, previous, each, after)
        run, previous = [], each
    counts = [count for count in rows if count is not None]
    return SpoolLoss(records=len(rows), rows=sum(counts), uncounted=len(rows) - len(counts))


def _lost_rows(run: Sequence[_Place], previous: int | None, following: int | None, after: Position) -> list[int | None]:
    """Return the number of lost rows of each record lost between two whole records; None if it is unknown."""
    places = [place for place in run if not place.is_torn]
    if previous is not None and following is not None:
        numbers = range(previous + 1, following)
    elif following is not None:
        numbers = range(following - len(places), following)
    else:
        first = places[0].latest if previous is None and places else (previous or 0) + 1
        numbers = range(first, first + len(places))
    lost: list[int | None] = []
    for index, number in enumerate(numbers):
        if number > after.sequence:
            count = SpanBatch.count_rows(places[index].body) if index < len(places) else None
            committed = after.rows if number == after.sequence + 1 else 0
            lost.append(None if count is None else max(count - committed, 0))
    return lost


def _find(data: pa.Buffer, needle: bytes, start: int, end: int) -> int:
    """Return the next offset of `needle` before `end`, or -1."""
    view, step = memoryview(data)[:end], 1 << 20
    for offset in range(start, len(view), step):
        place = bytes(view[offset : offset + step + len(needle) - 1]).find(needle)
        if place >= 0:
            return offset + place
    return -1
