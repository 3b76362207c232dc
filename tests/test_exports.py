"""Spans leave by time, each once, in windows that fit into memory, whatever their times and sizes."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp.encode import LINE_BYTES, json_document, json_lines, spans_in
from collector.otlp.json_request import to_protobuf
from storage.engine.database import Database, DatabaseOptions
from storage.engine.read_database import ReadDatabase
from storage.errors import Overloaded
from storage.query import exports
from storage.query.exports import Exports
from storage.records import Span
from tests.plain_otlp import flat
from tests.serving import a_server
from tests.storing import START_NS, a_batch, a_store, an_export, commit, span_id, trace_id

pytestmark = pytest.mark.costly("collector/api", "collector/exporters", "collector/otlp", "storage")

FIRST_NS, LAST_NS = -9_200_000_000_000_000_000, 9_200_000_000_000_000_000
SPANS = 600
YEAR_NS = 365 * 86_400 * 10**9

Times = Callable[[int, random.Random], int]
TIMES: dict[str, Times] = {
    "as they came": lambda number, _: START_NS + number,
    "backwards": lambda number, _: START_NS - number * 10**9,
    "at once": lambda _number, _: START_NS,
    "never set": lambda _number, _: 0,
    "over all times": lambda number, source: START_NS + source.randrange(-50, 50) * YEAR_NS + number,
    "in bursts": lambda number, source: START_NS + source.choice([0, 1, 3600 * 10**9]) + number // 200,
}


def an_export_at(times: Iterable[int], *, first: int = 0, text: str = "") -> ExportTraceServiceRequest:
    """Build a trace with a span at each of these times, the ids counted from `first`."""
    starts = list(times)
    request = an_export(len(starts), first=first)
    for (_, _, span), start_ns in zip(flat(request), starts, strict=True):
        span.start_time_unix_nano = start_ns
        if text:
            span.attributes.add(key="text").value.string_value = text
    return request


def all_of(batches: Iterable[list[Span]]) -> list[Span]:
    """Return the spans, one after the other."""
    return [span for batch in batches for span in batch]


@pytest.mark.costly("collector/exporters", "collector/otlp", "storage")
@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_spans_come_by_time_and_each_once(
    times: Times, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However their times lie, all spans come, none twice, none before one that started earlier, some at a time."""
    monkeypatch.setattr("storage.query.exports.WINDOW_ROWS", 37)
    source = random.Random(seed)
    order = [times(number, source) for number in range(SPANS)]
    source.shuffle(order)
    with a_store(tmp_path) as store:
        for first in range(0, SPANS, 100):
            commit(store, a_batch(an_export_at(order[first : first + 100], first=first)))
        batches = list(store.exports.spans(FIRST_NS, LAST_NS, tenant=None))
        views = list(store.exports.rows(FIRST_NS, LAST_NS, tenant=None))
        traced = all_of(store.exports.trace(trace_id(0), tenant=None) or [])
    spans = all_of(batches)
    ids = [span.span_id for span in spans]
    assert max(map(len, batches)) <= 37
    assert all(earlier.start_ns <= later.start_ns for earlier, later in pairwise(spans))
    assert sorted(ids) == [span_id(number) for number in range(SPANS)]
    assert sorted(span.start_ns % 2**64 for span in spans) == sorted(order)
    assert [span.span_id for span in traced] == ids
    assert [each for view in views for each in view.column("span_id").to_pylist()] == ids


def test_the_end_is_no_part_of_the_time(tmp_path: Path) -> None:
    """A span that starts at the first instant comes, one that starts at the last does not, and no time has none."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export_at([START_NS, START_NS + 1, START_NS + 2])))
        spans = all_of(store.exports.spans(START_NS, START_NS + 2, tenant=None))
        assert [span.start_ns for span in spans] == [START_NS, START_NS + 1]
        assert all_of(store.exports.spans(START_NS + 2, START_NS, tenant=None)) == []
        (nothing,) = store.exports.rows(START_NS + 2, START_NS, tenant=None)
        assert (nothing.num_rows, nothing.schema.names) == (
            0,
            [name for name, _ in store.queries.columns_of_views()["spans"]],
        )


def test_large_spans_make_small_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading ends soon after the bytes that a window may have, whatever came before, and no span is lost by that."""
    monkeypatch.setattr("storage.query.exports.WINDOW_BYTES", 100_000)
    monkeypatch.setattr("storage.query.exports.BATCH_ROWS", 4)
    small, large = range(START_NS, START_NS + 300), range(START_NS + 1_000, START_NS + 1_100)
    windows: list[int] = []

    def counted(table: pa.Table) -> Iterator[list[Span]]:
        windows.append(table.num_rows if "x" * 5_000 in str(table.column("attributes")[0]) else 0)
        return of_table(table)

    of_table = exports._spans
    monkeypatch.setattr(exports, "_spans", counted)
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export_at(small)))
        commit(store, a_batch(an_export_at(large, first=300, text="x" * 5_000)))
        commit(store, a_batch(an_export_at([START_NS + 2_000], first=400, text="y" * 500_000)))
        spans = all_of(store.exports.spans(0, LAST_NS, tenant=None))
        views = list(store.exports.rows(0, LAST_NS, tenant=None))
    assert [span.start_ns for span in spans] == [*small, *large, START_NS + 2_000]
    assert sum(view.num_rows for view in views) == len(spans)
    assert 0 < max(windows) <= 100_000 // 5_000 + 4


