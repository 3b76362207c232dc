"""Two traces side by side: which spans belong together, and what their page shows."""

import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.web.traces.alignment import AlignedSpan, TraceSide, align, differing
from storage.query.outline import OutlineSpan
from tests.browser import DESK, PHONE, a_page
from tests.live import until
from tests.paging import Visit
from tests.playing import send
from tests.serving import a_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from collector.app import Running

pytestmark = pytest.mark.pages("traces")

ONE, OTHER, LARGE = "a1" * 16, "b2" * 16, "c3" * 16


def a_span(span_id: str, parent: str | None, name: str, kind: str = "chain", **more: Any) -> OutlineSpan:
    """Build a span of an outline; they start in the order of their ids."""
    fields = {
        "span_id": span_id,
        "parent_span_id": parent,
        "name": name,
        "start_ns": int(span_id, 36),
        "end_ns": int(span_id, 36) + 10,
        "is_error": False,
        "span_type": kind,
        "is_read": True,
        "model": None,
        "tool_name": None,
        "input_tokens": None,
        "output_tokens": None,
        "cost_usd": None,
    }
    return OutlineSpan(**(fields | more))


def aligned(
    before: list[OutlineSpan], after: list[OutlineSpan], *digests: dict[str, tuple[int, int]]
) -> list[AlignedSpan]:
    """Align both outlines as one tree; `digests` are those of each."""
    one, other = digests or ({}, {})
    return align(TraceSide(spans=before, digests=one), TraceSide(spans=after, digests=other))


def summaries(rows: list[AlignedSpan]) -> list[str]:
    """Return each row in short."""
    return [
        f"{'.' * row.depth}{row.span.name} {row.state}{' ' * bool(row.changes)}{','.join(row.changes)}" for row in rows
    ]


def test_children_are_paired_by_name_type_and_order() -> None:
    """The second call of a tool is paired with the second; an extra one is added in its place, a lost one missing."""
    before = [
        a_span("1", None, "root", "agent"),
        a_span("2", "1", "search", "tool", tool_name="search"),
        a_span("3", "1", "search", "tool", tool_name="search"),
        a_span("4", "1", "fetch", "tool", tool_name="fetch"),
    ]
    after = [
        a_span("a", None, "root", "agent"),
        a_span("b", "a", "plan"),
        a_span("c", "a", "search", "tool", tool_name="search"),
        a_span("d", "a", "write", "tool", tool_name="write"),
    ]
    assert summaries(aligned(before, after)) == [
        "root same",
        ".plan added",
        ".search same",
        ".search missing",
        ".fetch missing",
        ".write added",
    ]


def test_another_model_is_a_change_and_another_tool_is_another_step() -> None:
    """A call whose span name contains the model is the same step with another model, and keeps its descendants."""
    before = [
        a_span("1", None, "root"),
        a_span("2", "1", "chat small", "llm", model="small"),
        a_span("3", "2", "http"),
        a_span("4", "1", "search", "tool"),
    ]
    after = [
        a_span("a", None, "root"),
        a_span("b", "a", "chat large", "llm", model="large", is_error=True),
        a_span("c", "b", "http"),
        a_span("d", "a", "fetch", "tool"),
    ]
    assert summaries(aligned(before, after)) == [
        "root same",
        ".chat large changed name,error,model",
        "..http same",
        ".search missing",
        ".fetch added",
    ]


def test_what_was_said_differs_where_its_number_does() -> None:
    """Inputs and outputs are compared by the numbers of their texts; a span without numbers counts as the same."""
    one, other = [a_span("1", None, "root")], [a_span("a", None, "root")]
    assert summaries(aligned(one, other, {"1": (1, 2)}, {"a": (1, 3)})) == ["root changed output"]
    assert summaries(aligned(one, other, {"1": (1, 2)}, {"a": (5, 2)})) == ["root changed input"]
    assert summaries(aligned(one, other, {"1": (1, 2)}, {})) == ["root same"]


def test_only_what_differs_is_listed_with_what_stands_above_it() -> None:
    """Of a long trace the way to each difference stays."""
    before = [a_span("1", None, "root"), a_span("2", "1", "left"), a_span("3", "1", "right"), a_span("4", "3", "leaf")]
    after = [a_span("a", None, "root"), a_span("b", "a", "left"), a_span("c", "a", "right")]
    rows = aligned(before, after)
    assert [rows[place].span.name for place in differing(rows)] == ["root", "right", "leaf"]
    assert differing(aligned(before, before)) == []


