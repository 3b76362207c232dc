"""Partial updates: the page stays while the server is away, offers new traces, and counts open alerts in its title."""

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import ne
from typing import TYPE_CHECKING

import pytest

from tests.alerting import a_finding
from tests.browser import Watch, a_page
from tests.live import until
from tests.paging import Shown, a_shown_server
from tests.serving import an_export, post

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

AWAY = re.compile(r"Disconnected since \d\d:\d\d\.")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield one server for all, with the sample."""
    with a_shown_server(tmp_path_factory.mktemp("parts") / "data") as server:
        yield server


def send_trace(shown: Shown, project: str) -> str:
    """Store a trace; return the name of its root."""
    name = f"new {random.randrange(1 << 30)}"
    export = an_export(f"{random.getrandbits(128):032x}", name, project=project, at_s=random.randrange(10, 1000))
    post(f"http://{shown.running.otlp_http}/v1/traces", export.SerializeToString())
    shown.running.store.wait_committed(30)
    shown.running.traces.wait_idle(30)
    return name


def every_second(route: "Route") -> None:
    """Answer with the page as it is, but refresh its live part each second."""
    answer = route.fetch()
    route.fulfill(response=answer, body=re.sub(r'data-every="\d+"', 'data-every="1"', answer.text()))


@contextmanager
def a_list(browser: "Browser", shown: Shown, path: str) -> Iterator[Watch]:
    """Open a list that is refreshed each second."""
    with a_page(browser, shown.origin) as watch:
        watch.page.route(f"**{path}", every_second)
        watch.open(path)
        watch.page.wait_for_selector("[data-row]")
        yield watch
        watch.page.unroute_all(behavior="ignoreErrors")  # requests of the last second


def test_new_traces_are_offered_if_live_is_off(shown: Shown, browser: "Browser") -> None:
    """The list stays as it is and says how many traces are new; a click shows them, and the ticked row stays ticked."""
    send_trace(shown, "offered")
    with a_list(browser, shown, "/traces?project=offered") as watch:
        watch.page.locator("tbody [name=trace]").check()
        fresh = [send_trace(shown, "offered") for _ in range(3)]
        pill = watch.page.get_by_role("button", name="3 new traces")
        pill.wait_for()
        assert watch.page.locator("[data-row]").count() == 1
        assert watch.scan() == []
        pill.click()
        for name in fresh:
            watch.page.get_by_role("link", name=name).wait_for()
        assert watch.page.locator("tbody [name=trace]:checked").count() == 1
        assert (pill.count(), watch.page.url) == (0, f"{shown.origin}/traces?project=offered")
        assert watch.page.evaluate("document.activeElement.matches('[data-row]:first-child [data-open]')")


@pytest.mark.parametrize("busy", ["ticked", "preview", "scrolled"])
def test_live_moves_no_row_that_is_in_use(shown: Shown, browser: "Browser", busy: str) -> None:
    """With live on, new traces are offered while a row is ticked, a preview is open, or the top is out of sight."""
    project = f"live-{busy}"
    for _ in range(40 if busy == "scrolled" else 1):
        send_trace(shown, project)
    with a_list(browser, shown, f"/traces?project={project}&live=1") as watch:
        shows = send_trace(shown, project)
        watch.page.get_by_role("link", name=shows).wait_for()
        if busy == "ticked":
            watch.page.locator("tbody [name=trace]").first.check()
        elif busy == "preview":
            watch.page.locator("[data-row] .when").first.click()
            watch.page.get_by_role("region", name="Preview of a trace").wait_for()
        else:
            watch.page.locator("[data-row]").last.scroll_into_view_if_needed()
        name = send_trace(shown, project)
        watch.page.get_by_role("button", name="1 new trace").wait_for()
        assert watch.page.get_by_role("link", name=name).count() == 0
        watch.page.get_by_role("button", name="1 new trace").click()
        watch.page.get_by_role("link", name=name).wait_for()


def test_pages_without_a_newest_row_offer_nothing(shown: Shown, browser: "Browser") -> None:
    """Sorted lists, older pages and searches for a text are not fetched again."""
    with a_page(browser, shown.origin) as watch:
        for path, is_live in (("/traces", 1), ("/traces?sort=duration", 0), ("/traces?text=refund", 0)):
            watch.open(path)
            assert watch.page.locator("#traces[data-live]").count() == is_live, path


def test_a_span_is_shown_once_the_server_is_back(shown: Shown, browser: "Browser") -> None:
    """A click while the server is away keeps page, address and marked row; then the span is shown."""
    with a_page(browser, shown.origin) as watch:
        watch.open(f"/traces/{shown.trace_id}")
        watch.page.wait_for_selector("#tree[data-drawn]")
        address, name = watch.page.url, watch.page.locator("#span .span-name").inner_text()
        failures: tuple[tuple[Callable[[Route], None], int], ...] = (
            (lambda route: route.abort(), 2),
            (lambda route: route.fulfill(status=503), 1),
        )
        for fail, row in failures:
            watch.page.route("**/*part=span*", fail)
            watch.page.locator("#tree [data-open]").nth(row).click()
            watch.page.get_by_role("alert").filter(has_text=AWAY).wait_for()
            assert (watch.page.url, watch.page.locator("#span .span-name").inner_text()) == (address, name)
            assert name in watch.page.locator("#tree [aria-current=true]").inner_text()
            watch.page.unroute("**/*part=span*")
            watch.page.wait_for_url(partial(ne, address))
            watch.page.get_by_text(AWAY).wait_for(state="detached")
            address, name = watch.page.url, watch.page.locator("#span .span-name").inner_text()
            assert name in watch.page.locator("#tree [aria-current=true]").inner_text()
        watch.problems.clear()  # the browser reports the failed requests


def test_back_shows_the_span_of_the_address(shown: Shown, browser: "Browser") -> None:
    """After a visit to another page, Back shows the span that was selected last, and Back again the list."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces")
        watch.open(f"/traces/{shown.trace_id}")
        watch.page.wait_for_selector("#tree[data-drawn]")
        watch.page.locator("#tree [data-open]").nth(2).click()
        watch.page.wait_for_url("**span=*")
        name = watch.page.locator("#span .span-name").inner_text()
        watch.open("/status")
        watch.page.go_back()
        assert watch.page.locator("#span .span-name").inner_text() == name
        watch.page.go_back()
        assert watch.page.url == f"{shown.origin}/traces"


