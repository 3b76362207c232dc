"""Spans that are durable but not committed yet, dealt out in commits."""

import threading
import time
from collections import deque
from dataclasses import dataclass

from storage.batch import SpanBatch, concatenate
from storage.database import ROW_GROUP_ROWS
from storage.spool import Group, Position

MAX_COMMIT_ROWS = ROW_GROUP_ROWS
"""Larger commits cost the same CPU a span and more disk (8,192 rows: 349 bytes a span, 32,768 rows: 464)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that are committed together, and the position of the spool after them."""

    batch: SpanBatch
    after: Position
    groups_done: int
    nbytes_done: int


class Backlog:
    """Durable groups that are not committed yet, oldest first, counted in bytes."""

    def __init__(self, position: Position) -> None:
        self._groups: deque[tuple[float, Group]] = deque()
        self._changed = threading.Condition()
        self._position = position
        self._rows = 0
        self._closed = False
        self.nbytes = 0

    def add(self, groups: list[Group]) -> None:
        """Put groups behind all others."""
        now = time.monotonic()
        with self._changed:
            for group in groups:
                self._groups.append((now, group))
                self._rows += group.batch.spans.num_rows
                if group.sequence == self._position.sequence + 1:  # of which a part is committed, if this is a start
                    self._rows -= self._position.rows
                self.nbytes += group.nbytes
            self._changed.notify_all()

    def close(self) -> None:
        """Let nothing wait for more: what is here is due at once."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait_empty(self, timeout_s: float) -> bool:
        """Wait until all was taken out; False when that took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._groups, timeout_s)

    def next_chunk(self, interval_s: float, *, most_rows: int = MAX_COMMIT_ROWS) -> Chunk | None:
        """Whole row groups as soon as there are some; all there is after `interval_s`. None once closed and empty.

        With fewer `most_rows`, that many at once: the next rows are those of the chunk before until it is `done`.
        """
        with self._changed:
            while True:
                due_in_s = self._groups[0][0] + interval_s - time.monotonic() if self._groups else None
                if self._rows >= most_rows or (due_in_s is not None and (due_in_s <= 0 or self._closed)):
                    return self._take(most_rows)
                if self._closed and not self._groups:
                    return None
                self._changed.wait(due_in_s)

    def done(self, chunk: Chunk) -> None:
        """Take out what was committed."""
        with self._changed:
            for _ in range(chunk.groups_done):
                self._groups.popleft()
            self._rows -= chunk.batch.spans.num_rows
            self.nbytes -= chunk.nbytes_done
            self._position = chunk.after
            self._changed.notify_all()

    def _take(self, most_rows: int) -> Chunk:
        rows = min(self._rows, most_rows)
        wanted = rows - rows % ROW_GROUP_ROWS or rows
        batches, done, nbytes = [], 0, 0
        sequence, skip = self._position.sequence, self._position.rows
        for _, group in self._groups:
            if group.sequence != sequence + 1:  # the group that was committed in part is lost; this is another one
                skip = 0
            spans = group.batch.spans.slice(skip, wanted)
            batches.append(SpanBatch(spans=spans, resources=group.batch.resources, scopes=group.batch.scopes))
            wanted -= spans.num_rows
            if skip + spans.num_rows < group.batch.spans.num_rows:
                skip += spans.num_rows
                break
            sequence, skip, done, nbytes = group.sequence, 0, done + 1, nbytes + group.nbytes
            if not wanted:
                break
        return Chunk(concatenate(batches), Position(sequence, skip), done, nbytes)
