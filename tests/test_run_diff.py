"""Two stored runs item by item: over HTTP, and in the engine that the gate uses."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.experiments.columns import load_run
from collector.gating.results import results_of
from rules.statistics.runs.comparison import compare
from rules.statistics.runs.items import compare_items
from rules.statistics.runs.records import ComparedEvaluator, FinishedRun, JudgedItem, TrialResult, run_of
from tests.offline import Offline, an_offline_server

pytestmark = pytest.mark.costly(
    "collector/api", "collector/experiments", "collector/gating", "rules/statistics", "storage/offline"
)

Scores = dict[str, list[float | None]]


@pytest.fixture(name="api", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield one server for all; each test has an experiment of its own."""
    with an_offline_server(tmp_path_factory.mktemp("diff") / "data") as server:
        yield server


def stored(api: Offline, experiment: str, scores: Scores, *, end: str = "SUCCESS", **score: Any) -> str:
    """Return a run with these scores of each item's trials; None is a trial whose evaluator failed."""
    run = api.begin(experimentName=experiment)
    score_fields = {"name": "exact", "threshold": 0.5, "fingerprint": "f1", **score}
    items = [
        {
            "itemKey": key,
            "trial": trial,
            "inputs": {"q": f"What is {key}?"},
            "actualOutputs": {"output": f"{key} is {value}"},
            "costUsd": 0.001 * trial,
            "latencyMs": 100.0 * trial,
            "evalResults": [score_fields | ({"error": "away"} if value is None else {"score": value})],
        }
        for key, values in scores.items()
        for trial, value in enumerate(values, start=1)
    ]
    api.report(run, *items)
    if end != "RUNNING":
        api.end(run, end)
    return run


def difference(api: Offline, run: str, answered: int = 200, **parameters: Any) -> Any:
    """Request the diff of two runs."""
    experiment = api.ask("GET", f"runs/{run}")["experimentId"]
    return api.ask("GET", f"experiments/{experiment}/runs/{run}/diff", answered, params=parameters)


BEFORE: Scores = {
    "same": [1.0],
    "lost": [0.9],
    "broke": [1.0],
    "mended": [0.0],
    "won": [0.6],
    "gone": [1.0],
    "mute": [1],
}
AFTER: Scores = {
    "same": [1.0],
    "lost": [0.6],
    "broke": [0.0],
    "mended": [1.0],
    "won": [0.8],
    "new": [1.0],
    "mute": [None],
}


def test_each_item_is_told_with_how_it_moved(api: Offline) -> None:
    """Flips come first, then losses, then gains, then what lost its score; then the rest, and what one run has not."""
    before, after = stored(api, "moves", BEFORE), stored(api, "moves", AFTER)
    diff = difference(api, after, baselineRunId=before)
    assert (diff["candidateRunId"], diff["baselineRunId"]) == (after, before)
    assert [(each["key"], each["status"], each["flip"]) for each in diff["cases"]["content"]] == [
        ("broke", "REGRESSED", "to_fail"),
        ("mended", "IMPROVED", "to_pass"),
        ("lost", "REGRESSED", None),
        ("won", "IMPROVED", None),
        ("mute", "UNSCORED", None),
        ("same", "UNCHANGED", None),
        ("new", "ADDED", None),
        ("gone", "REMOVED", None),
    ]
    by_key = {each["key"]: each for each in diff["cases"]["content"]}
    (score,) = by_key["lost"]["evaluators"]
    assert (score["baselineMean"], score["candidateMean"], score["delta"]) == (0.9, 0.6, -0.3)
    assert by_key["mute"]["evaluators"][0] | {"significant": False} == {
        "name": "exact",
        "baselineMean": 1.0,
        "candidateMean": None,
        "delta": None,
        "status": "UNSCORED",
        "significant": False,
    }
    assert (by_key["new"]["baseline"], by_key["gone"]["candidate"]) == (None, None)
    assert by_key["gone"]["input"] == {"q": "What is gone?"}


def test_the_summary_counts_as_the_gate_does(api: Offline) -> None:
    """Rates, counts and significance are those of the verdict on the same runs."""
    before, after = stored(api, "counts", BEFORE), stored(api, "counts", AFTER)
    summary = difference(api, after, baselineRunId=before)["summary"]
    experiment = api.ask("GET", f"runs/{after}")["experimentId"]
    verdict = api.ask("POST", f"experiments/{experiment}/gate", json={"candidateRunId": after, "baselineRunId": before})
    names = ["improvedCount", "regressedCount", "unchangedCount", "unscoredCount", "addedCount", "removedCount"]
    assert [summary[name] for name in names] == [verdict[name] for name in names] == [2, 2, 1, 1, 1, 1]
    names = ["significant", "pairing", "baselinePassRate", "candidatePassRate", "passRateDelta"]
    assert [summary[name] for name in names] == [verdict[name] for name in names]
    assert (summary["flippedToFailCount"], summary["flippedToPassCount"]) == (1, 1)
    assert summary["repeats"] == []


