"""Lists of traces by their readings and verdicts: page after page the same as one plain query of the views."""

from collections.abc import Iterator
from typing import Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.api.traces.trace_filters import place_of, place_text
from storage.engine.read_database import ReadDatabase
from storage.query import trace_shape
from storage.query.listing import Listing, ListPosition
from storage.query.trace_criteria import Ranking, TraceCriteria
from storage.query.trace_shape import COLUMNS, TraceShape, TraceShapes
from storage.store import Store
from tests.judged import put, seqs
from tests.matching import write
from tests.storing import START_NS, a_batch, a_store, an_export, commit, rows, trace_id
from tests.working import Book

pytestmark = pytest.mark.costly("collector/conventions", "collector/live", "collector/reading", "rules", "storage")

TRACES: Final = 300
COMMITS: Final = 6
SECOND: Final = 1_000_000_000

READ: Final = """
INSERT INTO trace_reading BY NAME
SELECT
    tenant,
    trace_id,
    trace_key,
    start_time,
    'Order ' || (trace_key % 97) AS input,
    'It was ORDER ' || (trace_key % 89) AS "output",
    's' || (trace_key % 40) AS session_id,
    'u' || (trace_key % 11) AS user_id,
    (trace_key % 50) / 100 AS cost_usd,
    trace_key % 70 AS input_tokens,
    1 AS output_tokens,
    0 AS tool_call_count
FROM trace_roll_up
"""
READ_SPANS: Final = "UPDATE span SET span_type = 'llm', model = 'm' || (seq % 37), service_version = 'v' || (seq % 5)"

WISHES: Final = {
    "true": TraceCriteria(),
    "session_id = 's3'": TraceCriteria(session="s3"),
    "session_id = 's3' AND error_count = 0": TraceCriteria(session="s3", is_error=False),
    "user_id = 'u3'": TraceCriteria(user="u3"),
    "cost_usd >= 0.4 AND user_id = 'u3'": TraceCriteria(least_usd=0.4, user="u3"),
    "duration_ms >= 60000": TraceCriteria(least_ns=60 * SECOND),
    "EXISTS (FROM spans AS s WHERE s.trace_id = t.trace_id AND name = 'span 5' AND status_code = 'ERROR')": (
        TraceCriteria(failing="span 5")
    ),
    "lower(input) LIKE '%order 9%' OR lower(output) LIKE '%order 9%'": TraceCriteria(text="oRDER 9"),
    "input = 'nobody wrote this'": TraceCriteria(text="nobody wrote this"),
    "EXISTS (FROM spans AS s WHERE s.trace_id = t.trace_id AND model = 'm7')": TraceCriteria(model="m7"),
    "EXISTS (FROM spans AS s WHERE s.trace_id = t.trace_id AND service_version = 'v3')": TraceCriteria(release="v3"),
    "EXISTS (FROM spans AS s WHERE s.trace_id = t.trace_id AND name = 'span 1')": TraceCriteria(attributes={"n": "1"}),
    "(SELECT bool_or(NOT passed AND NOT superseded) FROM evaluations AS e WHERE e.trace_id = t.trace_id)": (
        TraceCriteria(rule="id-1", passed=False)
    ),
    "session_id = 's1' AND EXISTS (FROM evaluations AS e WHERE e.trace_id = t.trace_id AND outcome = 'failed')": (
        TraceCriteria(session="s1", outcome="failed")
    ),
    "EXISTS (FROM evaluations AS e WHERE e.trace_id = t.trace_id AND NOT superseded)": TraceCriteria(has_result=True),
}
"""Plain conditions on the view `traces`, and the equivalent filters."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store with traces in several commits, a second apart; every seventh has a part in the last commit."""
    with a_store(tmp_path_factory.mktemp("listing")) as store:
        for first in range(COMMITS):
            exports = [_whole(number) for number in range(first, TRACES, COMMITS)]
            late = [_late(number) for number in range(0, TRACES, 7)] if first == COMMITS - 1 else []
            commit(store, a_batch(*exports, *late))
        write(store, READ)
        write(store, READ_SPANS)
        revision = Book(store).rule(evaluator="length").revision
        for number in range(0, TRACES, 3):
            fields = {"trace_id": trace_id(number), "revision": revision, "seq": max(seqs(store, trace_id(number)))}
            put(store, "evaluation", job_id=number, passed=number % 2 == 0, **fields)
            if number % 5 == 0:
                put(store, "superseded", job_id=number)
                put(store, "evaluation", job_id=TRACES + number, outcome="failed", **fields)
        yield store


