"""Daily tasks in a real browser: how many clicks or keys they take, and that scroll position and focus are kept.

Seconds are printed (`pytest -s`), and not asserted: they are the machine's.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.browser import PHONE, Watch, a_page
from tests.live import until
from tests.paging import Shown, Visit, _alert, a_shown_server
from tests.playing import TRACE, a_played_server
from tests.quality_history import a_history
from tests.serving import an_export, post

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LONG_ID, DEAR_ID = "cd" * 16, "de" * 16
SPANS, FAILING = 5_000, 4_321


@dataclass(slots=True)
class Hand:
    """A user whose clicks and keys are counted."""

    watch: Watch
    task: str
    clicks: int = 0
    keys: int = 0
    began_s: float = field(default_factory=time.monotonic)

    def click(self, selector: str) -> None:
        """Click, or touch."""
        self.watch.page.locator(selector).first.click()
        self.clicks += 1

    def press(self, *keys: str) -> None:
        """Press one key after the other."""
        for key in keys:
            self.watch.page.keyboard.press(key)
            self.keys += 1

    def sees(self, selector: str, text: str = "") -> None:
        """Wait until an element that matches the selector has this text."""
        self.watch.page.locator(selector).filter(has_text=text).first.wait_for()

    def done(self, *, clicks: int = 0, keys: int = 0) -> None:
        """Check that the task took at most this much."""
        print(f"{self.task}: {self.clicks} clicks, {self.keys} keys, {time.monotonic() - self.began_s:.1f} s")  # noqa: T201
        assert self.clicks <= clicks
        assert self.keys <= keys


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield one server for all, with the sample and a trace of 5,000 spans of which one failed."""
    with a_shown_server(tmp_path_factory.mktemp("tasks") / "data") as server:
        url = f"http://{server.running.otlp_http}/v1/traces"
        for export in (a_long_export(), a_dear_export()):
            post(url, export.SerializeToString())
        server.running.store.wait_committed(60)
        server.running.traces.wait_idle(60)
        yield server


def now(export: ExportTraceServiceRequest) -> ExportTraceServiceRequest:
    """Return the export as if it had been made a minute ago."""
    spans = export.resource_spans[0].scope_spans[0].spans
    shift = time.time_ns() - 60 * 10**9 - spans[0].start_time_unix_nano
    for span in spans:
        span.start_time_unix_nano += shift
        span.end_time_unix_nano += shift
    return export


def a_long_export() -> ExportTraceServiceRequest:
    """Return one trace of many spans, three levels deep, of which one failed."""
    export = now(an_export(LONG_ID, *(f"step {number}" for number in range(SPANS)), project="long"))
    spans = export.resource_spans[0].scope_spans[0].spans
    for number, span in enumerate(spans):
        span.end_time_unix_nano = span.start_time_unix_nano + 5_000_000
        span.start_time_unix_nano += number * 900
        if number % 50 > 1:
            span.parent_span_id = (number - number % 50 + 2).to_bytes(8, "big")
    spans[0].end_time_unix_nano = spans[-1].end_time_unix_nano
    spans[FAILING].status.code = 2  # type: ignore[assignment] # an open enum
    spans[FAILING].status.message = "the tool was away"
    return export


def a_dear_export() -> ExportTraceServiceRequest:
    """Build an expensive trace of one user."""
    export = now(an_export(DEAR_ID, "dear question", project="long"))
    span = export.resource_spans[0].scope_spans[0].spans[0]
    attributes: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "big-1", "user.id": "ada"}
    for key, value in attributes.items():
        span.attributes.add(key=key).value.string_value = value
    span.attributes.add(key="gen_ai.usage.cost").value.double_value = 12.5
    return export