def test_the_summary_tells_the_chances_of_several_trials(api: Offline) -> None:
    """Of three trials, all passed before and one after: one of k passes surely, then by 1/3, 2/3, 1; all of k never."""
    before, after = stored(api, "chances", {"a": [1.0, 1.0, 1.0]}), stored(api, "chances", {"a": [0.0, 1.0, 0.0]})
    repeats = difference(api, after, baselineRunId=before)["summary"]["repeats"]
    chances = [(each["k"], each["items"], each["passAtK"], each["passHatK"]) for each in repeats]
    third = [1.0, 0.333333]
    assert chances == [(1, 1, third, third), (2, 1, [1.0, 0.666667], [1.0, 0.0]), (3, 1, [1.0, 1.0], [1.0, 0.0])]


def test_a_side_shows_the_trial_that_fell_short(api: Offline) -> None:
    """The output is that of the first trial that did not pass; cost and latency are means over the trials."""
    before, after = stored(api, "trials", {"a": [1.0, 1.0, 1.0]}), stored(api, "trials", {"a": [1.0, 0.0, 0.25]})
    (case,) = difference(api, after, baselineRunId=before)["cases"]["content"]
    one, other = case["baseline"], case["candidate"]
    assert (one["trial"], one["trials"], one["outcome"]) == (1, 3, "passed")
    assert (other["trial"], other["outcome"], other["actualOutput"]) == (2, "not_passed", {"output": "a is 0.0"})
    assert (other["costUsd"], other["latencyMs"]) == (0.002, 200.0)
    assert (case["flip"], case["evaluators"][0]["candidateMean"]) == ("to_fail", 0.416667)


@pytest.mark.parametrize(
    "status, keys",
    [
        ("CHANGED", ["broke", "mended", "lost", "won"]),
        ("REGRESSED", ["broke", "lost"]),
        ("IMPROVED", ["mended", "won"]),
        ("REMOVED", ["gone"]),
    ],
)
def test_a_filter_lists_what_it_names(api: Offline, status: str, keys: list[str]) -> None:
    """`CHANGED` is worse or better; pages are cut from what the filter lists."""
    before, after = stored(api, f"only {status}", BEFORE), stored(api, f"only {status}", AFTER)
    cases = difference(api, after, baselineRunId=before, status=status)["cases"]
    assert [each["key"] for each in cases["content"]] == keys
    pages = [difference(api, after, status=status, page=at, size=1)["cases"] for at in range(len(keys))]
    assert [each["key"] for page in pages for each in page["content"]] == keys
    assert [page["last"] for page in pages] == [False] * (len(keys) - 1) + [True]


def test_lower_scores_are_better_where_the_evaluator_says_so(api: Offline) -> None:
    """A loss is a rise then; the delta is still candidate minus baseline."""
    before = stored(api, "lower", {"a": [0.2], "b": [0.9]}, direction="lower")
    after = stored(api, "lower", {"a": [0.7], "b": [0.1]}, direction="lower")
    cases = difference(api, after, baselineRunId=before)["cases"]["content"]
    moves = [(each["key"], each["status"], each["evaluators"][0]["delta"], each["flip"]) for each in cases]
    assert moves == [("a", "REGRESSED", 0.5, "to_fail"), ("b", "IMPROVED", -0.8, "to_pass")]


def test_what_cannot_be_laid_side_by_side_is_refused(api: Offline) -> None:
    """A run that goes on and another judge are conflicts; a run of elsewhere, and no baseline, are not found."""
    before = stored(api, "refused", {"a": [1.0]})
    assert "name a baseline" in difference(api, before, 404)["detail"]
    running = stored(api, "refused", {"a": [1.0]}, end="RUNNING")
    assert "RUNNING" in difference(api, running, 409, baselineRunId=before)["detail"]
    other = stored(api, "refused", {"a": [1.0]}, fingerprint="f2")
    assert "fingerprint" in difference(api, other, 409, baselineRunId=before)["detail"]
    stranger = stored(api, "elsewhere", {"a": [1.0]})
    assert "not of the experiment" in difference(api, before, 404, baselineRunId=stranger)["detail"]


def test_items_without_keys_are_paired_by_their_order(api: Offline) -> None:
    """The first of one run is beside the first of the other."""
    runs = []
    for values in ([1.0, 1.0], [1.0, 0.0]):
        runs.append(api.begin(experimentName="unkeyed"))
        api.report(runs[-1], *({"evalResults": [{"name": "exact", "score": value}]} for value in values))
        api.end(runs[-1])
    diff = difference(api, runs[1], baselineRunId=runs[0])
    assert diff["summary"]["pairing"] == "positional"
    assert [(each["key"], each["status"]) for each in diff["cases"]["content"]] == [
        ("item-1", "REGRESSED"),
        ("item-0", "UNCHANGED"),
    ]


