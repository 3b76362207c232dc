"""The thread that updates the sums of growing traces, and re-reads spans if conventions, keys or prices changed."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import pyarrow as pa

from collector.follower import CatchUpBarrier, FollowerThread, IngestPriority
from collector.reading.traces import bare_sums, sums_of
from storage.errors import BadQuery
from storage.ingest.backlog import VALUE_ERRORS
from storage.ingest.meaning import Reads
from storage.ingest.trace_meanings import TraceChange, TraceMeanings, TraceSums
from storage.ingest.windows import SUMMED_SPANS, Limits, TraceKey

log = logging.getLogger(__name__)

_LIMITS: Final = Limits(rows=8192, nbytes=16 << 20)
"""Limits of spans that are re-read together: one row group, or fewer if spans are large. A guess."""

_PAUSE_S: Final = 5.0  # after a failure

_TRACE_LIMITS: Final = Limits(rows=10_000, nbytes=64 << 20)
"""Groups of traces are halved until their spans fit; a single trace that does not fit is read without most texts."""

_LONG_TRACE_LIMITS: Final = Limits(rows=SUMMED_SPANS, nbytes=64 << 20)
"""Of a trace that still does not fit, only the first `summed_span_count` spans are summed. 99,999
calls of models and tools took 5.6 s of processor time and 208 MiB, 10,001 took 0.6 s."""

_MOST_LONG: Final = 1_000  # in `_long`. A guess: fewer long traces grow at the same time

_SPANS_A_SECOND, _LONGEST_DELAY_S = 500, 60.0
"""A growing trace is summed again after a second for each 500 of its new spans. If it does not fit into
`_TRACE_LIMITS`, all of its spans count, so that it does not block others. Guesses: an agent's trace of 50 new spans is
up to date within a tenth of a second, one of 10,000 within 20 s."""

_TAKEN_ALONG_S: Final = 0.2
"""When a trace is due, those that become due within this time are summed with it, so that most traces of a commit are
summed at once, although their delays differ. A guess."""

REST: Final = 1.0
"""Rest in seconds for each second of re-reading on a server, whose clients share the processors. Without it, queries
over ten million spans took two to three times as long for ten minutes."""

_OLDER_TRACES: Final = 500  # older traces that are summed together. A guess: as many spans as fit, at 8 to 20 a trace


_REFUSALS: Final = (BadQuery, *VALUE_ERRORS, pa.ArrowException, ValueError)
"""Errors of traces whose sums can never be stored, however often it is tried."""

_MOST_SET_ASIDE: Final = 10_000  # traces that are remembered; a guess: more fail only if all do


class _Due(NamedTuple):
    at_s: float  # monotonic
    spans: int
    batch: int  # of the first commit that is not in its sums


class TraceUpdater:
    """Thread that sums traces after commits have changed them, long ones less often.

    The sums are stored together with the last commit that they include, so that a restart continues from there. A trace
    whose sums cannot be stored is found by bisection and set aside: it has a row without sums, and is tried again when
    it grows and after the next start.
    """

    def __init__(
        self, meanings: TraceMeanings, reads: Reads, *, ingest_is_behind: Callable[[], bool], rest: float = 0.0
    ) -> None:
        """Set up the thread. It rests `rest` seconds for each second spent on re-reading spans."""
        self._meanings = meanings
        self._rest = rest
        self._rests_until_s = 0.0  # monotonic
        self._reads = reads
        self._ingest_first = IngestPriority(ingest_is_behind)
        self._caught_up = CatchUpBarrier()
        self._due: dict[TraceKey, _Due] = {}
        self._set_aside: dict[TraceKey, str] = {}  # and why
        self._long: dict[TraceKey, int] = {}  # traces that do not fit, and their spans: each is much work
        self._last_batch = self._reported_batch = 0
        self._is_current = False  # whether no spans are left to re-read
        self._thread = FollowerThread(self._go_on, name="traces", doing="adding up traces", log=log, pause_s=_PAUSE_S)

    @property
    def set_aside(self) -> Mapping[TraceKey, str]:
        """Return the traces that cannot be summed, and why."""
        return self._set_aside.copy()

    def start(self) -> None:
        """Start summing traces."""
        self._thread.start()

    def close(self) -> None:
        """Stop; traces that are not summed yet are summed after the next start."""
        self._thread.close(self._meanings.changes.wake)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until everything committed by now is summed; return False if that took too long."""
        return self._caught_up.wait(timeout_s, self._meanings.changes.wake)

    def _go_on(self) -> None:
        while not self._thread.stopping.is_set():
            self._ingest_first.wait(self._thread.stopping)
            requested = self._caught_up.requested
            self._notice()
            if not (self._add_up_due() or self._read_older()):
                self._ingest_first.caught_up()
                if not self._due and self._is_current and self._has_seen_all():
                    self._caught_up.tell(requested)
                self._meanings.changes.wait(self._until_due())

    def _has_seen_all(self) -> bool:
        return not self._caught_up.is_awaited or self._meanings.last_batch() <= self._last_batch

    def _until_due(self) -> float:
        until_s = [due.at_s for due in self._due.values()]
        if not self._is_current:
            until_s.append(self._rests_until_s)
        return min([1.0, *(max(each_s - time.monotonic(), 0.01) for each_s in until_s)])

    def _notice(self) -> None:
        changes, batch, is_complete = self._meanings.changes.take()
        if not is_complete:
            changed, last_batch = self._meanings.changed()
            self._put_off(changed)
            batch = max(batch, last_batch)
        self._put_off(changes)
        self._last_batch = max(self._last_batch, batch)

    def _put_off(self, changes: Mapping[TraceKey, TraceChange]) -> None:
        now_s = time.monotonic()
        for key, change in changes.items():
            known = self._due.get(key)
            if known is None:
                spans = max(change.spans, self._long.get(key, 0))
                delay_s = min(spans / _SPANS_A_SECOND, _LONGEST_DELAY_S)
                self._due[key] = _Due(now_s + delay_s, change.spans, change.batch)
            else:
                self._due[key] = known._replace(spans=known.spans + change.spans)

    def _add_up_due(self) -> bool:
        keys = self._due_now()
        if not keys:
            self._tell_all_added_up()
            return False
        keys = self._add_up(keys)
        for key in keys:
            del self._due[key]
        return True

    def _add_up(self, keys: list[TraceKey]) -> list[TraceKey]:
        """Sum traces, and return those that were: fewer if their spans do not fit, or if a trace cannot be summed."""
        try:
            return self._store_sums(keys)
        except _REFUSALS as error:
            if len(keys) == 1:
                self._put_aside(keys[0], error)
                return keys
            log.debug("cannot aggregate %d traces together; retrying with half of them: %s", len(keys), error)
        return self._add_up(keys[: len(keys) // 2])

    def _store_sums(self, keys: list[TraceKey]) -> list[TraceKey]:
        of = self._meanings.spans(keys, _TRACE_LIMITS)
        while of.is_cut and len(keys) > 1:  # then it is not known which of them are whole
            keys = keys[: len(keys) // 2]
            of = self._meanings.spans(keys, _TRACE_LIMITS)
        if of.is_cut:
            of = self._meanings.long_trace(keys[0], _LONG_TRACE_LIMITS)
            self._remember_long(keys[0], of.spans.num_rows)
        traces, tool_calls = sums_of(of.spans)
        batch = self._added_up(without=keys)
        self._meanings.store(TraceSums(of=of, traces=traces, tool_calls=tool_calls, batch=batch))
        self._reported_batch = batch
        for key in keys:
            self._set_aside.pop(key, None)
        return keys

    def _put_aside(self, key: TraceKey, error: Exception) -> None:
        """Store a trace without its sums, so that the others go on."""
        log.error("trace %s of tenant %r cannot be aggregated, and is set aside: %s", key.trace_id, key.tenant, error)
        if len(self._set_aside) < _MOST_SET_ASIDE:
            self._set_aside[key] = type(error.__cause__ or error).__name__  # the message may hold a value
        with suppress(*_REFUSALS):
            of = self._meanings.long_trace(key, _LONG_TRACE_LIMITS)
            if not of.spans.num_rows:
                return
            traces, tool_calls = bare_sums(of.spans)
            batch = self._added_up(without=[key])
            self._meanings.store(TraceSums(of=of, traces=traces, tool_calls=tool_calls, batch=batch, is_bare=True))

    def _remember_long(self, key: TraceKey, spans: int) -> None:
        if len(self._long) >= _MOST_LONG:
            self._long.clear()
        self._long[key] = spans

    def _added_up(self, without: Iterable[TraceKey] = ()) -> int:
        done = frozenset(without)
        return min((due.batch - 1 for key, due in self._due.items() if key not in done), default=self._last_batch)

    def _tell_all_added_up(self) -> None:
        if not self._due and self._reported_batch < self._last_batch:
            self._meanings.store_state(self._last_batch)
            self._reported_batch = self._last_batch

    def _due_now(self) -> list[TraceKey]:
        """Return due traces, few enough to be summed together."""
        now_s, room = time.monotonic(), _LIMITS.rows
        keys: list[TraceKey] = []
        if not any(due.at_s <= now_s for due in self._due.values()):
            return keys
        for key, due in self._due.items():
            if due.at_s <= now_s + _TAKEN_ALONG_S and (not keys or due.spans <= room):
                keys.append(key)
                room -= due.spans
                if room <= 0:
                    break
        return keys

    def _read_older(self) -> bool:
        """Re-read some spans that another edition of the conventions read, or sum some of their traces."""
        began_s = time.monotonic()
        if self._is_current or began_s < self._rests_until_s:
            return False
        if not self._meanings.read_older_spans(self._reads, _LIMITS):
            older = self._meanings.older_traces(self._reads, _OLDER_TRACES + len(self._set_aside))
            keys = [key for key in older if key not in self._set_aside]
            if not keys:
                self._is_current = True
                return False
            self._add_up(keys)
        ended_s = time.monotonic()
        self._rests_until_s = ended_s + self._rest * (ended_s - began_s)
        return True
