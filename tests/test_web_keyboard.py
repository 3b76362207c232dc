"""Keyboard control: the palette, sequences, votes, the help, and one stop of the Tab key for each chart and list."""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Error as PlaywrightError

from collector.web.site import MENU
from tests.browser import PHONE, Watch, a_page
from tests.paging import Shown, Visit, a_review, a_saved_view, a_shown_server, own_rule
from tests.serving import an_export, post
from tests.storing import rows

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Route

PAGES = Path(__file__).parent.parent / "docs" / "pages.md"
MOST_TABS = 6  # to the first trace of the list
FOCUSED = "document.activeElement"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield one server for all: the sample, a saved view, a project, and traces of several hours of today."""
    with a_shown_server(tmp_path_factory.mktemp("keyboard") / "data") as server:
        a_saved_view(server)
        own_rule(server)
        for number in range(12):
            export = an_export(f"{number + 1:032x}", "asked", project=f"agent {number % 3}")
            for span in export.resource_spans[0].scope_spans[0].spans:
                span.start_time_unix_nano = time.time_ns() - number * 3_600 * 10**9
                span.end_time_unix_nano = span.start_time_unix_nano + 10**9
            post(f"http://{server.running.otlp_http}/v1/traces", export.SerializeToString())
        server.running.store.wait_committed(30)
        server.running.traces.wait_idle(30)
        yield server


def open_palette(watch: Watch, typed: str = "") -> list[str]:
    """Open the palette, and type; return its entries."""
    with watch.page.expect_response("**/go"):
        watch.page.keyboard.press("Control+k")
    watch.page.get_by_role("option", name="failing travel").wait_for()
    watch.page.keyboard.type(typed)
    return entries(watch)


def entries(watch: Watch) -> list[str]:
    """Return the entries of the palette, each without its kind."""
    return [text.split("\n")[0] for text in watch.page.locator(".palette [role=option]").all_inner_texts()]


def test_the_palette_goes_to_what_is_typed(shown: Shown, browser: "Browser") -> None:
    """Ctrl+K lists pages, agents, projects and saved views; typing filters them, arrows choose, and Enter opens."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/status")
        whole = open_palette(watch)
        kinds = set(watch.page.locator(".palette [role=option] small").all_inner_texts())
        assert kinds == {"Page", "Agent", "Project", "Saved view"}
        assert (len(MENU) < len(whole), watch.scan()) == (True, [])
        watch.page.keyboard.type("s")
        box = watch.page.get_by_role("combobox")
        for step in ("ArrowDown", "ArrowDown", "ArrowUp"):
            watch.page.keyboard.press(step)
        selected = watch.page.locator("[role=option][aria-selected=true]")
        assert selected.count() == 1
        assert box.get_attribute("aria-activedescendant") == selected.get_attribute("id")
        assert selected.get_attribute("id") == "palette-1"
        box.fill("fail trav view")
        assert entries(watch) == ["failing travel", "Search for “fail trav view”"]
        watch.page.keyboard.press("Enter")
        watch.page.wait_for_url("**/traces?project=sample&status=error")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_palette_returns_the_focus(shown: Shown, browser: "Browser", scheme: str) -> None:
    """Escape closes it, also from within a field, and the focus is where it was; a click on *Go to…* opens it too."""
    with a_page(browser, shown.origin, color_scheme=scheme) as watch:
        watch.open("/traces")
        watch.page.locator("[data-search]").focus()
        open_palette(watch)
        assert watch.scan() == []
        watch.page.keyboard.press("Escape")
        assert watch.page.evaluate(f"{FOCUSED}.matches('[data-search]')")
        watch.page.get_by_role("link", name="Go to…").click()
        watch.page.get_by_role("dialog", name="Go to").get_by_role("combobox").wait_for()
        assert watch.page.url == f"{shown.origin}/traces"