@pytest.mark.parametrize("seed", range(20))
def test_every_span_of_both_is_there_once(seed: int) -> None:
    """Whatever the trees are, with orphans and cycles in them, every span is listed exactly once."""
    chance = random.Random(seed)

    def a_tree(first: str) -> list[OutlineSpan]:
        ids = [f"{first}{number:03d}" for number in range(chance.randrange(1, 60))]
        return [
            a_span(each, chance.choice([None, "nowhere", *ids]), chance.choice("abc"), chance.choice(["llm", "tool"]))
            for each in ids
        ]

    before, after = a_tree("a"), a_tree("b")
    rows = aligned(before, after)
    assert Counter(row.before.span_id for row in rows if row.before) == Counter(each.span_id for each in before)
    assert Counter(row.after.span_id for row in rows if row.after) == Counter(each.span_id for each in after)
    for place, row in enumerate(rows):
        assert row.above is None or (row.above < place and rows[row.above].depth == row.depth - 1)
    itself = aligned(before, before)
    assert {row.state for row in itself} == {"same"}


def test_five_thousand_spans_are_paired_in_one_go() -> None:
    """A chain as deep as it is long, and as many siblings of one name, need neither recursion nor squares."""
    chain = [a_span(f"{n:04d}", f"{n - 1:04d}" if n else None, "step") for n in range(5_000)]
    flat = [a_span("0000", None, "step")] + [a_span(f"{n:04d}", "0000", f"call {n % 7}") for n in range(1, 5_000)]
    assert Counter(row.state for row in aligned(chain, chain[:4_000])) == {"same": 4_000, "missing": 1_000}
    assert Counter(row.state for row in aligned(flat, flat[:4_000])) == {"same": 4_000, "missing": 1_000}


def a_trace(trace_id: str, answer: str, *tools: str, model: str = "small") -> ExportTraceServiceRequest:
    """Build a trace of an agent that calls tools and answers."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for key, value in (("service.name", "agent"), ("dokimos.project", "shop")):
        resource.resource.attributes.add(key=key).value.string_value = value
    spans = resource.scope_spans.add().spans
    now_ns = time.time_ns()

    def add(number: int, name: str, parent: int | None, **attributes: str | int) -> None:
        span = spans.add(
            trace_id=bytes.fromhex(trace_id),
            span_id=number.to_bytes(8, "big"),
            parent_span_id=b"" if parent is None else parent.to_bytes(8, "big"),
            name=name,
            start_time_unix_nano=now_ns + number * 1_000_000,
            end_time_unix_nano=now_ns + (number + 1) * 1_000_000,
        )
        for key, value in attributes.items():
            held = span.attributes.add(key=key.replace("__", ".")).value
            if isinstance(value, int):
                held.int_value = value
            else:
                held.string_value = value

    add(
        1,
        "invoke_agent shop",
        None,
        gen_ai__operation__name="invoke_agent",
        input__value="Where is it?",
        output__value=answer,
    )
    add(
        2,
        f"chat {model}",
        1,
        gen_ai__operation__name="chat",
        gen_ai__request__model=model,
        gen_ai__usage__input_tokens=100,
        gen_ai__usage__output_tokens=len(answer),
    )
    for number, tool in enumerate(tools, start=3):
        add(
            number,
            f"execute_tool {tool}",
            1,
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name=tool,
            gen_ai__tool__call__arguments='{"id": 7}',
            gen_ai__tool__call__result=f"of {tool}",
        )
    return request


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Running"]:
    """Yield a server with two traces of a kind, and a long one."""
    with a_server(tmp_path_factory.mktemp("compared") / "data") as made:
        send(made.otlp_http, a_trace(ONE, "It comes on Monday.", "lookup", "carrier"))
        hostile = "It comes on Tuesday. <script>alert(1)</script>"
        send(made.otlp_http, a_trace(OTHER, hostile, "lookup", "map", model="large"))
        send(made.otlp_http, a_trace(LARGE, "Done.", *(f"tool {number}" for number in range(5_000))))
        select = "SELECT count(*) FROM spans WHERE dialect IS NOT NULL"
        until(
            lambda: made.store.queries.sql(select, max_rows=1, timeout_s=10).rows[0][0],
            lambda count: int(str(count)) >= 4 + 4 + 5_002,
        )
        made.traces.wait_idle(30)
        yield made


@pytest.fixture
def visit(running: "Running") -> Iterator[Visit]:
    """Yield a visitor without a browser."""
    with Visit(f"http://{running.http}") as made:
        yield made


def words(page: str) -> str:
    """Return the text of a page."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_page_tells_what_differs(visit: Visit) -> None:
    """What both took, the spans as one tree, and the texts of the chosen one with what differs marked."""
    page = visit.get(f"/traces/{ONE}/compare?with={OTHER}&show=all").text
    text = words(page.partition("<tbody>")[2].partition('<tr data-row id="r0"')[2])
    assert "changed output" in words(page)
    for expected in ("chat large changed name, model", "execute_tool map", "execute_tool carrier", "lookup"):
        assert expected in text, text
    assert [words(page).count(each) > 0 for each in ("This trace", "Other trace", "Tokens out")] == [True] * 3
    root = visit.get(f"/traces/{ONE}/compare?with={OTHER}&show=all&pair=0").text
    assert ("<del>Monday" in root, "<ins>Tuesday" in root) == (True, True)
    assert "<script>alert" not in root
    assert "&lt;script&gt;" in root


