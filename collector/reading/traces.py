"""Reading of traces, from their spans."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from collector.conventions.columnar.traces import meanings
from storage.ingest.batch import TOOL_CALLS, TRACES

log = logging.getLogger(__name__)


def sums_of(spans: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return rows of `TRACES` and of `TOOL_CALLS` for whole traces in a table; never raises."""
    try:
        return meanings(spans)
    except Exception:  # noqa: BLE001 - one bad trace must not hide all others
        log.exception("cannot aggregate %d spans together; aggregating trace by trace", spans.num_rows)
    tables = [_alone(trace) for trace in _each(spans)]
    return pa.concat_tables([traces for traces, _ in tables]), pa.concat_tables([calls for _, calls in tables])


def _alone(spans: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return rows of `TRACES` and of `TOOL_CALLS` for one trace; after a failure, only the fact that it exists."""
    try:
        return meanings(spans)
    except Exception:  # noqa: BLE001 - whatever the values are, the other traces are summed
        key = {name: spans.column(name)[0].as_py() for name in ("tenant", "trace_id")}
        log.exception("trace %s of tenant %r cannot be read", key["trace_id"], key["tenant"])
    return bare_sums(spans)


def bare_sums(spans: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return rows of `TRACES` and of `TOOL_CALLS` for one trace of which only the existence is known."""
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
