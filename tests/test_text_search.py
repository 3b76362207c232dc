"""Search for a pasted text: in every text of a span, in bounded time, and within a tenant."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.app import Running
from storage.engine.read_database import ReadDatabase
from storage.errors import Overloaded
from storage.query.alarm import text_alarm
from storage.query.listing import Listing
from storage.query.text_pattern import MOST_CHARACTERS, SEARCHED, text_pattern
from storage.query.trace_criteria import TraceCriteria, stretch
from storage.store import Store
from tests import storing
from tests.browser import a_page
from tests.live import a_client, until
from tests.paging import Visit
from tests.serving import a_server, an_export, post, run
from tests.storing import START_NS, a_batch, a_store, commit

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("traces")

MESSAGES = [{"role": "user", "parts": [{"type": "text", "content": 'Where is "order 17"?\nÖsterreich'}]}]
ARGUMENTS = {"order_id": "A-17", "lines": [1, {"sku": "SKU-9"}]}
PLACES = {
    "invoke Zanzibar": "name",
    "504 gateway": "status",
    "hunk #3 FAILED": "exception",
    "sku-9": "arguments",
    json.dumps(ARGUMENTS, indent=2): "arguments",
    json.dumps(json.dumps(ARGUMENTS))[1:-1]: "arguments",
    "no such parcel": "result",
    'is "order 17"? öSTERREICH': "messages",
    "tag-of-the-team": "attribute",
    "build 20261130": "resource",
}
"""Texts as a person pastes them, each with the trace that has it below its root."""

IDS = {place: f"{number:032x}" for number, place in enumerate(sorted({*PLACES.values(), "nothing"}), start=0xA0)}


def an_export_with(place: str) -> ExportTraceServiceRequest:
    """Build a trace whose second span has its text in this place."""
    export = an_export(
        IDS[place], "root", "invoke zanzibar" if place == "name" else "step", at_s=list(IDS).index(place)
    )
    resource = export.resource_spans[0].resource
    span = export.resource_spans[0].scope_spans[0].spans[1]
    texts = {
        "arguments": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": json.dumps(ARGUMENTS)},
        "result": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": '{"error": "No such parcel"}'},
        "messages": {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(MESSAGES)},
        "attribute": {"team": "tag-of-the-team"},
    }
    for key, value in texts.get(place, {}).items():
        span.attributes.add(key=key).value.string_value = value
    if place == "status":
        span.status.code, span.status.message = 2, "504 Gateway Timeout"  # type: ignore[assignment] # an open enum
    if place == "exception":
        event = span.events.add(name="exception", time_unix_nano=span.start_time_unix_nano)
        event.attributes.add(key="exception.message").value.string_value = "Hunk #3 failed at 7"
    if place == "resource":
        resource.attributes.add(key="build").value.string_value = "build 20261130"
    return export


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server with a trace for each place."""
    with a_server(tmp_path_factory.mktemp("text") / "data") as running:
        for place in IDS:
            post(f"http://{running.otlp_http}/v1/traces", an_export_with(place).SerializeToString())
        stored = "SELECT count(*) FROM spans WHERE span_type IS NOT NULL"
        until(
            lambda: running.store.queries.sql(stored, max_rows=1, timeout_s=10).rows[0][0],
            lambda count: count == 2 * len(IDS),
        )
        yield running


@pytest.mark.parametrize("text", PLACES)
def test_a_pasted_text_finds_the_trace_wherever_it_is(server: Running, text: str) -> None:
    """The API finds a text in each kind of text of a span, whatever its case and blanks, and no other trace."""
    with a_client() as client:
        page = client.get(f"http://{server.http}/api/v1/traces", params={"text": text}).json()
    assert [each["traceId"] for each in page["content"]] == [IDS[PLACES[text]]]
    assert (page["next"], page["searchedTo"]) == (None, None)