def _whole(number: int) -> ExportTraceServiceRequest:
    export = an_export(2, trace=number, first=2 * number, start_ns=START_NS + number * SECOND)
    for place, span in enumerate(export.resource_spans[0].scope_spans[0].spans):
        span.name = f"span {(number + place) % 31}"
        span.status.code = 2 if (number + place) % 5 == 0 else 0  # type: ignore[assignment] # an open enum
        span.attributes.add(key="n").value.string_value = str((number + place) % 31)
    return export


def _late(number: int) -> ExportTraceServiceRequest:
    return an_export(1, trace=number, first=10_000 + number, start_ns=START_NS + (2 * TRACES - number) * SECOND)


@pytest.mark.costly("collector/api", "rules", "storage")
@pytest.mark.parametrize("limit", [1, 4, 50])
@pytest.mark.parametrize("plainly", WISHES)
def test_pages_are_what_the_views_say(store: Store, plainly: str, limit: int) -> None:
    """Every trace of which it is true comes once, newest first, whatever is asked and however rare it is."""
    expected = rows(store, f"SELECT trace_id FROM traces AS t WHERE {plainly} ORDER BY start_time DESC, trace_id")
    listed_ids: list[tuple[object, ...]] = []
    place: ListPosition | None = None
    while True:
        listed = store.listing.traces(WISHES[plainly], after=place, limit=limit, within_s=60)
        listed_ids += [(trace.trace_id,) for trace in listed.traces]
        place = listed.next
        if place is None:
            break
    assert listed_ids == expected


@pytest.mark.costly("collector/api", "rules", "storage")
@pytest.mark.parametrize("plainly", WISHES)
def test_steps_to_newer_traces_are_the_list_backwards(store: Store, plainly: str) -> None:
    """From the oldest trace of a list, each step leads to the one above it, and from the first to none."""
    listed = store.listing.traces(WISHES[plainly], limit=TRACES, within_s=60).traces[::-1]
    expected = [trace.trace_id for trace in listed]
    for place, following in zip(listed, [*expected[1:], None], strict=False):
        position = ListPosition(start_ns=place.start_ns, trace_id=place.trace_id, tenant=place.tenant)
        newer = store.listing.newer(WISHES[plainly], position, within_s=60)
        assert (newer and newer.trace_id) == following


@pytest.mark.parametrize(
    "by, plainly",
    [
        ("duration", "duration_ms DESC NULLS LAST"),
        ("cost", "cost_usd DESC NULLS LAST"),
        ("tokens", "input_tokens + output_tokens DESC NULLS LAST"),
        (
            "score",
            "(SELECT avg(score) FROM evaluations AS e WHERE e.trace_id = t.trace_id AND NOT superseded) NULLS LAST",
        ),
    ],
)
@pytest.mark.parametrize("query", ["true", "user_id = 'u3'", "duration_ms >= 60000"])
def test_the_first_by_an_amount_are_what_the_views_say(store: Store, by: Ranking, plainly: str, query: str) -> None:
    """Of such traces those come first whose amount is the greatest, or whose score is the least."""
    ordered = f"SELECT trace_id FROM traces AS t WHERE {query} ORDER BY {plainly}, start_time DESC, trace_id LIMIT 20"
    listed = store.listing.ranked(WISHES[query], by=by, limit=20)
    assert [(trace.trace_id,) for trace in listed.traces] == rows(store, ordered)
    assert (listed.next, listed.is_full) == (None, True)


