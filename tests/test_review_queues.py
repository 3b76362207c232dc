"""Review queues: the assignment of entries, the answers to reviewers, and the votes kept whatever happens."""

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from storage.review.review_turns import ReviewTurn
from tests.access import a_closed_server
from tests.live import a_client, until
from tests.offline import Offline, an_offline_server
from tests.serving import an_export, post, run

pytestmark = pytest.mark.costly(
    "collector/access", "collector/api", "collector/cli", "collector/experiments", "collector/live/upkeep", "storage"
)

TRACES = 12
SPAN = f"{1:016x}"


def trace_id(number: int) -> str:
    """Return the id of a trace of the tests."""
    return f"{number + 1:032x}"


def send_traces(api: Offline, count: int = TRACES) -> None:
    """Send `count` traces to a server, and wait until they are stored."""
    assert api.running is not None
    for number in range(count):
        request = an_export(trace_id(number), "root", at_s=number)
        post(f"http://{api.running.otlp_http}/v1/traces", request.SerializeToString())
    until(lambda: api.sql("SELECT count(*) FROM traces"), lambda rows: rows == [[count]])


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield one server for all, with some traces."""
    with an_offline_server(tmp_path_factory.mktemp("queues") / "data") as server:
        send_traces(server)
        yield server


def a_queue(api: Offline, name: str, *numbers: int, **text: object) -> str:
    """Build a new queue with these traces, and a question of its own; its path."""
    made = api.ask("POST", "review-queues", 201, json={"name": name, "question": name, **text})
    path = f"review-queues/{made['id']}"
    targets = [{"traceId": trace_id(number)} for number in numbers]
    if targets:
        assert api.ask("POST", f"{path}/entries", 201, json={"targets": targets}) == {"added": len(targets)}
    return path


def next_entry(api: Offline, queue: str, by: str) -> Any:
    """Return the entry that a reviewer is assigned, or None."""
    return api.ask("POST", f"{queue}/next", params={"by": by})["entry"]


def vote(api: Offline, queue: str, entry: str, by: str, label: str = "CORRECT", status: int = 200) -> Any:
    """Vote on an entry."""
    return api.ask("PUT", f"{queue}/entries/{entry}/vote", status, params={"by": by}, json={"label": label})


def test_an_entry_is_given_to_as_many_as_are_wanted(api: Offline) -> None:
    """Of two reviewers an entry goes to each once; who asks again keeps what he has, and a third gets nothing."""
    queue = a_queue(api, "two of each", 0, reviewers=2)
    first = next_entry(api, queue, "Ada")
    assert next_entry(api, queue, "Ada")["id"] == first["id"]
    assert next_entry(api, queue, "Bob")["id"] == first["id"]
    assert next_entry(api, queue, "Eve") is None
    vote(api, queue, first["id"], "Ada")
    assert next_entry(api, queue, "Ada") is None
    assert next_entry(api, queue, "Eve") is None
    vote(api, queue, first["id"], "Eve", status=409)
    vote(api, queue, first["id"], "Bob", "INCORRECT")
    progress = api.ask("GET", f"{queue}/progress")
    assert (progress["done"], progress["votes"], progress["leased"]) == (1, 2, 0)
    assert [(each["author"], each["votes"]) for each in progress["reviewers"]] == [("Ada", 1), ("Bob", 1)]


def test_who_is_unsure_leaves_the_entry_to_others(api: Offline) -> None:
    """It stays open and goes to another reviewer, also beyond the required number; the first may decide it later."""
    queue = a_queue(api, "unsure", 0)
    entry = next_entry(api, queue, "Ada")["id"]
    vote(api, queue, entry, "Ada", "UNSURE")
    assert next_entry(api, queue, "Ada") is None
    assert [each["id"] for each in api.ask("GET", f"{queue}/entries", params={"done": False})["content"]] == [entry]
    assert api.sql(f"SELECT votes, done FROM review_entries WHERE entry_id = '{entry}'") == [[1, False]]
    assert next_entry(api, queue, "Bob")["id"] == entry
    vote(api, queue, entry, "Bob", "UNSURE")
    assert api.ask("GET", f"{queue}/progress")["done"] == 0
    vote(api, queue, entry, "Ada", "INCORRECT")
    progress = api.ask("GET", f"{queue}/progress")
    assert (progress["done"], progress["votes"]) == (1, 2)
    assert next_entry(api, queue, "Eve") is None


def test_at_the_same_instant_nobody_gets_what_has_no_room(api: Offline) -> None:
    """Twelve people who ask at once are given each of six entries twice, and another six of them nothing."""
    queue = a_queue(api, "a crowd", *range(6), reviewers=2)
    assigned: list[str | None] = []
    at_once = threading.Barrier(18)

    def ask(number: int) -> None:
        with a_client() as client:
            at_once.wait()
            request = partial(client.post, f"{api.url}/api/v1/{queue}/next", params={"by": f"person {number}"})
            entry = until(request, lambda answer: answer.status_code != httpx.codes.SERVICE_UNAVAILABLE).json()["entry"]
            assigned.append(None if entry is None else entry["id"])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(18)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = {each["id"] for each in api.ask("GET", f"{queue}/entries")["content"]}
    assert sorted(assigned, key=str) == sorted([*entries, *entries, *[None] * 6], key=str)


def test_requests_may_be_carried_out_in_another_order_than_they_came(api: Offline) -> None:
    """Who read the time before another reviewer was given an entry finds it taken."""
    path = a_queue(api, "out of order", 0)
    assert api.running is not None
    store = api.running.store
    now_us = time.time_ns() // 1_000
    queue = store.review_queues.get(path.rpartition("/")[2], tenant=None, now_us=now_us)
    assert queue is not None
    turns = [ReviewTurn(author=name, now_us=now_us + at, lease_us=10**6) for name, at in (("Ada", 5_000), ("Bob", 0))]
    first, second = (store.review_turns.next(queue, turn) for turn in turns)
    assert (first is None, second) == (False, None)


@pytest.mark.costly("collector/api", "storage/review")
def test_people_at_once_finish_a_queue_with_as_many_votes_as_are_wanted(api: Offline) -> None:
    """However their requests fall, five people leave no entry with more or fewer votes than it should have."""
    queue = a_queue(api, "a race", *range(TRACES), reviewers=3)

    def review(by: str) -> None:
        with a_client() as client:
            mine = Offline(api.url, client)
            while (entry := next_entry(mine, queue, by)) is not None:
                vote(mine, queue, entry["id"], by)

    threads = [threading.Thread(target=review, args=(f"racer {number}",)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = api.ask("GET", f"{queue}/entries")["content"]
    assert [each["voteCount"] for each in entries] == [3] * TRACES
    assert api.ask("GET", f"{queue}/progress")["done"] == TRACES


def test_a_lease_ends_and_costs_nobody_his_vote(tmp_path: Path) -> None:
    """When its time is over an entry goes to another reviewer, and the one who had it may still vote."""
    with an_offline_server(tmp_path / "data", review_lease_seconds=1) as api:
        send_traces(api, 1)
        queue = a_queue(api, "slow", 0)
        entry = next_entry(api, queue, "Ada")["id"]
        assert next_entry(api, queue, "Bob") is None
        until(lambda: next_entry(api, queue, "Bob"), bool)
        vote(api, queue, entry, "Ada")
        vote(api, queue, entry, "Bob")
        assert api.ask("GET", f"{queue}/progress")["votes"] == 2


def test_a_lease_that_is_longer_than_leases_are_is_over(tmp_path: Path) -> None:
    """A lease from before the clock was set back by a day, while no server ran, does not block others for a day."""
    with an_offline_server(tmp_path / "data", review_lease_seconds=600) as api:
        send_traces(api, 1)
        queue = a_queue(api, "set back", 0)
        assert next_entry(api, queue, "Ada")
        assert next_entry(api, queue, "Bob") is None
        later = "UPDATE review_turn SET leased_until = leased_until + INTERVAL 1 DAY"
        assert api.running is not None
        api.running.store._writer.store(lambda cursor: cursor.execute(later), 1)
        assert next_entry(api, queue, "Bob")


def test_what_was_left_out_and_what_was_voted_is_taken_back(api: Offline) -> None:
    """Who leaves an entry out is given another one, and undoing gives it to him again; so does undoing a vote."""
    queue = a_queue(api, "second thoughts", 0, 1)
    first = next_entry(api, queue, "Ada")["id"]
    api.ask("POST", f"{queue}/entries/{first}/skip", 204, params={"by": "Ada"})
    second = next_entry(api, queue, "Ada")["id"]
    assert second != first
    vote(api, queue, second, "Ada")
    api.ask("POST", f"{queue}/entries/{second}/skip", 409, params={"by": "Ada"})
    assert next_entry(api, queue, "Ada") is None
    for entry in (second, first):
        api.ask("DELETE", f"{queue}/entries/{entry}/vote", 204, params={"by": "Ada"})
        assert next_entry(api, queue, "Ada")["id"] == entry
    assert api.ask("GET", f"{queue}/progress")["votes"] == 0
    history = api.ask("GET", "annotations", params={"history": True, "name": "second thoughts"})
    assert [each["withdrawn"] for each in history] == [True, False]


def test_a_vote_is_an_annotation_of_the_queues_question(api: Offline) -> None:
    """A question of the operator's own has its own labels; its votes are annotations, wherever they were given."""
    labels = ["rude", "neutral", "kind"]
    queue = a_queue(api, "tone", 0, 1, question="tone", labels=labels, blind=False)
    entry = next_entry(api, queue, "Ada")
    vote(api, queue, entry["id"], "Ada", "CORRECT", 400)
    answered = vote(api, queue, entry["id"], "Ada", "kind")
    assert [(each["label"], each["author"]) for each in answered["votes"]] == [("kind", "Ada")]
    annotations = api.ask("GET", "annotations", params={"traceId": entry["traceId"], "name": "tone"})
    assert [(each["label"], each["source"], each["projectName"]) for each in annotations] == [
        ("kind", "person", "shop")
    ]
    (other,) = {trace_id(0), trace_id(1)} - {entry["traceId"]}
    api.ask("PUT", f"traces/{other}/annotation", json={"name": "tone", "label": "rude", "by": "Ada"})
    assert next_entry(api, queue, "Ada") is None
    assert api.ask("GET", f"{queue}/progress")["done"] == 2