@pytest.mark.parametrize("typed", ["id", "text"])
def test_the_palette_opens_a_trace_or_searches(shown: Shown, browser: "Browser", typed: str) -> None:
    """A trace id leads to the trace; any other text can be searched for."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/")
        listed = open_palette(watch, shown.trace_id if typed == "id" else "no such page")
        expected = f"Go to the trace {shown.trace_id}" if typed == "id" else "Search for “no such page”"
        assert listed == [expected]
        watch.page.keyboard.press("Enter")
        watch.page.wait_for_url(f"**/traces/{shown.trace_id}" if typed == "id" else "**/traces?text=no%20such%20page")


def test_a_palette_that_cannot_be_loaded_is_requested_once(shown: Shown, browser: "Browser") -> None:
    """While the server is away, Ctrl+K requests the script of the palette once, and a message says why none opens."""
    requests: list[str] = []

    def refuse(route: "Route") -> None:
        requests.append(route.request.url)
        route.fulfill(status=204)  # no script, and no error in the console

    with a_page(browser, shown.origin) as watch:
        watch.open("/traces")
        watch.page.route("**/palette.js", refuse)
        watch.page.keyboard.press("Control+k")
        watch.page.get_by_role("status").filter(has_text="The palette cannot be loaded").wait_for()
        watch.page.wait_for_load_state("networkidle")
        assert (len(requests), watch.page.url) == (1, f"{shown.origin}/traces")
        watch.problems.clear()  # what the browser says of a script without a body


def test_an_input_method_keeps_its_keys_in_the_palette(shown: Shown, browser: "Browser") -> None:
    """Enter that confirms a composed word does not open the selected entry."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/status")
        open_palette(watch, "hom")
        key = "{key: 'Enter', isComposing: true, bubbles: true, cancelable: true}"
        kept = f"document.querySelector('.palette input').dispatchEvent(new KeyboardEvent('keydown', {key}))"
        assert watch.page.evaluate(kept) is True
        assert watch.page.get_by_role("dialog", name="Go to").is_visible()


def test_without_scripts_the_palette_is_a_page(shown: Shown, browser: "Browser") -> None:
    """*Go to…* opens a page with the same links and the search."""
    with a_page(browser, shown.origin, java_script_enabled=False, viewport=PHONE) as watch:
        watch.open("/go")
        names = watch.page.locator("[data-places] a").all_inner_texts()
        assert {entry.label for entry in MENU} | {"failing travel", "sample"} <= set(names)
        watch.page.get_by_label("Trace id").fill(shown.trace_id)
        watch.page.get_by_role("button", name="Search").click()
        watch.page.wait_for_url(f"**/traces/{shown.trace_id}")


def test_each_page_with_a_key_opens_by_it(shown: Shown, browser: "Browser") -> None:
    """`g` and the letter of a page open it; the keys are unique, and a `g` that was pressed long ago does not count."""
    keys = {entry.key: entry.path for entry in MENU if entry.key}
    assert len(keys) == len([entry for entry in MENU if entry.key]) == 10
    with a_page(browser, shown.origin) as watch:
        watch.open("/status")
        for key, path in keys.items():
            watch.page.keyboard.press("g")
            watch.page.keyboard.press(key)
            watch.page.wait_for_url(shown.origin + path)
        watch.open("/traces")
        watch.page.locator("[data-search]").focus()
        watch.page.keyboard.type("gh")
        assert watch.page.url == f"{shown.origin}/traces"


def test_keys_of_a_layout_with_other_letters(shown: Shown, browser: "Browser") -> None:
    """On a Cyrillic keyboard, the keys with the letters of a shortcut do what it does."""
    press = """(keys) => { for (const [key, code, ctrlKey] of keys) document.body.dispatchEvent(
        new KeyboardEvent("keydown", { key, code, ctrlKey, bubbles: true, cancelable: true })) }"""
    with a_page(browser, shown.origin) as watch:
        watch.open("/status")
        watch.page.evaluate(press, [["л", "KeyK", True]])
        watch.page.locator(".palette [role=option]").first.wait_for()
        watch.page.keyboard.press("Escape")
        watch.page.evaluate(press, [["п", "KeyG", False], ["ё", "KeyT", False]])
        watch.page.wait_for_url(f"{shown.origin}/traces")


