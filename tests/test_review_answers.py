"""Queues that are answered with scores and texts; queues made, changed and filled on pages and by command."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import a_page
from tests.live import until
from tests.offline import Offline, an_offline_server
from tests.paging import Visit
from tests.serving import run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("offline")

RULE = {
    "name": "long: enough",
    "evaluator": "length",
    "config": {"minimumOutputLength": 5, "maximumOutputLength": 99},
    "target": "TRACE",
}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Offline]:
    """Start a server for each test."""
    with an_offline_server(tmp_path / "data") as server:
        yield server


def a_run(api: Offline, count: int) -> str:
    """Build a run with `count` items; return its id."""
    run_id = api.begin()
    api.report(
        run_id, *({"itemKey": f"item {each}", "inputs": {"question": f"Question {each}?"}} for each in range(count))
    )
    return run_id


def a_queue(api: Offline, count: int, **text: object) -> str:
    """Build a queue with the items of a run; its path."""
    queue = (
        f"review-queues/{api.ask('POST', 'review-queues', 201, json={'name': 'q', 'question': 'tone', **text})['id']}"
    )
    api.ask("POST", f"{queue}/entries", 201, json={"runId": a_run(api, count)})
    return queue


def vote(api: Offline, queue: str, status: int = 200, **fields: object) -> Any:
    """Vote on the next entry."""
    entry = api.ask("POST", f"{queue}/next", params={"by": "Ada"})["entry"]["id"]
    return api.ask("PUT", f"{queue}/entries/{entry}/vote", status, params={"by": "Ada"}, json=fields)


def test_a_score_lies_between_its_bounds(api: Offline) -> None:
    """A queue for scores refuses labels and scores beyond its bounds, and stores a score as an annotation."""
    queue = a_queue(api, 1, answer="score", low=1, high=5)
    for wrong in ({"label": "CORRECT"}, {"score": 0.5}, {"score": 5.5}, {}, {"note": "none"}):
        vote(api, queue, 400, **wrong)
    assert vote(api, queue, score=4)["votes"][0]["score"] == 4
    assert api.sql("SELECT score, label, votes FROM annotations, review_entries") == [[4.0, None, 1]]
    assert api.ask("GET", queue)["done"] == 1


def test_a_text_is_the_note(api: Offline) -> None:
    """A queue for texts takes no vote without one."""
    queue = a_queue(api, 1, answer="text")
    for wrong in ({"label": "CORRECT"}, {"score": 1}, {}, {"note": " "}):
        vote(api, queue, 400, **wrong)
    vote(api, queue, note="It should have asked for the order number.")
    assert api.ask("GET", f"{queue}/progress")["votes"] == 1
    assert api.sql("SELECT note FROM annotations") == [["It should have asked for the order number."]]


def test_queues_that_cannot_be_are_refused(api: Offline) -> None:
    """Bounds have an order, and verdicts are labels, since they correct pass rates."""
    for wrong in (
        {"answer": "score", "low": 2, "high": 2},
        {"answer": "score", "question": "verdict"},
        {"answer": "x"},
    ):
        api.ask("POST", "review-queues", 400, json={"name": "q", "question": "tone", **wrong})


def test_scores_and_texts_are_given_by_keyboard(api: Offline, browser: "Browser") -> None:
    """Whole scores have keys of their own, others are typed, and a text is sent without a mouse."""
    ways: dict[str, tuple[dict[str, Any], list[str]]] = {
        "stars": ({"answer": "score", "low": 1, "high": 5}, ["4"]),
        "share": ({"answer": "score"}, ["v", "0.25", "Enter"]),
        "advice": ({"answer": "text"}, ["n", "Be brief.", "Escape", "Enter"]),
    }
    run_id = a_run(api, 1)
    with a_page(browser, api.url) as watch:
        page = watch.page
        for name, (text, keys) in ways.items():
            made = api.ask("POST", "review-queues", 201, json={"name": name, "question": name, **text})["id"]
            api.ask("POST", f"review-queues/{made}/entries", 201, json={"runId": run_id})
            watch.open(f"/review/{made}")
            page.keyboard.press("Enter")
            page.wait_for_url("**/entries/**")
            page.wait_for_load_state()
            for key in keys:
                if key in {"v", "n"}:
                    page.keyboard.press(key)
                    until(lambda: page.evaluate("document.activeElement.name"), {"score", "note"}.__contains__)
                elif len(key) > 1 and key not in {"Enter", "Escape"}:
                    page.keyboard.type(key)
                else:
                    page.keyboard.press(key)
            page.wait_for_url("**through=true*")
    rows = api.sql("SELECT name, score, note FROM annotations ORDER BY name")
    assert rows == [["advice", None, "Be brief."], ["share", 0.25, None], ["stars", 4.0, None]]


def test_a_queue_is_made_changed_and_filled_on_pages(api: Offline) -> None:
    """The API returns the values of the form, feeds included; errors are shown, and no save is lost."""
    rule = api.ask("POST", "projects/shop/trace-eval-rules", 201, json=RULE)["id"]
    form: dict[str, str] = {
        "name": "polite",
        "question": "verdict",
        "labels": "GOOD\nBAD",
        "reviewers": "2",
        "blind": "on",
    }
    form |= {
        "answer": "label",
        "rule-0": rule,
        "policy-0": "failing",
        "rule-1": rule,
        "policy-1": "random",
        "share-1": "12.5",
    }
    with Visit(api.url) as visit:
        assert visit.send("/review/new", "/review/new", **form | {"reviewers": "many"}).status_code == 400
        assert visit.send("/review/new", "/review/new", **form | {"rule-0": "none"}).status_code == 409
        place = visit.send("/review/new", "/review/new", **form).headers["location"]
        (made,) = api.ask("GET", "review-queues")
        assert place == f"/review/{made['id']}"
        feeds = [(each["ruleId"], each["policy"], each["share"]) for each in made["feeds"]]
        assert feeds == [(rule, "failing", 1), (rule, "random", 0.125)]
        assert (made["labels"], made["reviewers"], made["blind"]) == (["GOOD", "BAD"], 2, True)
        edited = visit.get(f"{place}/edit").text
        assert 'value="12.5"' in edited
        changed: dict[str, str] = {**form, "name": "kind", "version": "1"}
        del changed["blind"]
        assert visit.send(f"{place}/edit", f"{place}/edit", **changed).status_code == 303
        assert visit.send(f"{place}/edit", f"{place}/edit", **changed).status_code == 409
        queue_document = api.ask("GET", f"review-queues/{made['id']}")
        assert (queue_document["name"], queue_document["blind"], len(queue_document["feeds"])) == ("kind", False, 2)
        run_id = a_run(api, 4)
        assert f"{place}/add?run={run_id}" in visit.get(f"/review/add?run={run_id}").text
        added = visit.send(f"{place}/add", f"{place}/add", run=run_id, share="100")
        assert added.headers["location"] == f"{place}?added=4"
        assert "4 entries added" in visit.get(added.headers["location"]).text
        items = api.ask("GET", f"runs/{run_id}")["items"]["content"]
        named = f"{items[0]['id']}\n{items[1]['id']}"
        again = visit.send(f"{place}/add", f"{place}/add", targets=named)
        assert again.headers["location"] == f"{place}?added=0"
        wrong = {"targets": "nothing"}, {"run": "none"}, {"targets": "12345"}, {"run": run_id, "share": "some"}
        statuses = [visit.send(f"{place}/add", f"{place}/add", **each).status_code for each in wrong]
        assert statuses == [400, 404, 404, 400]
        assert visit.send(f"{place}/delete", f"{place}/delete").headers["location"] == "/review"
    assert api.ask("GET", "review-queues") == []


def test_a_queue_is_fed_by_command(api: Offline) -> None:
    """`--feed` names rules that may have colons, policies and shares; invalid ones are refused."""
    rule = api.ask("POST", "projects/shop/trace-eval-rules", 201, json=RULE)["id"]
    here = ("--server", api.url)
    feeds = ("--feed", "long: enough:failing", "--feed", f"{rule}:random:0.1", "--feed", f"{rule}:uncertainty")
    assert run("review", "create", "q", *feeds, "--margin", "0.2", *here).exit_code == 0
    (made,) = api.ask("GET", "review-queues")
    feeds_made = [(each["ruleId"], each["policy"], each["share"], each["margin"]) for each in made["feeds"]]
    assert feeds_made == [(rule, "failing", 1, 0.1), (rule, "random", 0.1, 0.1), (rule, "uncertainty", 1, 0.2)]
    assert run("review", "fill", "q", *here).output == "0 added\n"
    for wrong in ("none:failing", f"{rule}:often", "failing"):
        assert run("review", "create", "other", "--feed", wrong, *here).exit_code == 1
    stars = ("--answer", "score", "--low", "1", "--high", "5", "--question", "stars")
    assert run("review", "create", "stars", *stars, *here).exit_code == 0
    assert [(each["answer"], each["low"], each["high"]) for each in api.ask("GET", "review-queues")] == [
        ("label", None, None),
        ("score", 1, 5),
    ]
