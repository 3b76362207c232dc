"""Lists of traces by what was read and judged of them: page after page the same as one plain question to the views."""

from collections.abc import Iterator
from typing import Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from storage.query.listing import ListPosition, TracesLike
from storage.store import Store
from tests.judged import put, seqs
from tests.matching import write
from tests.storing import START_NS, a_batch, a_store, an_export, commit, rows, trace_id
from tests.working import Book

TRACES: Final = 300
COMMITS: Final = 6
SECOND: Final = 1_000_000_000

READ: Final = """
INSERT INTO trace_reading BY NAME
SELECT
    tenant,
    trace_id,
    start_time,
    'Order ' || (trace_key % 97) AS input,
    'It was ORDER ' || (trace_key % 89) AS "output",
    's' || (trace_key % 40) AS session_id,
    0 AS tool_call_count
FROM trace_roll_up
"""
READ_SPANS: Final = "UPDATE span SET span_type = 'llm', model = 'm' || (seq % 37)"

WISHES: Final = {
    "true": TracesLike(),
    "session_id = 's3'": TracesLike(session="s3"),
    "session_id = 's3' AND error_count = 0": TracesLike(session="s3", is_error=False),
    "lower(input) LIKE '%order 9%' OR lower(output) LIKE '%order 9%'": TracesLike(text="oRDER 9"),
    "input = 'nobody wrote this'": TracesLike(text="nobody wrote this"),
    "EXISTS (FROM spans AS s WHERE s.trace_id = t.trace_id AND model = 'm7')": TracesLike(model="m7"),
    "EXISTS (FROM spans AS s WHERE s.trace_id = t.trace_id AND name = 'span 1')": TracesLike(attributes={"n": "1"}),
    "(SELECT bool_or(NOT passed AND NOT superseded) FROM evaluations AS e WHERE e.trace_id = t.trace_id)": (
        TracesLike(rule="id-1", passed=False)
    ),
    "session_id = 's1' AND EXISTS (FROM evaluations AS e WHERE e.trace_id = t.trace_id AND outcome = 'failed')": (
        TracesLike(session="s1", outcome="failed")
    ),
}
"""What is plainly asked of the view `traces`, and the wish that means it."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Traces in several commits, a second apart; every seventh has a part that comes with the last and starts late."""
    with a_store(tmp_path_factory.mktemp("listing")) as store:
        for first in range(COMMITS):
            exports = [_whole(number) for number in range(first, TRACES, COMMITS)]
            late = [_late(number) for number in range(0, TRACES, 7)] if first == COMMITS - 1 else []
            commit(store, a_batch(*exports, *late))
        write(store, READ)
        write(store, READ_SPANS)
        revision = Book(store).rule(evaluator="length").revision
        for number in range(0, TRACES, 3):
            told = {"trace_id": trace_id(number), "revision": revision, "seq": max(seqs(store, trace_id(number)))}
            put(store, "evaluation", job_id=number, passed=number % 2 == 0, **told)
            if number % 5 == 0:
                put(store, "superseded", job_id=number)
                put(store, "evaluation", job_id=TRACES + number, outcome="failed", **told)
        yield store


def _whole(number: int) -> ExportTraceServiceRequest:
    export = an_export(2, trace=number, first=2 * number, start_ns=START_NS + number * SECOND)
    for place, span in enumerate(export.resource_spans[0].scope_spans[0].spans):
        span.name = f"span {(number + place) % 31}"
        span.attributes.add(key="n").value.string_value = str((number + place) % 31)
    return export


def _late(number: int) -> ExportTraceServiceRequest:
    return an_export(1, trace=number, first=10_000 + number, start_ns=START_NS + (2 * TRACES - number) * SECOND)


@pytest.mark.parametrize("limit", [1, 4, 50])
@pytest.mark.parametrize("plainly", WISHES)
def test_pages_are_what_the_views_say(store: Store, plainly: str, limit: int) -> None:
    """Every trace of which it is true comes once, newest first, whatever is asked and however rare it is."""
    expected = rows(store, f"SELECT trace_id FROM traces AS t WHERE {plainly} ORDER BY start_time DESC, trace_id")
    found: list[tuple[object, ...]] = []
    place: ListPosition | None = None
    while True:
        listed = store.listing.traces(WISHES[plainly], after=place, limit=limit, within_s=60)
        found += [(trace.trace_id,) for trace in listed.traces]
        place = listed.next
        if place is None:
            break
    assert found == expected


@pytest.mark.parametrize("plainly", ["true", "session_id = 's3'"])
def test_rows_tell_what_the_views_say(store: Store, plainly: str) -> None:
    """A summary is the row of the view, and the results beside it are those that count."""
    listed = store.listing.traces(WISHES[plainly], limit=TRACES, within_s=60)
    briefs = store.listing.briefs(listed.traces, listed.commits)
    told = [
        (
            trace.trace_id,
            trace.root_name,
            trace.project,
            trace.service_name,
            trace.start_ns,
            trace.end_ns,
            trace.span_count,
            briefs["", trace.trace_id].session_id,
            sum(each.passed + each.not_passed + each.broken for each in briefs["", trace.trace_id].results),
        )
        for trace in listed.traces
    ]
    assert told == rows(
        store,
        "SELECT trace_id, root_name, project, service_name, epoch_ns(start_time), epoch_ns(end_time), span_count,"
        " session_id, (SELECT count(*) FROM evaluations AS e WHERE e.trace_id = t.trace_id AND NOT superseded)"
        f" FROM traces AS t WHERE {plainly} ORDER BY start_time DESC, trace_id",
    )
