"""Detection of spans that are stored already, so that each is stored once."""

from collections.abc import Sequence
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_reader
from storage.ingest import presence
from storage.ingest.backlog import SEQ_BITS
from storage.ingest.presence import Hashes

_ANY: Final = (1 << 63) - 1  # larger than the number of any span
_KEYS_AT_ONCE: Final = 1 << 18


class KnownSpans:
    """Check for stored spans: the latest by hashes in memory, older ones by queries. For the writer's thread.

    In nearly every commit no key matches a hash. Then only spans that are older than the hashes are queried, if there
    are any. With 80,000 stored spans that start in the same seconds as the new ones, this query took 1.5 µs of CPU a
    span; comparing all keys took 2.1.
    """

    def __init__(self) -> None:
        self._recent = presence.RecentKeys()

    def read_back(self, cursor: duckdb.DuckDBPyConnection, last_commit: int) -> None:
        """Remember the spans that were stored last, before the process began."""
        since = last_commit + 1
        parameters = {"rows": self._recent.capacity}
        for keys in arrow_reader(cursor, _KEYS_AT_ONCE, sql.query("latest_keys"), parameters):
            self._recent.add(presence.key_hashes(pa.Table.from_batches([keys])))
            since = min(since, pc.min(keys.column("batch")).as_py())
        ((has_older,),) = cursor.execute(sql.query("has_spans_before"), {"batch": since}).fetchall()
        self._recent.start(since if has_older else 0)

    def add(self, hashes: Hashes, commit: int) -> None:
        """Remember spans that were committed."""
        self._recent.add(hashes, commit)

    def new_of(self, cursor: duckdb.DuckDBPyConnection, spans: pa.Table) -> tuple[pa.Table, Hashes]:
        """Return the spans that are not stored yet, each once, and their hashes."""
        hashes = presence.key_hashes(spans)
        if not spans.num_rows:
            return spans, hashes
        known = presence.repeated(spans, hashes)
        suspects = self._recent.suspects(hashes)
        if before := _ANY if suspects.any() else self._recent.since << SEQ_BITS:
            cursor.register("incoming_keys", spans.select(presence.KEY))
            known |= presence.matching(spans, _present(cursor, presence.windows(spans.column("start_time")), before))
        suspects &= ~known
        if suspects.any():
            cursor.register("incoming_keys", spans.select(presence.KEY).filter(pa.array(suspects)))
            known |= presence.matching(spans, _present(cursor, _times_of_traces(cursor), _ANY))
        if not known.any():
            return spans, hashes
        return spans.filter(pa.array(~known)), hashes[~known]


def _times_of_traces(cursor: duckdb.DuckDBPyConnection) -> Sequence[tuple[int, int]]:
    # The times of these traces only: a search over all spans would take long.
    from_ns, to_ns = cursor.execute(sql.query("bounds_of_keys")).fetchall()[0]
    return [] if from_ns is None else [(from_ns, to_ns)]


def _present(cursor: duckdb.DuckDBPyConnection, times: Sequence[tuple[int, int]], before: int) -> set[tuple[str, ...]]:
    """Return the incoming keys of stored spans that start in the windows and have numbers below `before`."""
    present: set[tuple[str, ...]] = set()
    for start, stop in times:
        parameters = {"from_ns": start, "to_ns": stop, "before": before}
        present.update(cursor.execute(sql.query("present_in_window"), parameters).fetchall())
    return present