def test_of_tenants_a_tenant_sees_its_own_and_the_shared(tmp_path: Path) -> None:
    """Another tenant's spans do not come, neither of a time nor of a trace with the same id."""
    with a_store(tmp_path) as store:
        for number, tenant in enumerate(["", "acme", "other"]):
            commit(store, a_batch(an_export(number + 1, trace=7), tenant=tenant))
        seen = {
            tenant: sorted(span.tenant for span in all_of(store.exports.spans(0, LAST_NS, tenant=tenant)))
            for tenant in ("", "acme", None)
        }
        traced = {
            tenant: [span.tenant for span in all_of(store.exports.trace(trace_id(7), tenant=tenant) or [])]
            for tenant in ("", "acme", "third", None)
        }
        assert store.exports.trace(trace_id(8), tenant=None) is None
    assert seen == {"": [""], "acme": ["", "acme", "acme"], None: ["", "acme", "acme", "other", "other", "other"]}
    assert traced == {"": [""], "acme": ["acme", "acme"], "third": [""], None: [""]}


def test_nothing_is_open_while_nobody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow client of an export keeps the file from nothing: it is opened again, and the rest still comes."""
    monkeypatch.setattr("storage.query.exports.WINDOW_ROWS", 10)
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(95)))
    database = Database(tmp_path, DatabaseOptions())
    try:
        batches = Exports(ReadDatabase(database)).spans(0, LAST_NS, tenant=None)
        seen = next(batches)
        for batch in batches:
            assert database.refresh()
            seen += batch
    finally:
        database.close()
    assert [span.span_id for span in seen] == [span_id(number) for number in range(95)]


def test_what_comes_meanwhile_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans that are stored while others leave change nothing about those that were there, and come at most once."""
    monkeypatch.setattr("storage.query.exports.WINDOW_ROWS", 10)
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(50)))
        seen: list[str] = []
        for number, batch in enumerate(store.exports.spans(0, LAST_NS, tenant=None)):
            commit(store, a_batch(an_export(20, first=100 * (number + 1))))
            seen += [span.span_id for span in batch]
    assert len(seen) == len(set(seen))
    assert set(seen) >= {span_id(number) for number in range(50)}


def test_only_so_many_leave_at_once(tmp_path: Path) -> None:
    """One export too many is refused with a delay, and succeeds once another one has ended or was aborted."""
    bounds = "from=2026-11-21T00:00:00Z&to=2026-11-22T00:00:00Z"
    with a_server(tmp_path / "data") as server:
        commit(server.store, a_batch(an_export(3)))
        exports = server.store.exports
        running = [exports.spans(0, LAST_NS, tenant=None) for _ in range(5)]
        all(next(each) for each in running)
        rows = exports.rows(0, LAST_NS, tenant=None)
        next(rows)
        with pytest.raises(Overloaded):
            next(exports.spans(0, LAST_NS, tenant=None))
        url = f"http://{server.http}/api/v1/export/spans?{bounds}"
        for form in ("arrow", "otlp-json"):
            refused = httpx.get(f"{url}&format={form}", trust_env=False)
            assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (503, True)
            assert "exports run already" in refused.json()["detail"]
        assert all_of(exports.trace(trace_id(0), tenant=None) or [])  # one trace needs no place
        running.pop()
        assert all_of(exports.spans(0, LAST_NS, tenant=None))
        assert len(list(rows)) == 1
        assert httpx.get(url, trust_env=False).status_code == 200


def test_exports_that_are_hardly_read_leave_places_to_others(tmp_path: Path) -> None:
    """A caller that holds as many exports as it may is refused one more, and two others get theirs."""
    with a_server(tmp_path / "data") as server:
        commit(server.store, a_batch(an_export(3)))

        def begun(client_id: str) -> Iterator[list[Span]]:
            export = server.store.exports.spans(0, LAST_NS, tenant=None, client_id=client_id)
            next(export)
            return export

        held = [begun("a") for _ in range(3)]
        with pytest.raises(Overloaded, match="3 exports run already, 3 of yours"):
            begun("a")
        held += [begun("b"), begun("b"), begun("c")]
        held.clear()
        begun("a")