def test_blind_means_that_nothing_others_said_is_told_before_the_vote(api: Offline) -> None:
    """Neither votes, nor results, nor why an entry is there are shown before the vote; then all of it is."""
    run_id = api.begin()
    wrong = {"name": "exact", "score": 0, "threshold": 1, "reason": "the judge's word"}
    texts = {"inputs": {"q": "2+2?"}, "actualOutputs": {"output": "3"}, "expectedOutputs": {"output": "4"}}
    api.report(run_id, {"itemKey": "sum", **texts, "evalResults": [wrong]})
    queue = a_queue(api, "blind", reviewers=2)
    assert api.ask("POST", f"{queue}/entries", 201, json={"runId": run_id}) == {"added": 1}
    assert api.ask("POST", f"{queue}/entries", 201, json={"runId": run_id}) == {"added": 0}
    entry = next_entry(api, queue, "Ada")["id"]
    note = {"label": "INCORRECT", "note": "Bob's secret opinion"}
    api.ask("PUT", f"{queue}/entries/{entry}/vote", params={"by": "Bob"}, json=note)
    for path in (f"{queue}/entries/{entry}?by=Ada", f"{queue}/entries?by=Ada", queue, f"{queue}/progress?by=Ada"):
        text = api.answer("GET", path).text
        assert "secret opinion" not in text
        assert "judge's word" not in text
        assert '"run"' not in text
    shown = next_entry(api, queue, "Ada")
    assert shown["hidden"]
    assert (shown["votes"], shown["results"], shown["reason"], shown["probability"]) == (None,) * 4
    assert shown["content"]["input"] == {"q": "2+2?"}
    assert shown["content"]["expected"] == {"output": "4"}
    after = vote(api, queue, entry, "Ada", "INCORRECT")
    assert {each["author"] for each in after["votes"]} == {"Ada", "Bob"}
    assert [each["reason"] for each in after["results"]] == ["the judge's word"]
    assert (after["hidden"], after["reason"], after["probability"]) == (False, "run", 1.0)


