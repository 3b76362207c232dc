"""Reviewing in a real browser by keyboard alone, and what the pages of a queue show to whom."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.access import OPERATOR_KEY, a_closed_server
from tests.browser import a_page
from tests.live import until
from tests.offline import Offline, an_offline_server
from tests.paging import Visit
from tests.walking import PageReader

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("offline", "traces")

ENTRIES = 40
HOSTILE = "<script>document.title = 'taken over'</script><img src=x onerror=alert(1)>"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Offline]:
    """Start a server for each test."""
    with an_offline_server(tmp_path / "data") as server:
        yield server


def a_queue(api: Offline, count: int, **text: object) -> str:
    """Build a queue with `count` items of a run; return its id."""
    run = api.begin()
    wrong = {"name": "exact", "score": 0, "threshold": 1, "reason": "the judge's word"}
    items = [
        {
            "itemKey": f"item {number}",
            "inputs": {"question": f"What is {number} + 1?"},
            "actualOutputs": {"output": f"{number + 1} {HOSTILE}"},
            "evalResults": [wrong],
        }
        for number in range(count)
    ]
    api.report(run, *items)
    queue = str(api.ask("POST", "review-queues", 201, json={"name": f"sums {HOSTILE}", **text})["id"])
    assert api.ask("POST", f"review-queues/{queue}/entries", 201, json={"runId": run}) == {"added": count}
    return queue


def progress(api: Offline, queue: str) -> Any:
    """Return the progress of a queue."""
    return api.ask("GET", f"review-queues/{queue}/progress")


def test_forty_entries_are_reviewed_by_keyboard(api: Offline, browser: "Browser") -> None:
    """From the list of queues to the last of forty entries no mouse is needed, and what a text holds stays text."""
    queue = a_queue(api, ENTRIES)
    with a_page(browser, api.url) as watch:
        page, keys = watch.page, watch.page.keyboard
        watch.open("/review")
        keys.press("j")
        keys.press("Enter")
        page.wait_for_url(f"**/review/{queue}")
        keys.press("Enter")
        seen = set()
        for number in range(ENTRIES):
            page.wait_for_url(lambda url: "/entries/" in url and url not in seen)
            page.wait_for_load_state()
            seen.add(page.url)
            if number == 0:
                assert page.title().startswith("Review")
                assert "onerror=alert(1)" in page.inner_text(".review-what")
                assert "judge's word" not in page.content()
                keys.press("n")
                until(lambda: page.evaluate("document.activeElement.name"), lambda name: name == "note")
                keys.type("1 is typed here, not voted")
                keys.press("Escape")
            keys.press("12"[number % 2])
        page.wait_for_url("**through=true*")
        keys.press("z")
        page.wait_for_url("**/entries/**")
        page.wait_for_load_state()
        keys.press("s")
        page.wait_for_url("**through=true*")
        assert page.title().startswith("sums <script>")
    assert len(seen) == ENTRIES
    state = progress(api, queue)
    assert (state["votes"], state["reviewers"][0]["skipped"]) == (ENTRIES - 1, 1)
    annotations = api.ask("GET", "annotations", params={"size": 100, "name": "verdict"})
    assert sorted(each["verdict"] for each in annotations) == ["CORRECT"] * 20 + ["INCORRECT"] * 19
    assert [each["note"] for each in annotations if each["note"]] == ["1 is typed here, not voted"]


def test_what_others_say_is_shown_after_the_vote(api: Offline) -> None:
    """The page of an entry shows neither votes nor results before the visitor has voted, and then shows both."""
    queue = a_queue(api, 1, reviewers=2)
    with Visit(api.url) as visit:
        page = visit.send(f"/review/{queue}", f"/review/{queue}/next", by="Ada").headers["location"]
        entry = page.partition("?")[0]
        assert page.endswith("?by=Ada")
        note = {"label": "INCORRECT", "note": "Bob's secret opinion"}
        api.ask("PUT", f"review-queues/{queue}/entries/{entry.rpartition('/')[2]}/vote?by=Bob", json=note)
        before = visit.get(page).text
        assert "What is 0 + 1?" in before
        assert "secret opinion" not in before
        assert "judge&#39;s word" not in before
        assert "an item of a run" not in before
        voted = visit.send(page, f"{entry}/vote", by="Ada", label="CORRECT")
        assert voted.headers["location"] == f"/review/{queue}?through=true&by=Ada"
        after = visit.get(page).text
        assert "Bob&#39;s secret opinion" in after
        assert "judge&#39;s word" in after
        assert "an item of a run" in after
        assert visit.send(page, f"{entry}/vote", by="Ada", label="PERHAPS").status_code == 400


def test_saving_the_form_unchanged_changes_no_feed(api: Offline) -> None:
    """The form has a row for every feed, and numbers as exact as they are stored."""
    rule = {"name": "short", "evaluator": "regex", "config": {"pattern": "."}}
    rule_id = api.ask("POST", "projects/shop/trace-eval-rules", 201, json=rule)["id"]
    feeds = [{"ruleId": rule_id, "policy": "random", "share": (row + 1) / 30} for row in range(20)]
    body = {
        "name": "fed",
        "question": "size",
        "answer": "score",
        "low": -1234567.5,
        "high": 0.123456789,
        "feeds": feeds,
    }
    queue = api.ask("POST", "review-queues", 201, json=body)
    page = f"/review/{queue['id']}/edit"
    with Visit(api.url) as visit:
        form = next(each for each in PageReader(page, visit.get(page).text).forms if each.action == page)
        assert visit.send(page, page, **form.fields).status_code == 303
    after = api.ask("GET", f"review-queues/{queue['id']}")
    assert after["version"] == 2
    assert [each["share"] for each in after.pop("feeds")] == pytest.approx([each["share"] for each in feeds], rel=1e-12)
    assert {name: after[name] for name in ("low", "high", "labels")} == {
        name: queue[name] for name in ("low", "high", "labels")
    }


def test_a_reviewer_signs_in_and_sees_queues_alone(tmp_path: Path) -> None:
    """A key that reviews is led to the queues, and the menu names nothing else."""
    with a_closed_server(tmp_path / "data") as server:
        made = server.ask("POST", "/api/v1/review-queues", key=OPERATOR_KEY, json={"name": "the queue"})
        assert made.status_code == 201, made.text
        with Visit(f"http://{server.running.http}") as visit:
            signed_in = visit.send("/sign-in", "/sign-in", key=server.keys["reviewer"])
            assert signed_in.headers["location"] == "/review"
            text = visit.get("/review").text
            menu = text.partition('aria-label="Main"')[2].partition("</nav>")[0]
            assert re.findall('<a href="([^"]+)"', menu) == ["/review"]
            assert "the queue" in text
            queue = f"/review/{made.json()['id']}"
            assert visit.send(queue, f"{queue}/next").headers["location"] == f"{queue}?through=true"
            assert visit.get("/traces").status_code == 403
