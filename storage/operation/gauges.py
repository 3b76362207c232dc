"""Gauges: lag behind ingest, backlogs, and bytes on the disk."""

import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import duckdb

from storage import sql
from storage.engine.database import Database
from storage.engine.row_cache import RowCache
from storage.timing import Times

_KEPT_S: Final = 0.5
"""How long the backlogs are cached, so that one read serves a whole scrape of metrics. A guess."""

_BLOCK_BYTES: Final = 512  # the unit of `st_blocks` on every file system

_JOBS: Final = ("ready", "waiting", "held", "claimed")
_ALERTS: Final = ("open", "acknowledged")
_DELETIONS: Final = ("deleting", "erasing")
_DELIVERIES: Final = ("pending", "delivered", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """Number of waiting spans, and the time since the first of them was received."""

    spans: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCounts:
    """Backlogs. Each mapping has a number for each possible state."""

    stale: Behind  # spans whose traces have outdated sums
    unmatched: Behind
    jobs: Mapping[str, int]
    alerts: Mapping[str, int]
    deliveries: Mapping[str, int]
    deletions: Mapping[str, int]
    results: int  # over the life of the data directory
    unwatched_results: int
    untold_results: int


_RECENT_US: Final = 3_600 * 10**6
_BY_CHANCE: Final = 2  # so many equal calls without a response id may be a coincidence; a guess
_LEAST_SHARE: Final = 2 / 3
"""Minimum share of equal calls, among the calls of a model in the scope that has fewer, for calls to count as recorded
twice. It does not apply to calls with equal response ids.

Two libraries that record the same calls do so for every call. The share may be less than 1 because calls start late or
lack usage in one scope. Two different calls look equal if they overlap and have the same usage; more than half of the
calls do only if the other scope nearly always has a call under way.
"""


class RecordedTwice(NamedTuple):
    """Two instrumentation scopes that recorded the same model calls, each in other traces."""

    tenant: str
    project: str
    scope: str
    other_scope: str
    calls: int
    is_sample: bool  # only some of the received calls were compared, so that more may be recorded twice
    expendable: str | None  # the scope whose traces hold fewer other spans, so that it can be turned off


class _Calls(NamedTuple):
    """Count of calls of one minute and model: those that two scopes recorded, or, without `other_scope`, all."""

    tenant: str
    project: str
    scope: str
    other_scope: str | None
    model: str
    has_id: bool
    calls: int
    received_us: int
    scope_more: int
    other_more: int
    is_sample: bool


class _RecentlyTwice:
    """Calls of the last hour that two scopes recorded. Thread-safe.

    Each look reads only the spans since the look before the last one, so that its cost depends on the traffic, not on
    the table. Two looks back, because the second span of a call may arrive after the first was read. The first two
    looks read an hour.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._first = self._after = -1
        self._calls: list[_Calls] = []

    def look(self, until: int, now_us: int) -> list[RecordedTwice]:
        """Find pairs of scopes that recorded the same calls; `until` is the number of the last committed span."""
        since_us = now_us - _RECENT_US
        with self._lock:
            if until > self._after:
                params = {"first": self._first, "after": self._after, "until": until, "since_us": since_us}
                with self._database.cursor(may_share=False) as cursor:
                    rows = cursor.execute(sql.query("calls_recorded_twice"), params).fetchall()
                self._calls += [_Calls(*row) for row in rows]
                self._first, self._after = self._after, until
            self._calls = [each for each in self._calls if each.received_us >= since_us]
            totals: Counter[tuple[str, ...]] = Counter()
            by_scopes: dict[tuple[str, str, str, str], list[_Calls]] = {}
            for each in self._calls:
                if each.other_scope is None:
                    totals[each.tenant, each.project, each.scope, each.model] += each.calls
                else:
                    key = (each.tenant, each.project, each.scope, each.other_scope)
                    by_scopes.setdefault(key, []).append(each)
        pairs = [_recorded_twice(key, alike, totals) for key, alike in by_scopes.items()]
        return [pair for pair in pairs if pair is not None]


def _recorded_twice(
    scopes: tuple[str, str, str, str], alike: Sequence[_Calls], totals: Counter[tuple[str, ...]]
) -> RecordedTwice | None:
    tenant, project, scope, other_scope = scopes
    by_model: Counter[str] = Counter()
    for each in alike:
        by_model[each.model] += each.calls
    in_both = {model: min(totals[tenant, project, each, model] for each in (scope, other_scope)) for model in by_model}
    doubled = {model for model, calls in by_model.items() if calls >= _LEAST_SHARE * in_both[model]}
    counted = [each for each in alike if each.has_id or each.model in doubled]
    calls = sum(each.calls for each in counted)
    if calls <= _BY_CHANCE and not any(each.has_id for each in counted):
        return None
    more, other_more = sum(each.scope_more for each in alike), sum(each.other_more for each in alike)
    return RecordedTwice(
        tenant=tenant,
        project=project,
        scope=scope,
        other_scope=other_scope,
        calls=calls,
        is_sample=any(each.is_sample for each in alike),
        expendable=None if more == other_more else scope if more < other_more else other_scope,
    )


class Gauges:
    """Backlogs and sizes on disk. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._matching = RowCache(database, sql.query("matching_state"))
        self._twice = _RecentlyTwice(database)
        self._looking = threading.Lock()
        self._looked_at_s = float("-inf")
        self._standing: WaitingCounts | None = None

    @property
    def commits(self) -> Times:
        """Return the durations of the transactions that were committed since the start."""
        return self._database.commits.times

    @property
    def file_bytes(self) -> int:
        """Return the size of the database file."""
        return self._database.path.stat().st_size

    @property
    def disk_bytes(self) -> Mapping[str, int]:
        """Return the bytes on the disk by part of the data directory: database, its log, spool, and other."""
        database = self._database.path
        log = database.with_name(f"{database.name}.wal")
        sizes = {"database": _on_disk(database), "log": _on_disk(log), "spool": _in_folder(database.parent / "spool")}
        folders = [database.parent, *(each for each in database.parent.iterdir() if each.is_dir())]
        return sizes | {"other": max(sum(map(_in_folder, folders)) - sum(sizes.values()), 0)}

    def look(self) -> WaitingCounts:
        """Return the backlogs, at most half a second old."""
        with self._looking:
            if self._standing is None or time.monotonic() - self._looked_at_s > _KEPT_S:
                self._standing, self._looked_at_s = self._look(), time.monotonic()
            return self._standing

    def unmatched(self) -> Behind:
        """Return how many spans wait to be matched, and for how long."""
        ((seq, committed),) = self._matching.rows()
        if seq >= committed:
            return Behind(spans=0, seconds=0.0)
        with self._database.cursor() as cursor:
            return _behind(cursor, seq, time.time_ns() // 1000)

    def calls_recorded_twice(self, now_us: int) -> list[RecordedTwice]:
        """Find calls of models of the last hour that two scopes recorded in two traces, so that they count twice."""
        ((_, committed),) = self._matching.rows()
        return self._twice.look(committed, now_us)

    def _look(self) -> WaitingCounts:
        with self._database.snapshot() as cursor:
            now_us = time.time_ns() // 1000
            jobs = [row[:2] for row in cursor.execute(sql.query("count_jobs"), {"now_us": now_us}).fetchall()]
            ((matched, added_up),) = cursor.execute(sql.query("cursors")).fetchall()
            ((results, watched, exported),) = cursor.execute(sql.query("result_numbers")).fetchall()
            return WaitingCounts(
                stale=_behind(cursor, added_up, now_us),
                unmatched=_behind(cursor, matched, now_us),
                jobs=dict.fromkeys(_JOBS, 0) | dict(jobs),
                alerts=dict.fromkeys(_ALERTS, 0) | _pairs(cursor, sql.query("alerts_by_state")),
                deliveries=dict.fromkeys(_DELIVERIES, 0) | _pairs(cursor, sql.query("deliveries_by_state")),
                deletions=dict.fromkeys(_DELETIONS, 0) | _pairs(cursor, sql.query("deletions_by_state")),
                results=results,
                unwatched_results=results - watched,
                untold_results=results - exported,
            )


def _behind(cursor: duckdb.DuckDBPyConnection, seq: int, now_us: int) -> Behind:
    ((spans, since_ns),) = cursor.execute(sql.query("spans_behind"), {"seq": seq}).fetchall()
    return Behind(spans=spans, seconds=0.0 if since_ns is None else max(now_us / 1e6 - since_ns / 1e9, 0.0))


def _pairs(cursor: duckdb.DuckDBPyConnection, select: str) -> dict[str, int]:
    rows: Sequence[tuple[str, int]] = cursor.execute(select).fetchall()
    return dict(rows)


def _on_disk(path: Path) -> int:
    try:
        return path.stat().st_blocks * _BLOCK_BYTES
    except OSError:
        return 0


def _in_folder(folder: Path) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(_on_disk(Path(entry.path)) for entry in entries)
    except OSError:
        return 0