def test_traces_of_a_kind_are_offered(visit: Visit) -> None:
    """Without another trace the page lists the latest like it, and takes an id or the address of a page."""
    page = visit.get(f"/traces/{ONE}/compare").text
    assert f"/traces/{ONE}/compare?with={OTHER}" in unescape(page)
    assert f"/traces/{ONE}/compare?with={ONE}" not in unescape(page)
    address = f"http://x/traces/{OTHER}?span=1"
    assert "chat large" in visit.client.get(f"{visit.origin}/traces/{ONE}/compare", params={"with": address}).text
    lost = visit.get(f"/traces/{ONE}/compare?with={'0' * 32}")
    assert (lost.status_code, "does not exist" in lost.text) == (404, True)
    assert visit.get(f"/traces/{'0' * 32}/compare").status_code == 404


def test_a_trace_is_like_itself(visit: Visit) -> None:
    """No differences, and all spans can be seen all the same."""
    page = visit.get(f"/traces/{ONE}/compare?with={ONE}").text
    assert "No differences" in page
    assert visit.get(f"/traces/{ONE}/compare?with={ONE}&show=all").text.count("<tr data-row") == 4


def test_a_long_trace_is_shown_a_page_at_a_time(visit: Visit) -> None:
    """Of 5,000 differences a page holds three hundred, and weighs no more than any other."""
    page = visit.get(f"/traces/{ONE}/compare?with={LARGE}")
    assert (page.text.count("<tr data-row"), "1 to 300 of 5,00" in words(page.text)) == (300, True)
    assert len(page.content) < 400_000
    last = visit.get(f"/traces/{ONE}/compare?with={LARGE}&page=16").text
    assert ('rel="prev"' in last, 'rel="next"' in last) == (True, False)
    assert visit.get(f"/traces/{ONE}/compare?with={LARGE}&page=9999").status_code == 200


@pytest.mark.parametrize("looks", [{"viewport": DESK}, {"viewport": PHONE, "color_scheme": "dark"}])
@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "without"])
def test_somebody_compares_two_traces_in_a_browser(
    running: "Running", browser: "Browser", looks: dict[str, Any], *, has_scripts: bool
) -> None:
    """From a trace by way of the offered ones to what differs in a span."""
    with a_page(browser, f"http://{running.http}", java_script_enabled=has_scripts, **looks) as watch:
        page = watch.page
        watch.open(f"/traces/{ONE}")
        page.locator("details.more > summary").first.click()
        page.get_by_role("link", name="Compare with another trace").click()
        page.locator(f"a[href*='with={OTHER}']").click()
        page.get_by_role("link", name="invoke_agent shop").first.click()
        page.locator("#pair ins").first.wait_for()
        assert page.locator("#pair del").first.inner_text().startswith("Monday")
        assert (watch.scan() if has_scripts else [], watch.sideways() <= 0) == ([], True)