def test_a_vote_keeps_the_page(shown: Shown, browser: "Browser") -> None:
    """A vote is stored without a new page, so that its place in the list stays; a refused one shows the reason."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces?project=sample")
        watch.page.locator("[data-open]").first.click()
        watch.page.wait_for_selector("#tree[data-drawn]")
        watch.page.evaluate("window.stays = true")
        watch.page.locator("#votes [name=note]").fill("twice")
        watch.page.get_by_role("button", name="Unsure").click()
        watch.page.locator("#votes .prose").get_by_text("twice").wait_for()
        assert watch.page.locator("#votes [name=note]").input_value() == ""
        assert watch.page.evaluate("window.stays")
        watch.page.route("**/annotate", lambda route: route.abort())
        watch.page.locator("#votes [name=note]").fill("lost?")
        watch.page.get_by_role("button", name="Unsure").click()
        watch.page.get_by_role("status").filter(has_text="Not stored").wait_for()
        assert watch.page.locator("#votes [name=note]").input_value() == "lost?"
        watch.page.unroute("**/annotate")
        watch.problems.clear()  # the browser reports the failed request
        watch.page.evaluate("document.querySelector('#votes [name=csrf]').value = 'stale'")
        watch.page.get_by_role("button", name="Unsure").click()
        watch.page.get_by_text("this form has expired").wait_for()
        watch.problems.clear()  # a page with status 403


def test_the_title_counts_open_alerts(shown: Shown, browser: "Browser") -> None:
    """The number is in the title of a page, and follows when a part of the page is refreshed."""
    with a_list(browser, shown, "/traces") as watch:
        before = re.match(r"\((\d+)\) Traces", watch.page.title())
        count = int(before[1]) if before else 0
        shown.running.store.alerts.open(a_finding(project="sample"), time.time_ns())
        until(watch.page.title, lambda title: title.startswith(f"({count + 1}) Traces"))
        badge = watch.page.get_by_role("navigation", name="Main").get_by_text(f"{count + 1} open")
        assert badge.count() == 1


def test_a_page_without_session_leads_to_the_sign_in(shown: Shown, browser: "Browser") -> None:
    """A part that is answered with the form to sign in leaves the page as it is, and says so."""
    with a_list(browser, shown, "/traces") as watch:
        rows = watch.page.locator("[data-row]").count()
        watch.page.unroute("**/traces")
        watch.page.route("**/traces", lambda route: route.fulfill(status=303, headers={"location": "/sign-in"}))
        watch.page.get_by_role("alert").filter(has_text=re.compile(r"Signed out since \d\d:\d\d\.")).wait_for()
        assert watch.page.get_by_role("button", name="Sign in").is_visible()
        strip = watch.page.locator(".away").evaluate_handle("each => each")
        with watch.page.expect_request("**/sign-in"):
            pass  # once more
        assert strip.evaluate("each => each.isConnected")
        assert watch.page.locator("[data-row]").count() == rows