def test_the_failing_step_of_5000_spans_by_mouse(shown: Shown, browser: "Browser") -> None:
    """From the first page to its errors, then the trace, with the failed span in view and its details shown."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/?project=long")
        hand = Hand(watch, "failing step, mouse")
        hand.click(".tile >> text=/%/")
        hand.click("[data-open]")
        hand.sees("#span", "the tool was away")
        hand.done(clicks=3)
        hand.sees("#tree[data-drawn] tr.here", f"step {FAILING}")
        assert watch.page.evaluate(_IS_IN_VIEW)
        drawn = watch.page.locator("#tree [data-row]").count()
        assert drawn < 150
        assert watch.page.evaluate("document.documentElement.scrollHeight") < 4_000


_LABELS_THAT_TOUCH = """() => {
  const labels = [...document.querySelectorAll(".time-axis text")];
  const boxes = labels.map((label) => label.getBoundingClientRect());
  const touches = (_, number) => number && boxes[number - 1].right > boxes[number].left;
  return labels.filter(touches).map((label) => label.textContent);
}"""
_PARTS = ("tr.here [data-open]", "tr.here", "table")
_IS_IN_VIEW = """() => {
  const box = document.getElementById("tree").getBoundingClientRect();
  const row = document.querySelector("#tree tr.here").getBoundingClientRect();
  return row.top >= box.top && row.bottom <= box.bottom;
}"""


def test_the_failing_step_of_5000_spans_by_keyboard(shown: Shown, browser: "Browser") -> None:
    """In the list of traces with errors, j and Enter open the trace on the step, and u leads back to that list."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces?project=long&status=error")
        hand = Hand(watch, "failing step, keyboard")
        hand.press("j", "Enter")
        hand.sees("#span", "the tool was away")
        hand.done(keys=2)
        hand.sees("#tree[data-drawn]")
        hand.press("u")
        watch.page.wait_for_url("**/traces?project=long&status=error")


def test_the_failing_step_of_5000_spans_on_a_phone(shown: Shown, browser: "Browser") -> None:
    """On a phone too the first page leads there, and no page is wider than the phone."""
    with a_page(browser, shown.origin, viewport=PHONE, has_touch=True) as watch:
        watch.open("/?project=long")
        hand = Hand(watch, "failing step, phone")
        hand.click(".tile >> text=/%/")
        hand.click("[data-open]")
        hand.sees("#span", "the tool was away")
        hand.done(clicks=3)
        assert watch.sideways() <= 0
        hand.sees("#tree[data-drawn] tr.here", f"step {FAILING}")
        name, table, box = (watch.page.locator(f"#tree {part}").first.bounding_box() for part in _PARTS)
        assert name is not None
        assert table is not None
        assert box is not None
        assert name["width"] > 40  # the name is read, and the columns that are left take all of the width
        assert table["width"] > box["width"] - 4
        assert watch.page.evaluate(_LABELS_THAT_TOUCH) == []


def test_choosing_a_span_moves_nothing(shown: Shown, browser: "Browser") -> None:
    """A click far down keeps scroll position, focus and search, and Back leads to the list as it was."""
    with a_page(browser, shown.origin) as watch:
        page = watch.page
        watch.open("/traces?project=long&status=error")
        page.click("[data-open]")
        page.wait_for_selector("#tree[data-drawn]")
        page.evaluate("document.getElementById('tree').scrollTop = 40000")
        page.wait_for_timeout(100)
        link = page.locator("#tree [data-row] [data-open]").nth(20)
        name = link.inner_text()
        before = page.evaluate("document.getElementById('tree').scrollTop")
        link.click()
        page.locator("#span .span-name").filter(has_text=name.split(",")[-1].strip()).wait_for()
        assert page.evaluate("document.getElementById('tree').scrollTop") == before
        assert page.evaluate("document.activeElement.closest('#tree [data-row]') !== null")
        page.keyboard.press("e")
        page.locator("#span").filter(has_text="the tool was away").wait_for()
        page.fill("#tree-tools [name=find]", f"step {FAILING}")
        page.locator("#hits").filter(has_text="1 span").wait_for()
        assert page.locator("#tree [data-row]").count() == 3
        page.fill("#tree-tools [name=find]", "")
        page.click("text=Collapse all")
        until(lambda: int(page.evaluate("document.querySelector('#tree table').ariaRowCount")), lambda rows: rows < 300)
        page.click("[data-act=span]")
        page.click("text=Whole trace")
        page.go_back(wait_until="commit")
        page.wait_for_url("**/traces?project=long&status=error", wait_until="commit")


