"""The page of a trace: it opens on the failing call, says what is needed first, and leads on to the next trace."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.browser import Watch, a_page
from tests.live import until
from tests.paging import Shown, Visit, a_shown_server
from tests.serving import START_NS, an_export, post

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("traces")

LAPTOP = {"viewport": {"width": 1440, "height": 900}, "timezone_id": "Europe/Vienna"}
FAILED, DEEP, STEPS = "fa" * 16, "de" * 16, "57" * 16
OTHERS = [f"{number:02}" * 16 for number in range(1, 4)]
QUESTION, STEP, ANSWER = "Where is order 4711?", "I look it up.", "I cannot see your order."


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield one server for all: the sample, a trace whose tool failed, a deep one, and some of another project."""
    with a_shown_server(tmp_path_factory.mktemp("trace") / "data") as server:
        exports = [a_failed_trace(), a_deep_trace(), a_trace_with_steps()]
        exports += [an_export(each, "visit", project="walk", at_s=at) for at, each in enumerate(OTHERS)]
        for export in exports:
            post(f"http://{server.running.otlp_http}/v1/traces", export.SerializeToString())
        judged = f"SELECT 1 FROM evaluations WHERE trace_id = '{FAILED}'"
        until(lambda: server.running.store.queries.sql(judged, max_rows=1, timeout_s=10).rows, bool)
        server.running.traces.wait_idle(30)
        yield server


def a_trace(trace_id: str, project: str, *spans: dict[str, Any], at_s: int = 20) -> ExportTraceServiceRequest:
    """Build a trace; each span names its `parent` by number, its `error`, and its attributes."""
    export = an_export(trace_id, *(span["name"] for span in spans), project=project, at_s=at_s)
    resource = export.resource_spans[0].resource
    for key, value in (("service.version", "2.4.0"), ("deployment.environment.name", "staging")):
        resource.attributes.add(key=key).value.string_value = value
    for span, fields in zip(export.resource_spans[0].scope_spans[0].spans, spans, strict=True):
        del span.attributes[:]
        span.parent_span_id = fields["parent"].to_bytes(8, "big") if "parent" in fields else b""
        span.end_time_unix_nano = START_NS + at_s * 10**9 + 4_000_000_000
        if "error" in fields:
            span.status.code, span.status.message = 2, fields["error"]  # type: ignore[assignment] # an open enum
        for key, value in fields.get("attributes", {}).items():
            text = value if isinstance(value, str) else json.dumps(value)
            span.attributes.add(key=key).value.string_value = text
    return export


