"""Tells what traces mean, from what their spans do."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from collector.conventions.columnar.traces import meanings
from storage.ingest.batch import TOOL_CALLS, TRACES

log = logging.getLogger(__name__)


def sums_of(spans: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Rows of `TRACES` and of `TOOL_CALLS` for traces all of whose spans are in a table; it never raises."""
    try:
        return meanings(spans)
    except Exception:  # noqa: BLE001 - what breaks one trace must not hide all others
        log.exception("%d spans cannot be added up together, and are trace by trace", spans.num_rows)
    found = [_alone(trace) for trace in _each(spans)]
    return pa.concat_tables([traces for traces, _ in found]), pa.concat_tables([calls for _, calls in found])


def _alone(spans: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Rows of `TRACES` and of `TOOL_CALLS` for one trace; where that fails, nothing is known but that it is there."""
    try:
        return meanings(spans)
    except Exception:  # noqa: BLE001 - whatever the values are, the others are added up
        key = {name: spans.column(name)[0].as_py() for name in ("tenant", "trace_id")}
        log.exception("what trace %s of tenant %r means cannot be told", key["trace_id"], key["tenant"])
    return bare_sums(spans)


def bare_sums(spans: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return rows of `TRACES` and of `TOOL_CALLS` for one trace of which nothing is known but that it is there."""
    row: dict[str, list[Any]] = {name: [None] for name in TRACES.names}
    row |= {name: [spans.column(name)[0].as_py()] for name in ("tenant", "trace_id")}
    row |= {"start_time": [pc.min(spans.column("start_time"))], "tool_call_count": [0]}
    return pa.table(row, schema=TRACES), TOOL_CALLS.empty_table()


def _each(spans: pa.Table) -> Iterator[pa.Table]:
    keys: Sequence[tuple[str, str]] = list(
        zip(spans.column("tenant").to_pylist(), spans.column("trace_id").to_pylist(), strict=True)
    )
    rows: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, []).append(row)
    return (spans.take(pa.array(some)) for some in rows.values())