def test_the_most_expensive_trace_of_today(shown: Shown, browser: "Browser") -> None:
    """The first page says what today cost; that number leads to what cost most."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/")
        hand = Hand(watch, "most expensive trace")
        hand.click(".tile a:has-text('$')")
        hand.sees("tbody tr:first-child", "dear question")
        hand.click("[data-open]")
        hand.sees("h1", "dear question")
        hand.done(clicks=2)


def test_all_traces_of_a_user(shown: Shown, browser: "Browser") -> None:
    """More filters, the user, Enter."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces")
        hand = Hand(watch, "traces of a user")
        hand.click("text=More filters")
        hand.click("[name=user]")
        watch.page.keyboard.type("ada")
        hand.press("Enter")
        watch.page.wait_for_url("**user=ada*")
        assert watch.page.locator("[data-row]").count() == 1
        hand.done(clicks=2, keys=1)


def test_why_a_score_is_low(shown: Shown, browser: "Browser") -> None:
    """The list by its verdicts, the worst first; the trace opens on the span, with the reason beside it."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces?verdict=failed&project=sample")
        hand = Hand(watch, "why a score is low")
        hand.click("a.sort:has-text('Verdicts')")
        watch.page.wait_for_url("**sort=score*")
        hand.click("[data-open]")
        hand.sees(".verdict-badges .reason", "tool calls succeeded")
        hand.done(clicks=2)


def test_a_rule_from_a_span(shown: Shown, browser: "Browser") -> None:
    """A form that is opened at a span matches that span; saving it activates the rule."""
    with a_page(browser, shown.origin) as watch:
        watch.open(f"/traces/{shown.trace_id}")
        hand = Hand(watch, "rule from a span")
        hand.click("text=Evaluate spans like this")
        watch.page.fill("[name=name]", "from a span")
        hand.click("button:has-text('Save')")
        hand.sees("h1", "from a span")
        hand.done(clicks=2)


def test_an_alert_is_muted(shown: Shown, browser: "Browser") -> None:
    """An alert is muted and unmuted on its page."""
    place = _alert(shown)
    with a_page(browser, shown.origin) as watch:
        watch.open("/")
        hand = Hand(watch, "mute an alert")
        hand.click(f"a[href='{place}']")
        hand.click("button:text-is('Mute')")
        hand.sees(".notice", "Muted until")
        hand.done(clicks=2)
        hand.click("text=Unmute")
        hand.sees("button:text-is('Mute')")


def test_five_failures_become_cases(shown: Shown, browser: "Browser") -> None:
    """The failing traces of a project, all of them chosen, as items of a new dataset."""
    for number in range(5):
        export = now(an_export(f"{number + 1:032x}", "lookup", project="fails"))
        export.resource_spans[0].scope_spans[0].spans[0].status.code = 2  # type: ignore[assignment] # an open enum
        post(f"http://{shown.running.otlp_http}/v1/traces", export.SerializeToString())
    shown.running.store.wait_committed(60)
    shown.running.traces.wait_idle(60)
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces?project=fails&status=error")
        hand = Hand(watch, "five failures to a dataset")
        hand.click("[data-pick-all]")
        hand.click("#chosen button:has-text('Add to a dataset')")
        watch.page.fill("[name=name]", "failures")
        hand.click("button:has-text('Add as a new version')")
        hand.sees("main", "dataset://failures@1")
        assert watch.page.locator("main tbody tr").count() == 5
        hand.done(clicks=3)


def test_two_releases_are_compared(browser: "Browser", tmp_path: Path) -> None:
    """A person gets from the rates of all rules to one rule, and to its latest release beside the previous one."""
    with a_history(tmp_path / "data") as history, a_page(browser, history.origin) as watch:
        watch.open("/quality")
        hand = Hand(watch, "compare two releases")
        hand.click("a:has-text('polite answers')")
        hand.click("a[href*='/quality/compare']:has-text('compare')")
        hand.sees("main", "1.5.0")
        hand.sees("main", "1.4.1")
        hand.done(clicks=2)


def test_what_a_prompt_costs_in_the_playground(browser: "Browser", tmp_path: Path) -> None:
    """At the call of a model, the same messages and parameters, and the price before anything is sent."""
    with a_played_server(tmp_path / "data") as played:
        played.connect()
        with a_page(browser, played.origin) as watch:
            watch.open(f"/traces/{TRACE}")
            hand = Hand(watch, "what a prompt costs")
            hand.click("text=Open in the playground")
            hand.sees("main", "Is it cold in Oslo?")
            hand.sees("main", "Maximum cost")
            hand.done(clicks=1)
        assert played.requests() == [[], []]


def test_a_view_is_shared(shown: Shown, browser: "Browser") -> None:
    """The state of a page is in the address: another browser shows the same rows in the same order."""
    with a_page(browser, shown.origin) as mine, a_page(browser, shown.origin) as theirs:
        mine.open("/traces?project=sample&status=ok")
        hand = Hand(mine, "share a view")
        hand.click("a.sort:has-text('Duration')")
        mine.page.wait_for_url("**sort=duration*")
        hand.done(clicks=1)
        theirs.open(mine.page.url.removeprefix(shown.origin))
        rows = [watch.page.locator("[data-open]").all_inner_texts() for watch in (mine, theirs)]
        assert (len(rows[0]), rows[0]) == (2, rows[1])


def test_a_trace_id_in_the_search_finds_the_trace(shown: Shown) -> None:
    """An id from a log leads to its trace; an unknown id is searched for as a text."""
    with Visit(shown.origin) as visit:
        assert visit.get(f"/traces?text={LONG_ID.upper()}").headers["location"] == f"/traces/{LONG_ID}"
        assert "No trace matches all" in visit.get(f"/traces?text={'f' * 32}").text


def test_a_mistyped_filter_keeps_the_form(shown: Shown) -> None:
    """The typed value stays, the field is marked, and the message above names it."""
    with Visit(shown.origin) as visit:
        for query, name in (("cost=much", "cost"), ("from=yesterday", "from"), ("attribute=x", "attribute")):
            answer = visit.get(f"/traces?{query}&project=long")
            assert answer.status_code == 400
            assert f"{name}: " in answer.text.partition('role="alert">')[2].partition("</p>")[0]
            assert f'value="{query.partition("=")[2]}"' in answer.text


def test_the_first_page_counts_what_its_links_lead_to(shown: Shown) -> None:
    """Traces, errors, models and failing spans of the last day, each with the traces behind it."""
    with Visit(shown.origin) as visit:
        page = until(lambda: visit.get("/?project=long").text, lambda text: "$12.50" in text)
        tile = page.partition("<dt>Traces</dt>")[2]
        assert ">2<" in tile[:300]
        for link, trace_id in (("model=big-1", DEAR_ID), (f"failing=step+{FAILING}", LONG_ID)):
            at = page.index(link)
            href = page[page.rindex('href="', 0, at) + 6 : page.index('"', at)].replace("&amp;", "&")
            html = visit.get(href).text
            assert (f"/traces/{trace_id}" in html, html.count("data-row")) == (True, 1)
        for period in ("hour", "week"):
            assert visit.get(f"/?period={period}").is_success
        assert visit.get("/?period=century").status_code == 400
