"""Detection of log records that are not stored yet."""

import duckdb
import pyarrow as pa

from storage import sql
from storage.ingest import presence


def new_logs(cursor: duckdb.DuckDBPyConnection, logs: pa.Table) -> pa.Table:
    """Return the log records that are not stored yet, each once.

    A record that is sent again has the same content, its time included. So only stored records with times of the batch
    are searched.

    """
    cursor.register("incoming_logs", logs)
    seen: set[tuple[object, ...]] = set()
    for from_ns, to_ns in presence.windows(logs.column("logged_at")):
        bounds = {"from_ns": from_ns, "to_ns": to_ns}
        seen.update(cursor.execute(sql.query("present_logs_in_window"), bounds).fetchall())
    new = []
    keys = zip(*(logs.column(name).to_pylist() for name in ("tenant", "trace_id", "record_id")), strict=True)
    for row, key in enumerate(keys):
        if key not in seen:
            seen.add(key)
            new.append(row)
    return logs if len(new) == logs.num_rows else logs.take(pa.array(new, pa.int64()))
