"""Queues that are filled by rules: what each policy takes, with what chance, and that asking again changes nothing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage.review.annotations import AnnotationTarget, NewAnnotation
from storage.review.review_feeding import Feed, FeedPolicy
from storage.review.review_queues import NewEntry, QueueText, ReviewEntry, ReviewQueue
from storage.store import Store
from tests.live import until
from tests.offline import Offline, an_offline_server
from tests.serving import an_export, post
from tests.storing import a_store, rows

DAY_US = 86_400_000_000
NOW_US = 1_795_000_000_000_000
RESULTS = 2_000
"""Of the rule `one`: every fifth failed, and scores go from 0 to 1 with a threshold of 0.2."""


_RESULTS = """
INSERT INTO evaluation BY NAME
SELECT i + 10000 * {revision} AS job_id, {revision} AS revision, i AS seq, '' AS tenant, printf('%032x', i) AS trace_id,
    0 AS round, 'e' AS name, 'f' AS fingerprint, 'scored' AS outcome, i / {count} AS score, NOT ({failing}) AS passed,
    0.2 AS threshold, 1 AS attempts, make_timestamp({now_us}) AS created_at
FROM range({count}) t(i)
"""
_VOTES = """
INSERT INTO annotation BY NAME
SELECT i AS number, '' AS tenant, 'trace' AS target, printf('%032x', i) AS trace_id, 'verdict' AS name,
    'INCORRECT' AS label, 'person' AS source, 'Ada' AS author, false AS withdrawn, now() AS created_at
FROM range(1, 11) t(i)
"""


def stored(store: Store, statement: str) -> None:
    """Let a store have rows that it would have after much work."""
    store.review_queues._writer.store(lambda cursor: cursor.execute(statement), 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield a store with results of two rules, which disagree on every hundredth trace, and a few votes."""
    with a_store(tmp_path) as made:
        stored(
            made,
            "INSERT INTO rule_revision SELECT i, ['one', 'two'][i], '', 'd', 'r', NULL, 'TRACE', 'e', '{}', [], now() "
            "FROM range(1, 3) t(i)",
        )
        for revision, failing in ((1, "i % 5 = 0"), (2, "i % 5 = 0 AND i % 100 <> 0")):
            stored(made, _RESULTS.format(revision=revision, failing=failing, count=RESULTS, now_us=NOW_US))
        stored(made, _VOTES)
        yield made


def a_feed(policy: FeedPolicy, share: float = 1, **more: Any) -> Feed:
    """Build a feed of the rule `one`."""
    feed = Feed(rule_id="one", policy=policy, share=share, margin=0.1, against=None)
    return replace(feed, **more)


def a_queue(store: Store) -> ReviewQueue:
    """Build a new queue."""
    text = QueueText(
        name="q",
        question="verdict",
        instructions="",
        answer="label",
        low=None,
        high=None,
        labels=["a", "b"],
        reviewers=1,
        blind=False,
        feeds="[]",
    )
    store.review_queues.create("q", text, tenant="", by=None, now_us=NOW_US)
    queue_read = store.review_queues.get("q", tenant=None, now_us=NOW_US)
    assert queue_read is not None
    return queue_read


def filled(store: Store, *feeds: Feed) -> list[ReviewEntry]:
    """Fill a new queue with such feeds; return its entries."""
    queue, feeding = a_queue(store), store.review_feeding
    added = feeding.fill(queue, feeds, now_us=NOW_US)
    assert feeding.fill(queue, feeds, now_us=NOW_US) == 0, "the same results are drawn once"
    entries = store.review_queues.entries(queue, author="Ada", done=None, now_us=NOW_US, most=10_000)
    assert len(entries) == added
    return entries


def numbers(entries: list[ReviewEntry]) -> set[int]:
    """Return the numbers of the entries' results."""
    return {int(str(each.trace_id), 16) for each in entries}


def test_failing_results_come_first_and_a_share_of_all(store: Store) -> None:
    """Failures are always drawn and come first, others by their share; each entry has its own probability."""
    entries = filled(store, a_feed("failing"), a_feed("random", 0.1))
    failed = {number for number in range(RESULTS) if number % 5 == 0}
    assert numbers(entries[: len(failed)]) == failed
    assert {(each.reason, each.probability) for each in entries[: len(failed)]} == {("failing", 1.0)}
    rest = entries[len(failed) :]
    assert {(each.reason, each.probability, each.rule_id) for each in rest} == {("random", 0.1, "one")}
    assert 100 < len(rest) < 220, "of 1,600, five standard deviations"


