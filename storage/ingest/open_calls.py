"""Tool calls whose results are in another trace, as from clients that start a new trace for each request."""

from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_table
from storage.ingest.known_times import within_known_times

_KEYS = ["tenant", "call_key", "start_time"]
_HOUR_NS: Final = 3_600 * 10**9  # within which a result belongs to a call
EQUAL_CALLS: Final = 5_000  # if more calls and results near a change share a key, these calls get no result


def open_calls(cursor: duckdb.DuckDBPyConnection, *, from_ns: int) -> pa.Table:
    """Return calls without a result, and results of other traces' calls, in the registered `wanted_traces`."""
    return arrow_table(cursor, sql.query("open_calls_of_traces"), {"from_ns": from_ns})


def complete_calls(cursor: duckdb.DuckDBPyConnection, *changed: pa.Table) -> None:
    """Update the results of calls after rows with the same keys were added or deleted. For the writer's transaction."""
    calls = pa.concat_tables([table.filter(table.column("call_key").is_valid()).select(_KEYS) for table in changed])
    if not calls.num_rows:
        return
    cursor.register("changed_calls", calls)
    bounds = pc.min_max(calls.column("start_time").cast(pa.int64())).as_py()
    first_ns, last_ns = bounds["min"] - _HOUR_NS, bounds["max"] + 2 * _HOUR_NS  # of calls that may depend on a change
    around = {
        "first_ns": first_ns,
        "last_ns": last_ns,
        "from_ns": first_ns - 2 * _HOUR_NS,
        "to_ns": last_ns + _HOUR_NS,
    }
    times = {name: within_known_times(time_ns) for name, time_ns in around.items()}
    cursor.execute(sql.query("complete_tool_calls"), times | {"hour_us": _HOUR_NS // 1000, "most": EQUAL_CALLS})
