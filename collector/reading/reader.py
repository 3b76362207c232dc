"""The thread that keeps readings up with commits."""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

import pyarrow as pa

from collector.conventions.own import OwnKeys
from collector.reading.process import ReadingFailed, ReadingProcess, Which
from collector.reading.unreadable import unreadable_span
from storage.errors import Overloaded
from storage.reading_batch import ReadingBatch, reading_batch
from storage.readings import EVERYTHING, Limits, Progress, Readings, ReadingState, TraceKey, Window

log = logging.getLogger(__name__)

_LIMITS = Limits(rows=8192, nbytes=16 << 20)
"""One row group's worth of spans; larger spans in smaller numbers. A guess."""

_TRACE_LIMITS = Limits(rows=10_000, nbytes=64 << 20)
"""Several traces are read in fewer at once until they fit; of a single one that does not, the first are added up."""

_PATIENCE_S = 5.0
"""While ingest is behind, reading waits this long at most before its next step."""

_SPANS_A_SECOND, _LONGEST_DELAY_S = 500, 60.0
"""A trace that grows is added up again after a second for each so many spans, so that a long one is not all the work.
Guesses: an agent's trace of 50 spans is up to date within a tenth of a second, one of 10,000 within 20 s."""


class _Due(NamedTuple):
    at_s: float  # monotonic
    spans: int