def test_the_palette_replaces_the_help(shown: Shown, browser: "Browser") -> None:
    """Ctrl+K in the help closes it, so that one dialog is open."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/status")
        watch.page.keyboard.press("?")
        open_palette(watch)
        assert watch.page.locator("dialog[open]").count() == 1


def test_votes_and_datasets_by_key(shown: Shown, browser: "Browser") -> None:
    """1, 2 and 3 vote on the trace, which opens on its failing span; `d` opens the form that adds it to a dataset."""
    trace_id = shown.sample.trace_ids[2]
    with a_page(browser, shown.origin) as watch:
        watch.open(f"/traces/{trace_id}")
        watch.page.wait_for_selector("#tree[data-drawn]")
        for key, verdict in (("1", "correct"), ("2", "incorrect")):
            watch.page.keyboard.press(key)
            watch.page.get_by_role("status").filter(has_text=f"Stored: {verdict}, ").wait_for()
            watch.page.wait_for_selector("#span:not([aria-busy])")
            assert watch.scan() == []
        watch.page.locator("#votes .badge").get_by_text("INCORRECT").wait_for()
        watch.page.locator("#votes [name=note]").press("1")  # it is typed
        assert watch.page.locator("#votes [name=note]").input_value() == "1"
        watch.page.keyboard.press("Escape")
        watch.page.keyboard.press("d")
        watch.page.wait_for_url(f"**/traces/{trace_id}/promote")
    stored = f"SELECT label, span_id FROM annotations WHERE trace_id = '{trace_id}' AND author <> ''"
    assert ("INCORRECT", None) in rows(shown.running.store, stored)


def test_a_typed_note_is_not_lost(shown: Shown, browser: "Browser") -> None:
    """A page with text that was not sent is left only after a confirmation; once it is sent, without one."""
    trace_id, dialogs = shown.sample.trace_ids[0], list[str]()
    with a_page(browser, shown.origin) as watch:

        def refuse(dialog: "Dialog") -> None:
            dialogs.append(dialog.type)
            dialog.dismiss()

        watch.page.on("dialog", refuse)
        watch.open(f"/traces/{trace_id}")
        watch.page.locator("#votes [name=note]").press_sequentially("half a")
        with suppress(PlaywrightError):
            watch.page.goto(f"{shown.origin}/status")
        assert (dialogs, urlsplit(watch.page.url).path) == (["beforeunload"], f"/traces/{trace_id}")
        watch.page.get_by_role("button", name="Unsure").click()
        watch.page.get_by_role("status").filter(has_text="Stored: unsure, ").wait_for()
        watch.page.wait_for_selector("#span:not([aria-busy])")
        watch.open("/status")
        assert dialogs == ["beforeunload"]


def keys_of(watch: Watch) -> dict[str, str]:
    """Open the help; return its keys, each with its text."""
    watch.page.keyboard.press("?")
    terms, texts = (watch.page.locator(f"#help {tag}") for tag in ("dt", "dd"))
    return dict(zip((" ".join(term.split()) for term in terms.all_inner_texts()), texts.all_inner_texts(), strict=True))


def test_the_help_lists_the_keys_of_the_page(shown: Shown, browser: "Browser") -> None:
    """Each key of the help has an effect on its page, and docs/pages.md names it."""
    documented = PAGES.read_text(encoding="utf-8").partition("## Keys")[2].partition("\n## ")[0]
    heads = [row.split("|")[1] for row in documented.splitlines() if row.startswith("| `")]
    in_docs = {key for head in heads for each in re.findall(r"`([^`]+)`", head) for key in each.split()}
    with a_page(browser, shown.origin) as watch:
        for path, some, others in (
            ("/traces", {"j", "p", "/", "g t", "Ctrl+K"}, {"e E", "1"}),
            (f"/traces/{shown.sample.trace_ids[2]}", {"e", "1", "d", "u", "J"}, {"p"}),
            (a_review(shown), {"1", "n", "g h"}, {"j"}),
        ):
            watch.open(path)
            keys = keys_of(watch)
            assert (some - keys.keys(), others & keys.keys()) == (set(), set()), path
            if "/review/" not in path:
                assert {each for key in keys for each in key.split()} <= in_docs
            assert watch.scan() == []
            watch.page.keyboard.press("Escape")


def tabs_to(watch: Watch, selector: str, most: int = 400) -> int:
    """Return how often Tab is pressed until an element has the focus."""
    for count in range(1, most):
        watch.page.keyboard.press("Tab")
        if watch.page.evaluate(f"(selector) => {FOCUSED}.matches(selector)", selector):
            return count
    raise AssertionError(f"{selector} was not reached")


def test_the_first_trace_is_a_few_tabs_away(shown: Shown, browser: "Browser") -> None:
    """The second link of a list of traces leads past menu, filters, charts and facets to its first row."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces")
        watch.page.wait_for_selector("#volume svg")
        skip = tabs_to(watch, ".skip[href='#rows']", 5)
        watch.page.keyboard.press("Enter")
        assert skip + 1 + tabs_to(watch, "[data-open]", MOST_TABS) <= MOST_TABS


