"""Times that cannot be true: unknown to all that reads spans, and kept as they were sent."""

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp.encode import resource_spans
from storage.ingest.known_times import LAST_NS, with_known_times
from storage.records import MAX_COUNT, Span
from storage.store import Store
from tests.extremes import COUNTED, COUNTS, DOUBLES, TEXTS, TIMES_NS
from tests.storing import START_NS, a_batch, a_store, an_export, commit, rows, trace_id
from tests.test_database import run

times = st.sampled_from((*TIMES_NS, START_NS)) | st.integers(0, 2**64 - 1)


def an_odd_export(spans: list[tuple[int, int, list[int]]]) -> ExportTraceServiceRequest:
    """Return spans with these starts, ends and times of events."""
    request = an_export(len(spans))
    for span, (start_ns, end_ns, moments) in zip(request.resource_spans[0].scope_spans[0].spans, spans, strict=True):
        span.start_time_unix_nano, span.end_time_unix_nano = start_ns, end_ns
        for moment_ns in moments:
            span.events.add(time_unix_nano=moment_ns, name="event")
    return request


@given(st.lists(st.tuples(times, times, st.lists(times, max_size=3)), min_size=1, max_size=8), st.integers(0, 7))
def test_times_are_known_or_not_set_and_what_was_sent_is_beside_them(
    spans: list[tuple[int, int, list[int]]], first: int
) -> None:
    """Any part of a batch has times from 1970 to 2262, no end before its start, and beside them those that differ."""
    first = min(first, len(spans) - 1)
    known = with_known_times(a_batch(an_odd_export(spans)).spans[first:])
    starts, ends = (known.column(name).cast(pa.int64()).to_pylist() for name in ("start_time", "end_time"))
    for row, (start_ns, end_ns, moments) in enumerate(spans[first:]):
        known_ns = known.column("events")[row].values.field("time").cast(pa.int64()).to_pylist() if moments else []
        assert all(0 <= time <= LAST_NS for time in (starts[row], ends[row], *known_ns))
        assert ends[row] == 0 or ends[row] >= starts[row]
        assert starts[row] == (start_ns if start_ns <= LAST_NS else 0)
        sent = known.column("sent_times")[row].as_py()
        assert sent == (
            [start_ns, end_ns, *moments]
            if [starts[row], ends[row], *known_ns] != [start_ns, end_ns, *moments]
            else None
        )


@pytest.mark.parametrize(
    "start_ns, end_ns", [(START_NS + 10**9, START_NS), (2**63 + 10**18, START_NS), (START_NS, 2**63 + 10**18)]
)
def test_spans_of_an_earlier_version_are_changed_alike(tmp_path: Path, start_ns: int, end_ns: int) -> None:
    """A file whose spans have negative durations opens without them, and exports the sent times."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_odd_export([(START_NS, START_NS + 1, [2**63 + 10**18])])))
    signed = [int(np.uint64(time).astype(np.int64)) for time in (start_ns, end_ns, 2**63 + 10**18)]
    start, end, moment = (f"make_timestamp_ns({time})" for time in signed)
    events = f'list_transform(events, lambda event: struct_update(event, "time" := {moment}))'
    run(
        tmp_path,
        "DROP VIEW spans",
        "ALTER TABLE span DROP COLUMN sent_times",
        "DELETE FROM tracejury_schema WHERE version = 51",
        f"UPDATE span SET start_time = {start}, end_time = {end}, duration_ms = -1000, events = {events}",
        f"UPDATE trace_part SET start_time = {start}, last_start_time = {start}, end_time = {end}",
        f"UPDATE trace_reading SET start_time = {start}, last_start_time = {start}, end_time = {end}",
    )
    with a_store(tmp_path) as store:
        assert rows(store, "SELECT duration_ms FROM spans UNION ALL SELECT duration_ms FROM traces") == [
            (None,),
            (None,),
        ]
        wrong = "start_time < make_timestamp_ns(0) OR (end_time < start_time AND epoch_ns(end_time) > 0)"
        assert rows(store, f"SELECT count(*) FROM span WHERE {wrong}") == [(0,)]
        trace = store.queries.trace(trace_id(0))
        assert trace is not None
        assert trace.spans[0].sent_times == (start_ns, end_ns, 2**63 + 10**18)


numbers = (
    st.tuples(st.just("int_value"), st.sampled_from(COUNTS) | st.integers(-(2**63), 2**63 - 1))
    | st.tuples(st.just("double_value"), st.sampled_from(DOUBLES) | st.floats())
    | st.tuples(st.just("string_value"), st.sampled_from(TEXTS) | st.integers().map(str))
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield one store for all examples, each of which is a tenant's."""
    with a_store(tmp_path_factory.mktemp("numbers")) as opened:
        yield opened


@pytest.mark.costly("collector/otlp", "storage")
@given(
    st.lists(st.tuples(times, times, st.lists(st.tuples(st.sampled_from(COUNTED), numbers))), min_size=1, max_size=6)
)
def test_whatever_spans_count_and_when_views_and_exports_work(
    store: Store, spans: list[tuple[int, int, list[tuple[str, tuple[str, Any]]]]]
) -> None:
    """Views can be summed, have no negative duration and no count above the bound; exports have the sent times."""
    request, tenant = an_odd_export([(start_ns, end_ns, []) for start_ns, end_ns, _ in spans]), uuid.uuid4().hex
    for span, (_, _, expected) in zip(request.resource_spans[0].scope_spans[0].spans, spans, strict=True):
        for key, (field, value) in (("gen_ai.operation.name", ("string_value", "chat")), *dict(expected).items()):
            setattr(span.attributes.add(key=key).value, field, value)
    commit(store, a_batch(request, tenant=tenant))
    sums = "sum(input_tokens + output_tokens), sum(cost_usd), sum(duration_ms), max(start_time::VARCHAR)"
    for view in ("spans", "traces", "sessions"):
        assert rows(store, f"SELECT {sums} FROM {view} WHERE tenant = '{tenant}'")
        amounts = "input_tokens, output_tokens, cost_usd"
        bounded = f"duration_ms < 0 OR least({amounts}) < 0 OR greatest({amounts}) > {MAX_COUNT}"
        assert rows(store, f"SELECT * FROM {view} WHERE tenant = '{tenant}' AND ({bounded})") == []
    trace = store.queries.trace(trace_id(0), tenant=tenant)
    assert trace is not None
    sent = [(int(each["startTimeUnixNano"]), int(each.get("endTimeUnixNano", 0))) for each in exported(trace.spans)]
    assert sorted(sent) == sorted((start_ns, end_ns) for start_ns, end_ns, _ in spans)


def exported(spans: Sequence[Span]) -> list[dict[str, Any]]:
    """Return the spans of an export in OTLP/JSON."""
    groups = json.loads(b"[" + resource_spans(spans) + b"]")
    return [span for group in groups for scope in group["scopeSpans"] for span in scope["spans"]]