def test_a_trial_of_which_nothing_was_said_is_missing_and_no_pass(api: Offline) -> None:
    """An item whose task failed in one of its trials has that trial counted as one without a score."""
    before = stored(api, "silent", {"a": [1.0, 1.0]})
    after = api.begin(experimentName="silent")
    scores = [{"name": "exact", "score": 1.0, "threshold": 0.5, "fingerprint": "f1"}]
    api.report(
        after, {"itemKey": "a", "trial": 1, "evalResults": scores}, {"itemKey": "a", "trial": 2, "error": "no answer"}
    )
    api.end(after)
    diff = difference(api, after, baselineRunId=before)
    assert any("1 missing" in each for each in diff["summary"]["warnings"])
    (case,) = diff["cases"]["content"]
    assert (case["candidate"]["outcome"], case["candidate"]["error"]) == ("error", "no answer")


def test_a_run_read_as_columns_is_what_its_export_says(api: Offline) -> None:
    """Arrays of outcomes, scores, passes, cost and time, the evaluators, and what people know items by are the same."""
    run = api.begin(experimentName="columns", trials=2)
    base_scores = [
        {"name": "exact", "threshold": 0.5, "fingerprint": "f1"},
        {"name": "toxic", "threshold": 0.2, "direction": "lower", "version": "2"},
    ]
    scores: list[list[dict[str, Any]]] = [
        [{"score": 0.25}, {"outcome": "skipped"}],
        [{"error": "away"}, {"score": 0.9}],
        [{"score": 1.0}, {"outcome": "skipped"}],
        [{"score": 0.7}, {"score": 0.2}],
    ]
    places = [("one", 2), ("two", 1), ("one", 1), ("two", 2)]
    items = [
        {"itemKey": key, "trial": trial, "inputs": {"q": f"{key}?"}, "metadata": {"topic": key, "depth": 2}}
        | {
            "costUsd": 0.1 * trial,
            "evalResults": [about | score for about, score in zip(base_scores, each, strict=True)],
        }
        for (key, trial), each in zip(places, scores, strict=True)
    ]
    api.report(run, *items)
    api.end(run)
    assert api.running is not None
    store = api.running.store
    stored_run = store.runs.find(None, run)
    assert stored_run is not None
    read = load_run(stored_run, store.run_items, with_texts=True).results
    exported = results_of(api.answer("GET", f"runs/{run}/export?format=json").json(), "auto", "export")
    assert (read.experiment, read.pairing, read.run.items) == (
        exported.experiment,
        exported.pairing,
        exported.run.items,
    )
    assert read.run.evaluators == exported.run.evaluators
    for name in ("outcomes", "scores", "passed", "cost_usd"):
        np.testing.assert_array_equal(getattr(read.run, name), getattr(exported.run, name), err_msg=name)
    assert read.run.latency_ms is None


def test_an_evaluator_that_changes_within_a_run_is_refused(api: Offline) -> None:
    """Scores by two thresholds under one name are not a comparison, whichever of the runs has them."""
    before = stored(api, "changes", {"a": [1.0]})
    after = api.begin(experimentName="changes")
    score_fields = {"name": "exact", "score": 1.0, "fingerprint": "f1"}
    items = [
        {"itemKey": key, "evalResults": [score_fields | {"threshold": at}]} for key, at in (("a", 0.5), ("b", 0.7))
    ]
    api.report(after, *items)
    api.end(after)
    assert "another threshold" in difference(api, after, 409, baselineRunId=before)["detail"]


_SIDES = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 1.0])), min_size=1, max_size=3),
    min_size=1,
)


def a_run(scores: Scores) -> FinishedRun:
    """Build a finished run from arrays of scores."""
    results = [
        TrialResult(
            item=key,
            evaluator="exact",
            trial=trial,
            outcome="failed" if score is None else "scored",
            score=score,
            passed=None if score is None else score >= 0.5,
        )
        for key, values in scores.items()
        for trial, score in enumerate(values)
    ]
    return run_of([JudgedItem(key=key) for key in scores], [ComparedEvaluator(name="exact", threshold=0.5)], results)


@settings(deadline=None, max_examples=60)
@given(before=_SIDES, after=_SIDES)
def test_items_and_verdict_count_alike(before: Scores, after: Scores) -> None:
    """Each item of either run is listed once, the comparison counts alike, and exchanging the runs turns it."""
    one, other = a_run(before), a_run(after)
    table, verdict = compare_items(one, other), compare(one, other)
    assert sorted(table.order.tolist()) == list(range(len(before.keys() | after.keys())))
    assert [*table.counts.values()] == [
        verdict.worse,
        verdict.better,
        verdict.equal,
        verdict.unscored,
        len(verdict.added),
        len(verdict.removed),
    ]
    turned = compare_items(other, one)
    assert (turned.flips < 0).sum() == (table.flips > 0).sum()
    assert turned.counts["ADDED"] == table.counts["REMOVED"]
    flipped = np.flatnonzero(table.flips)
    assert set(table.order[: flipped.size].tolist()) == set(flipped.tolist())