class Reader:
    """Reads committed spans, newest commits first of all, then what an older edition had read.

    What was read is stored together with how far, so that each span is read once whatever happens in between.
    """

    def __init__(
        self, readings: Readings, process: ReadingProcess, *, edition: str, ingest_is_behind: Callable[[], bool]
    ) -> None:
        self._readings = readings
        self._process = process
        self._edition = edition
        self._ingest_is_behind = ingest_is_behind
        self._stopping = threading.Event()
        self._quiet = threading.Condition()
        self._asked = self._answered = 0  # by `wait_read`: questions so far, and those before the last idle moment
        self._due: dict[TraceKey, _Due] = {}
        self._state = ReadingState(edition=None, seq=-1, log_batch=0, again_after=-1, again_until=-1)
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def close(self) -> None:
        """Stop; what is not read yet is read by the next start."""
        self._stopping.set()
        self._readings.wake()
        self._process.kill()
        self._thread.join()
        self._process.close()

    def wait_read(self, timeout_s: float) -> bool:
        """Wait until everything that is committed now is read; False when that took too long."""
        with self._quiet:
            self._asked += 1
            mine = self._asked
            self._readings.wake()
            return self._quiet.wait_for(lambda: self._answered >= mine, timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._begin()
                self._read_on()
            except (Overloaded, ReadingFailed) as error:
                if not self._stopping.is_set():
                    log.warning("reading pauses: %s", error)
            except Exception:  # noqa: BLE001 - the top of a thread: a bug must not end reading for good
                log.exception("reading failed; it starts again")
            self._stopping.wait(5)

    def _begin(self) -> None:
        state = self._readings.state()
        if state.edition not in {None, self._edition}:
            log.info("spans are read in another way than before: all are read again, after those that are new")
            state = replace(state, again_after=-1, again_until=state.seq)
        self._state = replace(state, edition=self._edition)
        self._due = dict.fromkeys(self._readings.due(), _Due(0.0, 1))

    def _read_on(self) -> None:
        while not self._stopping.is_set():
            self._let_ingest_go_first()
            asked = self._asked  # before looking: what is committed after this may be missed
            if not (self._notice_logs() or self._read_new() or self._add_up_due() or self._read_again()):
                if not self._due:
                    with self._quiet:
                        self._answered = asked
                        self._quiet.notify_all()
                self._readings.wait_for_spans(self._until_due())

    def _let_ingest_go_first(self) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while self._ingest_is_behind() and time.monotonic() < deadline_s and not self._stopping.wait(0.05):
            pass

    def _until_due(self) -> float:
        return min([1.0, *(max(due.at_s - time.monotonic(), 0.01) for due in self._due.values())])

    def _notice_logs(self) -> bool:
        """Let the traces be read again to which log records have come."""
        until = self._readings.last_commit
        if until <= self._state.log_batch:
            return False
        keys = self._readings.traces_of_logs(after=self._state.log_batch, until=until)
        if not keys:  # nothing to store: to look again after a restart costs little
            self._state = replace(self._state, log_batch=until)
            return False
        self._store(_NOTHING, replace(self._state, log_batch=until), replaces=False, due=keys)
        self._due |= {key: _Due(time.monotonic(), 1) for key in keys}
        return True

    def _read_new(self) -> bool:
        window = self._readings.window(after=self._state.seq, until=EVERYTHING, limits=_LIMITS)
        if window is None:
            return False
        due = _unfinished(window)
        state = replace(self._state, seq=window.last_seq)
        self._store(self._read(window, "all"), state, replaces=False, due=due)
        self._put_off(due, window)
        return True

    def _put_off(self, keys: list[TraceKey], window: Window) -> None:
        for key in keys:
            count = window.span_counts[key]
            delay_s = min(count / _SPANS_A_SECOND, _LONGEST_DELAY_S)
            known = self._due.get(key)
            at_s = known.at_s if known else time.monotonic() + delay_s
            self._due[key] = _Due(at_s, count)

    def _add_up_due(self) -> bool:
        keys = self._due_now()
        if not keys:
            return False
        window = self._readings.traces(keys, until=self._state.seq, limits=_TRACE_LIMITS)
        while window is not None and window.is_cut and len(keys) > 1:  # then it is not known which of them are whole
            keys = keys[: len(keys) // 2]
            window = self._readings.traces(keys, until=self._state.seq, limits=_TRACE_LIMITS)
        batch = _NOTHING if window is None else self._read(window, "logged")
        self._store(batch, self._state, replaces=True, finished=keys)
        for key in keys:
            del self._due[key]
        return True

    def _due_now(self) -> list[TraceKey]:
        """Some traces that are due, few enough to be read together."""
        now_s, room = time.monotonic(), _LIMITS.rows
        keys: list[TraceKey] = []
        for key, due in self._due.items():
            if due.at_s <= now_s and (not keys or due.spans <= room):
                keys.append(key)
                room -= due.spans
        return keys

    def _read_again(self) -> bool:
        state = self._state
        if state.again_after >= state.again_until:
            return False
        window = self._readings.window(after=state.again_after, until=state.again_until, limits=_LIMITS)
        if window is None:
            self._store(_NOTHING, replace(state, again_after=state.again_until), replaces=False)
            return True
        due = _unfinished(window)
        self._store(self._read(window, "all"), replace(state, again_after=window.last_seq), replaces=True, due=due)
        self._put_off(due, window)
        return True

    def _store(
        self,
        batch: ReadingBatch,
        state: ReadingState,
        *,
        replaces: bool,
        due: Sequence[TraceKey] = (),
        finished: Sequence[TraceKey] = (),
    ) -> None:
        self._readings.store(Progress(batch=batch, state=state, replaces=replaces, due=due, finished=finished))
        self._state = state

    def _read(self, window: Window, which: Which) -> ReadingBatch:
        """Read a window; where it cannot be read at once, by halves, until the trace is alone that is to blame."""
        keys = sorted(window.span_counts)
        try:
            return self._process.read(window, which)
        except ReadingFailed as error:
            if self._stopping.is_set():
                raise
            if len(keys) > 1:
                middle = len(keys) // 2
                return _joined([self._read(window.only(part), which) for part in (keys[:middle], keys[middle:])])
            log.warning("trace %s could not be read and is tried once more: %s", keys[0].trace_id, error)
        try:
            return self._process.read(window, which)
        except ReadingFailed as error:
            if self._stopping.is_set():
                raise
            log.error("trace %s cannot be read: %s", keys[0].trace_id, error)  # noqa: TRY400 - the text says it
            return _unreadable(window, error) if which == "all" else _NOTHING  # its spans keep what was read of them


def edition_of(own: OwnKeys) -> str:
    """What tells apart how spans are read: the code that reads them, and the operator's own keys."""
    digest = hashlib.sha256(json.dumps(own.projects, sort_keys=True).encode())
    conventions = resources.files("collector").joinpath("conventions")
    for file in (*_sources(conventions), resources.files("storage").joinpath("reading_batch.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _sources(folder: Traversable) -> list[Traversable]:
    found: list[Traversable] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _sources(entry)
        elif entry.name.endswith(".py"):
            found.append(entry)
    return found


_NOTHING = reading_batch([], [])


def _unfinished(window: Window) -> list[TraceKey]:
    """The traces that are to be added up later: of some there are more spans, or there may be more log records."""
    return [key for key in window.span_counts if window.is_cut or key not in window.whole]


def _unreadable(window: Window, error: ReadingFailed) -> ReadingBatch:
    reading = unreadable_span(str(error))
    return reading_batch([(seq, {}, reading) for seq in window.spans.column("seq").to_pylist()], [])


def _joined(batches: Sequence[ReadingBatch]) -> ReadingBatch:
    return ReadingBatch(
        readings=pa.concat_tables([batch.readings for batch in batches]),
        tool_calls=pa.concat_tables([batch.tool_calls for batch in batches]),
        traces=pa.concat_tables([batch.traces for batch in batches]),
    )