def test_a_line_is_no_longer_than_what_reads_lines_takes(tmp_path: Path) -> None:
    """Lines have at most 1 MiB, as few as that takes, and a span that is larger has one of its own."""
    text = 'a "quoted" line\n\x01 é 🦜'
    sizes = [10, 300_000, 10, 2_000_000, 10, 1_048_000, 300_000]
    with a_store(tmp_path) as store:
        for number, size in enumerate(sizes):
            content = (text * (size // len(text) + 1))[: size // 2]
            commit(store, a_batch(an_export_at([START_NS + number], first=number, text=content)))
        lines = list(json_lines(store.exports.spans(0, LAST_NS, tenant=None)))
    requests = [ExportTraceServiceRequest.FromString(to_protobuf(line)) for line in lines]
    assert [span.span_id.hex() for request in requests for _, _, span in flat(request)] == [
        span_id(number) for number in range(len(sizes))
    ]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    assert all(len(line) <= LINE_BYTES or spans_in(line) == 1 for line in lines)
    assert all(len(one) + len(other) > LINE_BYTES for one, other in pairwise(lines))


def test_spans_are_counted_whatever_they_hold(tmp_path: Path) -> None:
    """The marker that separates the spans of an export cannot be forged by a text, a key or a name."""
    mark = '"startTimeUnixNano":'
    request = an_export_at([0, START_NS], text=mark)
    for (_, _, span), name in zip(flat(request), (mark, "startTimeUnixNano"), strict=True):
        span.name = name
        span.attributes.add(key=name).value.array_value.values.add().kvlist_value.values.add(key=name)
        span.events.add(name=name, time_unix_nano=START_NS)
    with a_store(tmp_path) as store:
        commit(store, a_batch(request))
        (line,) = json_lines(store.exports.spans(0, LAST_NS, tenant=None))
        document = b"".join(json_document(store.exports.trace(trace_id(0), tenant=None) or []))
    assert spans_in(line) == spans_in(document) == 2


def test_spans_of_one_resource_and_scope_stand_together(tmp_path: Path) -> None:
    """In a line each resource and each scope of it occurs once, also where spans of several take turns."""
    requests = [
        an_export(1, trace=number, start_ns=START_NS + number, project=f"p{number % 3}") for number in range(30)
    ]
    with a_store(tmp_path) as store:
        commit(store, a_batch(*requests))
        (line,) = json_lines(store.exports.spans(0, LAST_NS, tenant=None))
    request = ExportTraceServiceRequest.FromString(to_protobuf(line))
    assert [[len(scope.spans) for scope in each.scope_spans] for each in request.resource_spans] == [[10], [10], [10]]


LARGE_SPANS, LARGE_TEXT = 10_500, 10_000
"""A trace of 105 MB, with more spans than any list shows."""

LEAVING = """
import sys
from pathlib import Path
from collector.otlp.encode import json_document, json_lines
from storage.engine.read_database import ReadDatabase
from storage.engine.database import Database, DatabaseOptions
from storage.query.exports import Exports

exports = Exports(ReadDatabase(Database(Path(sys.argv[1]), DatabaseOptions(memory_limit="64MB"))))
first_ns, last_ns, tenant = 0, 9_200_000_000_000_000_000, None

def peak_kib():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

before_kib = peak_kib()
pieces = {pieces}
left = sum(map({size}, pieces))
print(left, peak_kib() - before_kib)
"""
PIECES = {
    "the rows of the view": ("exports.rows(first_ns, last_ns, tenant=tenant)", "lambda batch: batch.nbytes"),
    "lines": ("json_lines(exports.spans(first_ns, last_ns, tenant=tenant))", "len"),
    "one document": (f"json_document(exports.trace('{trace_id(0)}', tenant=tenant))", "len"),
}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with a large trace."""
    folder = tmp_path_factory.mktemp("large") / "data"
    with a_store(folder) as store:
        for first in range(0, LARGE_SPANS, 500):
            commit(store, *(a_batch(some_large_spans(first + more)) for more in range(0, 500, 100)))
    return folder


def some_large_spans(first: int) -> ExportTraceServiceRequest:
    """Return a hundred spans with long texts."""
    request = an_export(100, first=first, start_ns=START_NS)
    for _, _, span in flat(request):
        span.attributes.add(key="text").value.string_value = span.name * (LARGE_TEXT // len(span.name) + 1)
    return request


@pytest.mark.costly("collector/exporters", "collector/otlp", "storage")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("pieces, size", PIECES.values(), ids=PIECES)
def test_any_number_of_spans_takes_bounded_memory(pieces: str, size: str, large: Path) -> None:
    """All spans of a time or of a trace leave, and take less memory than they have bytes twice."""
    command = [sys.executable, "-c", LEAVING.format(pieces=pieces, size=size), str(large)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    left, taken_kib = map(int, done.stdout.split())
    assert left > LARGE_SPANS * LARGE_TEXT
    assert taken_kib * 1024 < 2 * LARGE_SPANS * LARGE_TEXT  # 125 to 155 MB; with all spans in a list, 100 MB more