def says(role: str, text: str) -> dict[str, Any]:
    """Build a message."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def a_failed_trace() -> ExportTraceServiceRequest:
    """Build a trace in which a tool failed because its request did."""
    person = {"user.id": "maria@example.com", "session.id": "chat-1"}
    tool = {"gen_ai.tool.name": "lookup_order", "gen_ai.tool.call.arguments": {"order": 4711}}
    chat = {"gen_ai.request.model": "gpt-5-mini", "gen_ai.input.messages": [says("user", QUESTION)]}
    return a_trace(
        FAILED,
        "sample",
        {"name": "invoke_agent", "attributes": {"gen_ai.operation.name": "invoke_agent"} | person},
        {
            "name": "chat",
            "parent": 1,
            "attributes": {"gen_ai.operation.name": "chat", "gen_ai.usage.cost": "0.00066"} | chat,
        },
        {
            "name": "execute_tool lookup_order",
            "parent": 1,
            "error": "order_id is missing",
            "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": "none"} | tool,
        },
        {"name": "POST", "parent": 3, "error": "422"},
    )


def a_deep_trace() -> ExportTraceServiceRequest:
    """Build a trace of 60 levels."""
    levels = (
        {"name": f"step {level} delegates to a worker"} | ({"parent": level} if level else {}) for level in range(60)
    )
    return a_trace(DEEP, "deep", *levels)


def a_trace_with_steps() -> ExportTraceServiceRequest:
    """Build a trace whose agent has question and answer only, and whose model has the steps between them."""
    call = {"type": "tool_call", "id": "1", "name": "lookup_order", "arguments": {"order": 4711}}
    request = {"role": "assistant", "parts": [{"type": "text", "content": STEP}, call]}
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "unknown order"}]}
    agent = {"gen_ai.input.messages": [says("user", QUESTION)], "gen_ai.output.messages": [says("assistant", ANSWER)]}
    model = agent | {"gen_ai.input.messages": [says("user", QUESTION), request, result]}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup_order", "gen_ai.tool.call.id": "1"}
    return a_trace(
        STEPS,
        "steps",
        {"name": "agent", "attributes": {"gen_ai.operation.name": "invoke_agent", "session.id": "steps"} | agent},
        {"name": "chat", "parent": 1, "attributes": {"gen_ai.operation.name": "chat"} | model},
        {"name": "execute_tool lookup_order", "parent": 1, "error": "the shop is away", "attributes": tool},
    )


def drawn(watch: Watch, path: str) -> None:
    """Open a trace, and wait until the script has drawn its tree."""
    watch.open(path)
    watch.page.wait_for_selector("#tree[data-drawn]")


def test_a_trace_opens_on_the_failing_call(shown: Shown, browser: "Browser") -> None:
    """The tool is selected, with error, arguments and result on the first screen, and verdicts once, as badges."""
    with a_page(browser, shown.origin, **LAPTOP) as watch:
        drawn(watch, f"/traces/{FAILED}")
        pane = watch.page.locator("#span")
        assert pane.locator(".span-name").inner_text() == "execute_tool lookup_order"
        places = [pane.get_by_text(text, exact=True) for text in ("order_id is missing", "Arguments", "Result")]
        bottoms = [box["y"] + box["height"] for place in places if (box := place.bounding_box())]
        assert (len(bottoms), bottoms, bottoms[-1] < 600) == (3, sorted(bottoms), True)
        badges = watch.page.locator(".verdict-badges a")  # with the reason beside the badge
        assert badges.count() == 1
        assert "0 of 1 tool calls succeeded" in (badges.get_attribute("title") or "")
        assert watch.page.inner_text("main").count("0 of 1 tool calls succeeded") == 1
        badges.click()
        watch.page.wait_for_selector(".verdict:target")
        assert "0 of 1 tool calls succeeded" in watch.page.inner_text(".verdict:target")
        assert watch.scan() == []


def test_the_head_of_a_trace_has_what_one_looks_for(shown: Shown, browser: "Browser") -> None:
    """User, session, release, model, environment, cost and one time are there; ids and expiry are in the menu."""
    with a_page(browser, shown.origin, **LAPTOP) as watch:
        drawn(watch, f"/traces/{FAILED}")
        head = dict(
            pair.split("\n", 1) for pair in watch.page.locator(".trace-facts > div").all_inner_texts() if "\n" in pair
        )
        assert {"User", "Session", "Release", "Model", "Environment", "Cost", "Started"} <= head.keys()
        assert not {"Trace id", "Expires"} & head.keys()
        assert (head["User"], head["Release"], head["Environment"]) == ("maria@example.com", "2.4.0", "staging")
        assert head["Cost"] == "$0.0007"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", head["Started"])
        title = watch.page.locator(".trace-facts time").get_attribute("title") or ""
        assert (title.endswith(" UTC"), title.startswith(head["Started"])) == (True, False)
        menu = watch.page.locator(".actions .more")
        assert not menu.get_by_text(FAILED).is_visible()
        menu.locator("summary").click()
        assert menu.get_by_text(FAILED).is_visible()
        assert menu.get_by_text("Expires").is_visible()


def trace_of(watch: Watch) -> str:
    """Return the id of the trace that a page shows."""
    return watch.page.url.partition("/traces/")[2][:32]


def test_the_next_trace_is_that_of_the_list(shown: Shown, browser: "Browser") -> None:
    """Next and previous follow the list with its filters, by click or key, and say where it ends."""
    with a_page(browser, shown.origin, **LAPTOP) as watch:
        watch.open("/traces?project=walk")
        watch.page.locator("[data-open]").first.click()
        watch.page.wait_for_selector("#tree[data-drawn]")
        seen = [trace_of(watch)]
        for _ in OTHERS[1:]:
            watch.page.locator("[data-trace=next]").click()
            watch.page.wait_for_url(lambda url: seen[-1] not in url)
            watch.page.wait_for_selector("#tree[data-drawn]")
            seen.append(trace_of(watch))
        assert seen == OTHERS[::-1]
        watch.page.keyboard.press("J")
        watch.page.get_by_text("This is the last trace of the list").wait_for()
        watch.page.keyboard.press("K")
        watch.page.wait_for_url(f"**/{OTHERS[1]}**")
        assert watch.page.locator("[data-up]").get_attribute("href") == "/traces?project=walk"


def test_without_a_list_the_next_trace_is_the_older_one(shown: Shown) -> None:
    """Next and previous are by time then, or by the order of a sorted list; the view stays."""
    with Visit(shown.origin) as visit:

        def step(trace_id: str, query: str) -> str:
            return visit.get(f"/traces/{trace_id}/next?{query}").headers["location"]

        assert step(OTHERS[1], "") == f"/traces/{OTHERS[0]}"
        assert step(OTHERS[1], "to=previous&view=conversation") == f"/traces/{OTHERS[2]}?view=conversation"
        ranked = "list=project%3Dwalk%26sort%3Dduration%26from%3D2020-01-01T00%253A00%253A00Z"
        assert step(OTHERS[2], ranked).startswith(f"/traces/{OTHERS[1]}?list=")
        for nonsense in ("list=since%3Dever", "list=%3D%26x%3D1", "list=" + "x" * 5_000):
            assert step(OTHERS[1], nonsense).startswith(f"/traces/{OTHERS[0]}"), nonsense
        assert visit.get(f"/traces/{'0' * 32}/next").status_code == 404


def test_the_divider_moves_by_mouse_and_key_and_is_remembered(shown: Shown, browser: "Browser") -> None:
    """Tree and pane share the width as the user left it, also after a reload; Enter gives it back."""
    with a_page(browser, shown.origin, **LAPTOP) as watch:
        drawn(watch, f"/traces/{FAILED}")
        divider, tree = watch.page.get_by_role("separator"), watch.page.locator(".tree-pane")

        def width() -> float:
            box = tree.bounding_box()
            assert box is not None
            return round(box["width"])

        usual = width()
        box = divider.bounding_box()
        assert box is not None
        watch.page.mouse.move(box["x"] + 8, box["y"] + 40)
        watch.page.mouse.down()
        watch.page.mouse.move(box["x"] - 192, box["y"] + 40)
        watch.page.mouse.up()
        dragged = width()
        assert abs(usual - dragged - 200) < 20
        divider.press("ArrowRight")
        divider.press("ArrowRight")
        moved = width()
        assert moved > dragged
        drawn(watch, f"/traces/{DEEP}")
        assert abs(width() - moved) < 2
        assert watch.scan() == []
        divider.press("Enter")
        assert abs(width() - usual) < 20


def test_names_are_readable_at_any_depth(shown: Shown, browser: "Browser") -> None:
    """At 60 levels each name that is drawn is whole, and deeper levels are further to the right."""
    with a_page(browser, shown.origin, **LAPTOP) as watch:
        drawn(watch, f"/traces/{DEEP}")
        for _ in range(2):
            names = watch.page.locator("#tree tbody [data-open]")
            cut = names.evaluate_all("all => all.filter((each) => each.scrollWidth > each.clientWidth).length")
            lefts: list[float] = names.evaluate_all("all => all.map((each) => each.getBoundingClientRect().x)")
            assert (cut, lefts == sorted(set(lefts)), len(lefts) > 10) == (0, True, True)
            watch.page.locator("#tree").evaluate("each => each.scrollTo(0, each.scrollHeight)")
            watch.page.get_by_text("step 59 delegates to a worker").first.wait_for()


@pytest.mark.parametrize("path", [f"/traces/{STEPS}?view=conversation", "/sessions/steps"])
def test_an_open_call_keeps_the_order_of_headings(shown: Shown, browser: "Browser", path: str) -> None:
    """Axe finds nothing on a page with a failed call, whose parts are shown."""
    with a_page(browser, shown.origin) as watch:
        watch.open(path)
        assert watch.page.get_by_text("the shop is away").is_visible()
        assert watch.scan() == []


def test_the_conversation_is_that_of_the_session(shown: Shown) -> None:
    """The steps between question and answer are there as on the session's page, and a failed call is there once."""

    def told(page: str) -> list[str]:
        turns = re.findall(r'<li class="chat-turn (\w+)">.*?<div class="pieces">(.*?)</div>\s*</li>', page, re.DOTALL)
        return [f"{role}: {' '.join(re.sub('<[^>]*>', ' ', pieces).split())}" for role, pieces in turns]

    with Visit(shown.origin) as visit:
        page = visit.get(f"/traces/{STEPS}?view=conversation").text
        session = visit.get("/sessions/steps").text
    assert [each.partition(":")[0] for each in told(page)] == ["user", "assistant", "assistant"]
    for text, turn in zip((QUESTION, STEP, ANSWER), told(page), strict=True):
        assert text in turn
    assert "unknown order" in told(page)[1]
    assert told(page) == told(session)
    assert "the shop is away" in told(page)[1]
    assert (page.count("the shop is away"), session.count("the shop is away")) == (1, 1)