def test_a_share_of_a_run_is_drawn_with_the_probability_that_is_told(api: Offline) -> None:
    """Every item of a run has the same chance, which the entries remember, and drawing again adds nothing."""
    run_id = api.begin()
    for first in range(0, 1000, 100):
        api.report(run_id, *({"itemKey": f"item {number}"} for number in range(first, first + 100)))
    queue = a_queue(api, "a share", blind=False)
    sample = {"runId": run_id, "share": 0.3}
    added = api.ask("POST", f"{queue}/entries", 201, json=sample)["added"]
    assert 230 < added < 370, "five standard deviations"
    assert api.ask("POST", f"{queue}/entries", 201, json=sample) == {"added": 0}
    page = api.ask("GET", f"{queue}/entries", params={"size": 1000})["content"]
    assert {each["probability"] for each in page} == {0.3}
    api.end(run_id)
    api.ask("DELETE", f"runs/{run_id}", 204)
    assert api.ask("GET", queue)["entries"] == 0


def test_a_queue_is_changed_and_deleted_by_its_version(api: Offline) -> None:
    """Names are unique, a change that did not see the last one is refused, and votes outlive the queue."""
    queue = a_queue(api, "once", 3)
    api.ask("POST", "review-queues", 409, json={"name": "once"})
    api.ask("POST", "review-queues", 400, json={"name": "doubled", "labels": ["a", "a"]})
    changed = {"name": "once", "instructions": "Is the sum right?", "reviewers": 2}
    after = api.ask("PUT", queue, json=changed, headers={"if-match": '"1"'})
    assert (after["version"], after["instructions"], after["entries"]) == (2, "Is the sum right?", 1)
    api.ask("PUT", queue, 412, json=changed, headers={"if-match": '"1"'})
    (entry,) = api.ask("GET", f"{queue}/entries")["content"]
    vote(api, queue, entry["id"], "Zoe")
    api.ask("DELETE", f"{queue}/entries/{entry['id']}", 204)
    api.ask("DELETE", f"{queue}/entries/{entry['id']}", 404)
    api.ask("DELETE", queue, 204)
    api.ask("GET", queue, 404)
    assert "Zoe" in {each["author"] for each in api.ask("GET", "annotations", params={"traceId": trace_id(3)})}


