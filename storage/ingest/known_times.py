"""Replacement of impossible times by 0; the times as they were sent are kept in a column of their own."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage.ingest.batch import EVENT

_Times = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]

LAST_NS: Final = 2**63 - 2  # in the year 2262; DuckDB takes the next one for infinity
SENT: Final = pa.field("sent_times", pa.list_(pa.uint64()))
"""Column with the start, the end and the times of events as they were sent, if one is impossible; else NULL."""


def with_known_times(spans: pa.Table) -> pa.Table:
    """Set times outside of 1970 to 2262, and ends before their start, to 0, which is "not set"; add `sent_times`.

    Code that compares or subtracts times reads these columns, so no duration is negative and no sum overflows.
    """
    starts, ends = (_numbers(spans.column(name)) for name in ("start_time", "end_time"))
    lists = spans.column("events").combine_chunks()
    offsets = lists.offsets.to_numpy()
    events = lists.values[offsets[0] : offsets[-1]]
    moments, owners = _numbers(events.field("time")), np.repeat(np.arange(len(lists)), np.diff(offsets))
    wrong_start, wrong_end, wrong_moment = (_is_unknown(times) for times in (starts, ends, moments))
    wrong_end |= (ends < starts) & ~wrong_start & (ends != 0)
    odd = wrong_start | wrong_end
    odd[owners[wrong_moment]] = True
    if not odd.any():
        return spans.append_column(SENT, pa.nulls(spans.num_rows, SENT.type))
    rows = np.flatnonzero(odd)
    sent = [np.concatenate([starts[[row]], ends[[row]], moments[owners == row]]).view(np.uint64) for row in rows]
    column: list[Any] = [None] * spans.num_rows
    for row, moments_sent in zip(rows.tolist(), sent, strict=True):
        column[row] = moments_sent
    spans = spans.append_column(SENT, pa.array(column, SENT.type))
    for name, times, wrong in (("start_time", starts, wrong_start), ("end_time", ends, wrong_end)):
        spans = _set_column(spans, name, pa.array(np.where(wrong, 0, times)).cast(pa.timestamp("ns")))
    if not wrong_moment.any():
        return spans
    known = pa.array(np.where(wrong_moment, 0, moments)).cast(pa.timestamp("ns"))
    fields = [known if field.name == "time" else events.field(field.name) for field in EVENT]
    again = pa.StructArray.from_arrays(fields, fields=list(EVENT))
    return _set_column(spans, "events", pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), again))


def within_known_times(time_ns: int) -> int:
    """Return the time, or the nearest that a span can have, as DuckDB cannot convert others to TIMESTAMP_NS."""
    return min(max(time_ns, 0), LAST_NS)


def _is_unknown(times: _Times) -> _Mask:
    mask: _Mask = (times < 0) | (times > LAST_NS)
    return mask


def _numbers(times: pa.ChunkedArray | pa.Array) -> _Times:
    numbers: _Times = np.asarray(times.cast(pa.int64()).fill_null(0))
    return numbers


def _set_column(spans: pa.Table, name: str, column: pa.Array) -> pa.Table:
    at = spans.schema.get_field_index(name)
    return spans.set_column(at, spans.schema.field(at), column)