def test_the_weights_give_the_rate_that_all_results_have(store: Store) -> None:
    """The inverse probabilities of the entries sum to the number of results, even if failures are oversampled."""
    entries = filled(store, a_feed("failing", 0.9), a_feed("random", 0.3))
    weights = {int(str(each.trace_id), 16): 1 / each.probability for each in entries if each.probability}
    failed = sum(weight for number, weight in weights.items() if number % 5 == 0)
    assert failed / sum(weights.values()) == pytest.approx(0.2, abs=0.03)
    assert sum(weights.values()) == pytest.approx(RESULTS, rel=0.15)
    sums = (
        "SELECT queue, count(*), sum(1 / probability), count(*) FILTER (WHERE done) FROM review_entries GROUP BY queue"
    )
    ((queue, count, total, done),) = rows(store, sums)
    assert (queue, count, done) == ("q", len(entries), len(numbers(entries) & set(range(1, 11))))
    assert total == pytest.approx(sum(weights.values()))


def test_uncertain_results_are_near_the_threshold(store: Store) -> None:
    """Scores no further from the threshold than the margin are drawn, and no others."""
    assert numbers(filled(store, a_feed("uncertainty", margin=0.0502))) == set(range(300, 501))


def test_disagreement_is_among_judges_or_with_people(store: Store) -> None:
    """Two rules that judge the same otherwise have a chance that is known; what people see otherwise has none."""
    entries = filled(store, a_feed("disagreement", against="two"))
    known = [each for each in entries if each.probability is not None]
    assert numbers(known) == set(range(0, RESULTS, 100))
    by_votes = [each for each in entries if each.probability is None]
    assert numbers(by_votes) == {1, 2, 3, 4, 6, 7, 8, 9}
    assert {each.reason for each in entries} == {"disagreement"}


def test_old_results_are_left_out(store: Store) -> None:
    """Results older than a month are not drawn."""
    queue, feeding = a_queue(store), store.review_feeding
    assert feeding.fill(queue, [a_feed("failing")], now_us=NOW_US + 31 * DAY_US) == 0


def test_a_server_fills_its_queues(tmp_path: Path) -> None:
    """A queue names rules that there are, and what these find becomes entries by itself."""
    with an_offline_server(tmp_path / "data", settle_after_root_seconds=0) as api:
        rule = {
            "name": "long",
            "evaluator": "length",
            "config": {"minimumOutputLength": 5, "maximumOutputLength": 99},
            "target": "TRACE",
        }
        made = api.ask("POST", "projects/shop/trace-eval-rules", 201, json=rule)
        fields = {"name": "q", "blind": False, "feeds": [{"ruleId": made["id"], "policy": "failing"}]}
        api.ask("POST", "review-queues", 400, json=fields | {"feeds": [{"ruleId": "none", "policy": "random"}]})
        queue = f"review-queues/{api.ask('POST', 'review-queues', 201, json=fields)['id']}"
        assert api.ask("GET", queue)["feeds"][0]["share"] == 1
        send(api)
        until(lambda: api.ask("GET", queue)["entries"], lambda count: count == 1)
        assert api.ask("POST", f"{queue}/fill") == {"added": 0}
        (entry,) = api.ask("GET", f"{queue}/entries")["content"]
        assert (entry["reason"], entry["ruleId"], entry["probability"]) == ("failing", made["id"], 1.0)


def send(api: Offline) -> None:
    """Send a trace whose answer is too short."""
    assert api.running is not None
    request = an_export("a1" * 16, "root")
    span = request.resource_spans[0].scope_spans[0].spans[0]
    for key, value in (("input.value", "Is it?"), ("output.value", "no"), ("openinference.span.kind", "LLM")):
        span.attributes.add(key=key).value.string_value = value
    post(f"http://{api.running.otlp_http}/v1/traces", request.SerializeToString())


def test_a_vote_on_an_item_of_another_run_is_not_counted(store: Store) -> None:
    """Votes belong to an item of a run, and a reader who does not ask for the progress of a queue gets none."""
    about = AnnotationTarget(tenant="", target="run_item", project="shop", run_id="this", item_number=7)
    queue = a_queue(store)
    store.review_queues.add(queue, [NewEntry(about=about, reason="hand")], by=None, now_us=NOW_US)

    def seen(*, counted: bool) -> tuple[int, int]:
        queue_read = store.review_queues.get("q", tenant=None, now_us=NOW_US, counted=counted)
        assert queue_read is not None
        return queue_read.entries, queue_read.votes

    for run, votes in (("other", 0), ("this", 1)):
        annotation = NewAnnotation(
            about=replace(about, run_id=run), name="verdict", label="a", source="person", author=run
        )
        store.annotations.add([annotation], now_us=NOW_US)
        assert seen(counted=True) == (1, votes)
    assert seen(counted=False) == (0, 0)