def test_targets_are_of_what_is_there(api: Offline) -> None:
    """A request with a target that is not stored or invalid adds nothing."""
    queue = a_queue(api, "targets")
    span = {"traceId": trace_id(0), "spanId": SPAN}
    for wrong, status in (
        ({"traceId": "f" * 32}, 404),
        ({"traceId": trace_id(0), "spanId": "f" * 16}, 404),
        ({"itemResultId": "77777"}, 404),
        ({"spanId": SPAN}, 400),
    ):
        api.ask("POST", f"{queue}/entries", status, json={"targets": [span, wrong]})
    api.ask("POST", f"{queue}/entries", 400, json={})
    assert api.ask("GET", queue)["entries"] == 0
    assert api.ask("POST", f"{queue}/entries", 201, json={"targets": [span, span]}) == {"added": 1}
    assert next_entry(api, queue, "Ada")["target"] == "span"


def test_entries_leave_with_their_traces(tmp_path: Path) -> None:
    """A trace that is deleted leaves every queue, with its votes, and the others stay."""
    with an_offline_server(tmp_path / "data") as api:
        send_traces(api, 2)
        queue = a_queue(api, "leaving", 0, 1)
        entry = next_entry(api, queue, "Ada")
        api.answer("DELETE", f"traces/{entry['traceId']}")
        until(lambda: api.ask("GET", queue)["entries"], lambda count: count == 1)
        assert api.sql("SELECT count(*) FROM review_turn") == [[0]]
        vote(api, queue, entry["id"], "Ada", status=404)
        assert next_entry(api, queue, "Ada")["traceId"] != entry["traceId"]