def test_ids_are_texts_too(server: Running) -> None:
    """The beginning of a trace's or span's id finds it."""
    with a_client() as client:
        address = httpx.URL(f"http://{server.http}/api/v1/traces")
        for text, count in ((IDS["name"].upper(), 1), ("0" * 15 + "2", len(IDS)), ("f" * 16, 0)):
            assert len(client.get(address, params={"text": text}).json()["content"]) == count, text


def test_an_expression_is_a_text(server: Running) -> None:
    """What means something in a regular expression or in LIKE means itself."""
    with a_client() as client:
        for text in ("invoke.zanzibar", "(?i)step", "zanzib|gateway", "%", "zanzibar\x00", "[a-z]+", "^step$"):
            params = {"text": text}
            assert client.get(f"http://{server.http}/api/v1/traces", params=params).json()["content"] == [], text


def test_a_text_has_a_limit(server: Running) -> None:
    """The API refuses longer texts; the page searches for their beginning, and says so."""
    with a_client() as client:
        address = f"http://{server.http}/api/v1/traces"
        assert client.get(address, params={"text": "x" * (MOST_CHARACTERS + 1)}).status_code in {400, 422}
    with Visit(f"http://{server.http}") as visit:
        for length in (MOST_CHARACTERS, 10_000):
            assert "Only the beginning of the text was used" in visit.get("/traces?text=" + "x" * length).text


@pytest.mark.parametrize("text", ["a" * 4_000, "Ö" * 4_000, "😀<" * 2_000, '"\\ ' * 1_000, ", " * 2_000])
def test_a_pattern_stays_small(text: str) -> None:
    """Whatever the text is, its pattern has a size with which RE2 reads texts in linear time."""
    pattern, beginning = text_pattern(text)
    assert len(pattern) <= 1_200
    assert text.startswith(beginning)


def test_the_page_says_what_was_searched(server: Running) -> None:
    """The list names the texts and how far back it looked, and its rows lead to the span with the text."""
    with Visit(f"http://{server.http}") as visit:
        page = visit.get("/traces?text=sku-9").text
        assert f"Searched all traces: {SEARCHED} of all spans." in page
        address = f"/traces/{IDS['arguments']}?find=sku-9"
        assert f'href="{address}"' in page
        tree = visit.get(address).text
        assert "2 spans matching “<bdi>sku-9</bdi>”" in tree
        assert visit.get(f"/traces/{IDS['arguments']}?part=find&find=sku-9").json() == ["0" * 15 + "2"]
        assert visit.get(f"/traces/{IDS['arguments']}?part=find&find=").json() == []
        ranked = visit.get("/traces?text=sku-9&sort=duration&from=2026-11-01T00:00:00Z").text
        assert "Searched all traces of the chosen time" in ranked
        assert IDS["arguments"] in ranked


def test_the_box_finds_texts_of_spans_in_a_browser(server: Running, browser: "Browser") -> None:
    """A text pasted into the list leads to its trace, and the trace's own box finds what only the server has."""
    with a_page(browser, f"http://{server.http}") as watch:
        page = watch.page
        watch.open("/traces")
        page.get_by_label("Search for a text").fill("no such PARCEL")
        page.get_by_label("Search for a text").press("Enter")
        page.wait_for_url("**text=no*")
        assert page.locator("tr[data-row]").count() == 1
        page.locator("a.name").click()
        page.wait_for_url("**find=no*")
        page.locator("#hits", has_text="1 span").wait_for()
        page.get_by_label("Find a span").fill("asked step")
        page.locator("#hits", has_text="1 span").wait_for()
        assert watch.scan() == []