@pytest.mark.parametrize("plainly", ["true", "session_id = 's3'"])
def test_rows_tell_what_the_views_say(store: Store, plainly: str) -> None:
    """A summary is the row of the view, and the results beside it are those that count."""
    listed = store.listing.traces(WISHES[plainly], limit=TRACES, within_s=60)
    briefs = store.listing.briefs(listed.traces, listed.commits)
    shown = [
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
    assert shown == rows(
        store,
        "SELECT trace_id, root_name, project, service_name, epoch_ns(start_time), epoch_ns(end_time), span_count,"
        " session_id, (SELECT count(*) FROM evaluations AS e WHERE e.trace_id = t.trace_id AND NOT superseded)"
        f" FROM traces AS t WHERE {plainly} ORDER BY start_time DESC, trace_id",
    )


@pytest.mark.costly("collector/api", "rules", "storage")
def test_a_page_that_is_short_says_how_far_was_looked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the time is over, all traces that started after the returned instant are listed, and older ones follow."""
    monkeypatch.setattr("storage.query.listing._FIRST_SPANS", 8)  # else the first step reads all
    like, alike = TraceCriteria(text="order 9"), "lower(input) LIKE '%order 9%' OR lower(output) LIKE '%order 9%'"
    listed_ids: list[tuple[object, ...]] = []
    instants: list[int] = []
    place: ListPosition | None = None
    while True:
        listed = store.listing.traces(like, after=place, limit=1, within_s=0)
        listed_ids += [(trace.trace_id,) for trace in listed.traces]
        if listed.searched_to_ns is not None:
            instants.append(listed.searched_to_ns)
            later = f"({alike}) AND start_time > make_timestamp_ns({listed.searched_to_ns})"
            assert listed_ids == rows(
                store, f"SELECT trace_id FROM traces WHERE {later} ORDER BY start_time DESC, trace_id"
            )
        place = listed.next
        if place is None:
            break
    assert instants
    assert instants == sorted(instants, reverse=True)


def test_the_time_is_over_before_a_stretch_that_would_not_fit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of earlier stretches limits the length of the next one to the remaining time."""
    monkeypatch.setattr("storage.query.listing._FIRST_SPANS", 8)  # else the first step reads all
    looked = [0.0]

    def clock_s() -> float:
        looked[0] += 1  # a second between two looks, however much is looked through
        return looked[0]

    listing = Listing(ReadDatabase(store._database), clock_s)
    listed = listing.traces(TraceCriteria(text="nobody"), limit=1, within_s=4.5)
    assert listed.searched_to_ns is not None
    assert looked[0] <= 1 + 4.5 + 1


MANY: Final = 100
NOW_NS: Final = START_NS + 2 * TRACES * SECOND


@pytest.mark.costly("collector/api", "rules", "storage")
@pytest.mark.parametrize("plainly", WISHES)
def test_the_shape_of_a_list_is_what_the_views_say(store: Store, plainly: str) -> None:
    """Traces, those with errors, and the values that they have are counted as one plain question counts them."""
    shape = store.overview.shapes.of(WISHES[plainly], now_ns=NOW_NS, values=MANY)
    counted = f"SELECT count(*), count(*) FILTER (WHERE error_count > 0) FROM traces AS t WHERE {plainly}"
    columns = (shape.traces, sum(step.failed for step in shape.steps))
    assert [columns] == rows(store, counted)
    assert sum(step.traces for step in shape.steps) == shape.traces
    assert shape.covers_after_ns is None
    for facet in ("project", "service_name"):
        name = facet.removesuffix("_name")
        query = f"SELECT coalesce({facet}, ''), count(*) FROM traces AS t WHERE {plainly} GROUP BY 1 ORDER BY 2 DESC, 1"
        assert values_of(shape, name) == rows(store, query), facet


@pytest.mark.parametrize("plainly", ["true", "user_id = 'u3'", "duration_ms >= 60000"])
def test_values_of_spans_and_results_count_traces(store: Store, plainly: str) -> None:
    """A trace counts once for each model, release, rule and verdict that it has, however many spans or results do."""
    shape = store.overview.shapes.of(WISHES[plainly], now_ns=NOW_NS, values=MANY)
    listed = f"(SELECT trace_id FROM traces AS t WHERE {plainly})"
    ordered = f"WHERE trace_id IN {listed} GROUP BY 1 ORDER BY 2 DESC, 1"
    judged = f"FROM evaluations WHERE NOT superseded AND trace_id IN {listed} GROUP BY 1 ORDER BY 2 DESC, 1"
    verdict = "CASE WHEN outcome = 'failed' THEN 'broken' WHEN passed THEN 'passed' ELSE 'failed' END"
    for name, expected in {
        "model": f"SELECT model, count(DISTINCT trace_id) FROM spans {ordered}",
        "release": f"SELECT service_version, count(DISTINCT trace_id) FROM spans {ordered}",
        "rule": f"SELECT rule, count(DISTINCT trace_id) {judged}",
        "verdict": f"SELECT {verdict}, count(DISTINCT trace_id) {judged}",
    }.items():
        assert values_of(shape, name) == rows(store, expected), name
    few = store.overview.shapes.of(WISHES[plainly], now_ns=NOW_NS, values=3).facets["model"]
    assert (few.values, few.many) == (shape.facets["model"].values[:3], len(shape.facets["model"].values))


def values_of(shape: TraceShape, name: str) -> list[tuple[object, ...]]:
    """Return the values of one kind with their counts."""
    return [(each.value, each.traces) for each in shape.facets[name].values] if name in shape.facets else []


PART_OF_TIME: Final = TraceCriteria(from_ns=START_NS + 100 * SECOND, to_ns=START_NS + 200 * SECOND)


@pytest.mark.parametrize("like", [TraceCriteria(), PART_OF_TIME])
def test_each_step_of_a_shape_is_the_list_of_its_time(store: Store, like: TraceCriteria) -> None:
    """The list that is narrowed to a step has the number of traces of the step, and their latencies lie within."""
    shape = store.overview.shapes.of(like, now_ns=NOW_NS, values=MANY)
    assert 1 < len(shape.steps) <= shape.columns <= COLUMNS
    for step in shape.steps:
        from_ns = max(shape.from_ns + step.step * shape.step_ns, like.from_ns)
        to_ns = min(shape.from_ns + (step.step + 1) * shape.step_ns, like.to_ns)
        listed = store.listing.traces(TraceCriteria(from_ns=from_ns, to_ns=to_ns), limit=TRACES, within_s=60).traces
        took_ms = [(trace.end_ns - trace.start_ns) / 1e6 for trace in listed if trace.end_ns]
        assert len(listed) == step.traces
        assert step.latencies_ms is not None
        assert min(took_ms) <= step.latencies_ms[0] <= step.latencies_ms[1] <= max(took_ms)


@pytest.mark.parametrize("plainly", WISHES)
def test_a_shape_that_covers_a_part_says_which(store: Store, monkeypatch: pytest.MonkeyPatch, plainly: str) -> None:
    """If there is no time for all traces, it counts exactly those that began after the returned instant."""
    monkeypatch.setattr(trace_shape, "_FIRST_PARTS", TRACES // 4)
    shape = TraceShapes(ReadDatabase(store._database), within_s=0).of(WISHES[plainly], now_ns=NOW_NS, values=MANY)
    is_whole = "session_id" in plainly  # of a session there are few, and only these are looked at
    assert (shape.covers_after_ns is None) is is_whole
    later = f"({plainly}) AND start_time > make_timestamp_ns({shape.covers_after_ns or 0})"
    assert [(shape.traces,)] == rows(store, f"SELECT count(*) FROM traces AS t WHERE {later}")
    assert shape.traces < TRACES


def test_a_trace_that_began_before_is_not_counted_by_what_came_later(store: Store) -> None:
    """A time in which only later parts of traces came has no trace, as its list has none."""
    later = TraceCriteria(from_ns=START_NS + (TRACES + 1) * SECOND)
    assert store.listing.traces(later, limit=1, within_s=60).traces == []
    shape = store.overview.shapes.of(later, now_ns=NOW_NS, values=MANY)
    assert (shape.traces, shape.columns, shape.facets) == (0, 0, {})


@pytest.mark.parametrize("tenant", ["", "acme", "acme.", "a.b", ".."])
def test_a_position_is_read_back_as_it_was_written(tenant: str) -> None:
    """Dots of a tenant's id stay, so a page does not begin with the last trace of the one before."""
    place = ListPosition(start_ns=START_NS, trace_id="0" * 32, tenant=tenant)
    assert place_of(place_text(place)) == place