_STOPS = """all => all.map((each) => {
    const links = [...each.querySelectorAll("a")];
    return [links.length, links.filter((link) => link.getAttribute("tabindex") !== "-1").length];
})"""


def test_charts_and_lists_of_values_are_one_stop(shown: Shown, browser: "Browser") -> None:
    """Each has one link in the order of the Tab key, and arrow keys, Home and End lead to the others."""
    with a_page(browser, shown.origin, viewport={"width": 1500, "height": 900}) as watch:
        watch.open("/traces?since=24h")
        watch.page.locator("#values li").first.wait_for()
        groups = watch.page.locator(".picture svg[role=group], .values section")
        counts: list[list[int]] = groups.evaluate_all(_STOPS)
        assert max(many for many, _ in counts) > 5
        assert {stops for _, stops in counts} == {1}
        tabs_to(watch, ".picture svg a")
        places = []
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowDown", "Home", "ArrowUp"):
            watch.page.keyboard.press(key)
            places.append(
                watch.page.evaluate(f"[...{FOCUSED}.closest('svg').querySelectorAll('a')].indexOf({FOCUSED})")
            )
        last = counts[0][0] - 1
        assert places == [1, 2, 1, last, last, 0, 0]
        assert watch.scan() == []
        watch.page.keyboard.press("ArrowRight")
        watch.page.keyboard.press("Tab")
        watch.page.keyboard.press("Shift+Tab")
        assert watch.page.evaluate(f"[...{FOCUSED}.closest('svg').querySelectorAll('a')].indexOf({FOCUSED})") == 1
    with a_page(browser, shown.origin, java_script_enabled=False) as watch:
        watch.open("/traces/overview?since=24h")
        assert watch.page.locator(".picture a[tabindex], .values a[tabindex]").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", ["home", "traces", "trace"])
def test_pages_with_keys_have_no_violations(shown: Shown, browser: "Browser", scheme: str, place: str) -> None:
    """With the attributes that scripts add, axe finds nothing on the daily pages, in both themes."""
    path = {"home": "/", "traces": "/traces", "trace": f"/traces/{shown.sample.trace_ids[2]}"}[place]
    with a_page(browser, shown.origin, color_scheme=scheme) as watch:
        watch.open(path)
        watch.page.wait_for_selector({"home": "#home", "traces": "#volume svg", "trace": "#tree[data-drawn]"}[place])
        assert watch.scan() == []


def test_places_are_those_of_the_caller(shown: Shown) -> None:
    """The page lists each agent of the last day once, with the list of its traces."""
    with Visit(shown.origin) as visit:
        text = visit.get("/go").text
    assert text.count('href="/traces?service=agent+1"') == 1