def test_the_terminal_searches_and_continues(server: Running) -> None:
    """`traces list --text` prints the traces, and to the standard error how far it searched and how to continue."""
    command = ("traces", "list", "--server", f"http://{server.http}", "--json", "--limit", "1")
    first = run(*command, "--text", "asked step")
    ids = [each["traceId"] for each in json.loads(first.stdout)]
    assert "older traces may also match. Continue with --before " in first.stderr
    position = first.stderr.split()[-1]
    second = run(*command, "--text", "asked step", "--before", position)
    assert json.loads(second.stdout)[0]["traceId"] not in ids
    assert "Searched all traces." in run(*command, "--text", "hunk #3").stderr
    assert run(*command, "--before", position).exit_code == 2


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store with the traces of two tenants and shared ones, one of them long, another with a late part."""
    with a_store(tmp_path_factory.mktemp("store")) as store:
        for number, tenant in enumerate(("", "acme", "else")):
            commit(store, a_batch(_saying(number, "the parcel"), tenant=tenant))
        commit(store, a_batch(storing.an_export(500, trace=7, first=1_000, start_ns=START_NS - 10**9)))
        commit(store, a_batch(_saying(7, "a late word", first=3_000, start_ns=START_NS + 10**12)))
        yield store


def _saying(number: int, text: str, *, first: int = 0, start_ns: int = START_NS) -> ExportTraceServiceRequest:
    export = storing.an_export(2, trace=number, first=2 * number + first, start_ns=start_ns)
    export.resource_spans[0].scope_spans[0].spans[1].attributes.add(key="said").value.string_value = text
    return export


def _ids_with(store: Store, text: str, tenant: str | None) -> set[tuple[str, str]]:
    listed = store.listing.traces(TraceCriteria(text=text), limit=50, tenant=tenant, within_s=60)
    return {(trace.tenant, trace.trace_id) for trace in listed.traces}


def test_a_search_sees_its_tenant_and_shared_traces(store: Store) -> None:
    """A text of another tenant is not found; a caller who sees all finds it."""
    shared, acme, other = (("", storing.trace_id(0)), ("acme", storing.trace_id(1)), ("else", storing.trace_id(2)))
    assert _ids_with(store, "the PARCEL", "acme") == {shared, acme}
    assert _ids_with(store, "the parcel", "") == {shared}
    assert _ids_with(store, "the parcel", None) == {shared, acme, other}


def test_a_late_part_is_found_with_its_trace(store: Store) -> None:
    """A text of a span that came long after the trace began is found where the trace stands in the list."""
    assert _ids_with(store, "a late word", "") == {("", storing.trace_id(7))}


def test_steps_are_bounded_by_spans(store: Store) -> None:
    """A step of a search for a text counts the spans that it reads, not the traces, and reads one part at least."""
    with ReadDatabase(store._database).snapshot() as cursor:
        until_ns = START_NS + 5
        plain = stretch(cursor, TraceCriteria(), None, until_ns, 100)
        assert plain[0] == 4
        read, oldest_ns = stretch(cursor, TraceCriteria(text="x"), None, until_ns, 100)
        assert (read, oldest_ns) == (506, START_NS - 10**9 + 1_000)
        read, oldest_ns = stretch(cursor, TraceCriteria(text="x"), None, until_ns, 5)
        assert (read, oldest_ns) == (6, START_NS)


def test_a_search_without_matches_ends_and_goes_on(store: Store) -> None:
    """When the time is over, the search says how far back it came, and goes on from there to the end."""
    looked = [0.0]

    def clock_s() -> float:
        looked[0] += 1
        return looked[0]

    listing = Listing(ReadDatabase(store._database), clock_s)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("storage.query.listing._FIRST_SPANS", 1)
        listed = listing.traces(TraceCriteria(text="nobody wrote this"), limit=1, within_s=0.5)
        assert (listed.traces, listed.searched_to_ns is not None) == ([], True)
        whole = store.listing.traces(TraceCriteria(text="nobody wrote this"), limit=1, after=listed.next, within_s=60)
    assert (whole.traces, whole.next) == ([], None)


def test_texts_that_take_too_long_are_refused(tmp_path: Path) -> None:
    """A step that overruns its time by far is interrupted, with advice."""
    with a_store(tmp_path) as store:
        database = ReadDatabase(store._database)
        slow = "SELECT count(*) FROM range(100_000_000_000) AS r(n) WHERE regexp_matches(n::VARCHAR, 'x')"
        with (
            database.snapshot() as cursor,
            pytest.raises(Overloaded, match="search a shorter time"),
            text_alarm(database, cursor, 0.2),
        ):
            cursor.execute(slow).fetchall()