def test_a_reviewer_reviews_and_does_nothing_else(tmp_path: Path) -> None:
    """A key of the role REVIEWER is given entries and votes, under its own name, and sees nothing else."""
    with a_closed_server(tmp_path / "data") as server:

        def ask(method: str, path: str, key: str = "reviewer", **content: Any) -> httpx.Response:
            return server.ask(method, f"/api/v1/{path}", key=server.keys[key], **content)

        spans = an_export(trace_id(0), "root").SerializeToString()
        url, headers = f"http://{server.running.otlp_http}/v1/traces", {"content-type": "application/x-protobuf"}
        key = {"authorization": f"Bearer {server.keys['ingest']}"}
        with a_client() as client:
            assert client.post(url, content=spans, headers=headers | key).status_code == 200
        until(lambda: ask("GET", f"traces/{trace_id(0)}", "viewer").status_code, lambda status: status == 200)
        queue = f"review-queues/{ask('POST', 'review-queues', 'editor', json={'name': 'q'}).json()['id']}"
        targets = {"targets": [{"traceId": trace_id(0)}]}
        assert ask("POST", f"{queue}/entries", json=targets).status_code == 403
        assert ask("POST", f"{queue}/entries", "editor", json=targets).json() == {"added": 1}
        assert ask("POST", f"{queue}/next", "viewer").status_code == 403
        assert ask("POST", f"{queue}/next", "reviewer of acme").status_code == 403
        entry = ask("POST", f"{queue}/next", params={"by": "somebody else"}).json()["entry"]
        voted = ask("PUT", f"{queue}/entries/{entry['id']}/vote", json={"label": "CORRECT"}).json()
        assert [each["author"] for each in voted["votes"]] == ["reviewer"]
        assert ask("GET", queue).json()["feeds"] is None
        assert ask("GET", queue, "viewer").json()["feeds"] == []
        for path in ("traces", f"traces/{trace_id(0)}", "annotations", "trace-eval-rules", "jobs"):
            assert ask("GET", path).status_code == 403

        def noted() -> set[str]:
            entries = ask("GET", "audit", "admin").json()["content"]
            return {each["path"].rpartition("/")[2] for each in entries if each["keyName"] == "reviewer"}

        until(noted, lambda actions: actions >= {"next", "vote"})


def test_the_command_line_makes_fills_and_shows_a_queue(api: Offline) -> None:
    """A queue made and filled by command is listed with its progress, and is found by its name."""
    where = ("--server", api.url)
    labels = ("--label", "good", "--label", "bad")
    assert run("review", "create", "of the shell", *labels, "--question", "shell", *where).exit_code == 0
    targets = ("--trace", trace_id(0), "--trace", f"{trace_id(1)}/{SPAN}")
    assert run("review", "add", "of the shell", *targets, *where).output == "2 added\n"
    (queue,) = (each for each in api.ask("GET", "review-queues") if each["name"] == "of the shell")
    path = f"review-queues/{queue['id']}"
    vote(api, path, next_entry(api, path, "Ada")["id"], "Ada", "bad")
    assert "1 of 2" in run("review", "list", *where).output
    progress = run("review", "progress", queue["id"], *where).output
    assert progress.startswith("1 of 2 done, 1 votes, 0 in review")
    assert "Ada" in progress
    assert run("review", "delete", "of the shell", *where).exit_code == 0
    assert "is not a review queue" in run("review", "delete", "of the shell", *where).output
