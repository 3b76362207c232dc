"""Stored runs compared again: cached comparisons and their invalidation, other thresholds, and too large runs."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.diffing import fill
from collector.cli.main import main
from collector.conventions.own_keys import NO_KEYS
from collector.experiments.columns import MAX_CELLS
from collector.experiments.comparing import MAX_ITEMS, ComparedRuns, RunComparer
from collector.experiments.kept import LruCache
from collector.experiments.watching import RunWatcher
from collector.reading.spans import ConventionsReader
from rules.statistics.runs.comparison import Incomparable, compare
from rules.statistics.runs.options import Options
from rules.statistics.runs.records import ComparedEvaluator, FinishedRun, JudgedItem, TrialResult, run_of
from storage.ingest.writer import WriterOptions
from storage.offline.run_items import NewScore
from storage.store import Store, StoreOptions
from tests.offline import Offline, an_offline_server
from tests.test_run_diff import Scores, difference, stored

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/conventions",
    "collector/experiments",
    "collector/gating",
    "collector/reading",
    "rules/statistics",
    "storage",
)


@pytest.fixture(name="api", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield one server for all; each test has an experiment of its own."""
    with an_offline_server(tmp_path_factory.mktemp("comparing") / "data") as server:
        yield server


def gate(api: Offline, run: str, answered: int = 200, **question: Any) -> Any:
    """Compare a run with its baseline."""
    experiment = api.ask("GET", f"runs/{run}")["experimentId"]
    return api.ask("POST", f"experiments/{experiment}/gate", answered, json={"candidateRunId": run, **question})


def judged(scores: dict[str, list[float]], passes: dict[str, list[float]] | None = None) -> FinishedRun:
    """Return a run of evaluator `grade`, which passes from 0.5 on, and, if given, of `right`, which scores 1 or 0."""
    evaluators = [("grade", scores), *([("right", passes)] if passes else [])]
    results = [
        TrialResult(item=key, evaluator=name, trial=trial, score=score, passed=score >= 0.5)
        for name, of in evaluators
        for key, values in of.items()
        for trial, score in enumerate(values)
    ]
    return run_of(
        [JudgedItem(key=key) for key in scores],
        [ComparedEvaluator(name=name, threshold=0.5) for name, _ in evaluators],
        results,
    )


def test_scores_that_come_later_are_compared(api: Offline) -> None:
    """A run that was compared and then judged again is compared by its current scores."""
    before, after = stored(api, "later", {"a": [1.0], "b": [1.0]}), stored(api, "later", {"a": [1.0], "b": [1.0]})
    assert difference(api, after)["summary"]["regressedCount"] == 0
    assert gate(api, after)["regressedCount"] == 0
    assert api.running is not None
    store = api.running.store
    run = store.runs.find(None, after)
    assert run is not None
    (number, _) = (int(each["id"]) for each in api.ask("GET", f"runs/{after}")["items"]["content"])
    score = NewScore(name="exact", outcome="scored", score=0.0, passed=False, threshold=0.5, fingerprint="f1")
    store.run_items.add_scores(run, "again", [(number, score)], now_us=1)
    (case,) = difference(api, after, status="REGRESSED")["cases"]["content"]
    assert (case["key"], case["candidate"]["outcome"]) == ("a", "not_passed")
    assert gate(api, after, baselineRunId=before)["regressedCount"] == 1


def test_another_threshold_decides_again(api: Offline) -> None:
    """Stored scores pass by the given threshold, in both runs; the scores themselves are unchanged."""
    scores: Scores = {f"{at}": [0.6] for at in range(10)}
    stored(api, "threshold", {key: [0.9] for key in scores})
    after = stored(api, "threshold", scores)
    result = gate(api, after)
    assert (result["baselinePassRate"], result["candidatePassRate"], result["verdict"]) == (1, 1, "regressed")
    strict = gate(api, after, thresholds={"exact": 0.7})
    assert (strict["baselinePassRate"], strict["candidatePassRate"]) == (1, 0)
    assert {each["evaluator"]: each["delta"] for each in strict["evaluators"]}["exact"] == -0.3
    assert gate(api, after, thresholds={"exact": 0.95})["baselinePassRate"] == 0
    assert gate(api, after)["candidatePassRate"] == 1
    assert "no such evaluator" in gate(api, after, 409, thresholds={"exakt": 0.7})["detail"]


def test_a_threshold_is_met_from_the_side_that_is_better() -> None:
    """A score at most the threshold passes if lower is better, and a result without a score passes by no threshold."""
    results = [TrialResult(item="a", evaluator="e", score=0.3), TrialResult(item="b", evaluator="e", outcome="failed")]
    run = run_of(
        [JudgedItem(key="a"), JudgedItem(key="b")],
        [ComparedEvaluator(name="e", better="lower", threshold=0.1)],
        results,
    )
    comparison = compare(run, run, Options(thresholds={"e": 0.3}))
    assert comparison.rate is not None
    assert (comparison.rate.candidate_mean, comparison.rate.compared) == (1.0, 1)
    stricter = compare(run, run, Options(thresholds={"e": 0.2}))
    assert stricter.rate is not None
    assert stricter.rate.candidate_mean == 0.0
    with pytest.raises(ValueError, match="finite"):
        Options(thresholds={"e": float("nan")})
    with pytest.raises(Incomparable):
        compare(run, run, Options(thresholds={"f": 0.5}))


def test_the_pass_rate_is_that_of_the_evaluator_that_says_the_same() -> None:
    """If one of several evaluators agrees with the pass rate, that one is compared, and not the first by name."""
    before = judged({"a": [0.9], "b": [0.8]}, {"a": [1.0], "b": [1.0]})
    after = judged({"a": [0.7], "b": [0.6]}, {"a": [1.0], "b": [0.0]})
    comparison = compare(before, after)
    assert [each.name for each in comparison.differences] == ["grade", "right"]
    assert comparison.rate is not None
    assert (comparison.rate.name, comparison.rate.baseline_mean, comparison.rate.candidate_mean) == ("right", 1.0, 0.5)
    floored = compare(before, after, Options(floor=1))
    assert list(floored.failures) == ["item b passed 0 of 1 trials, and 1 are needed"]


def test_without_passes_there_is_no_pass_rate() -> None:
    """Scores without a pass or fail have a mean and no pass rate; a floor is not met by them."""
    run = run_of(
        [JudgedItem(key="a")], [ComparedEvaluator(name="e")], [TrialResult(item="a", evaluator="e", score=0.7)]
    )
    comparison = compare(run, run, Options(floor=1))
    assert (comparison.rate, comparison.repeats, len(comparison.failures)) == (None, [], 1)


def test_several_trials_say_what_one_gets_of_k_tries() -> None:
    """pass@k and pass^k are means of the unbiased estimates over items with at least k trials."""
    comparison = compare(judged({"a": [1, 1, 0], "b": [1, 0]}), judged({"a": [1, 0, 0], "b": [0, 0]})).repeats
    assert [(each.k, each.compared) for each in comparison] == [(1, 2), (2, 2), (3, 1)]
    assert comparison[0].any_of == pytest.approx(comparison[0].all_of)
    assert comparison[0].any_of == pytest.approx(((2 / 3 + 1 / 2) / 2, 1 / 6))
    assert comparison[1].any_of == pytest.approx((1.0, (2 / 3 + 0) / 2))
    assert comparison[1].all_of == pytest.approx(((1 / 3 + 0) / 2, 0.0))
    assert (comparison[2].any_of, comparison[2].all_of) == ((1.0, 1.0), (0.0, 0.0))
    assert compare(judged({"a": [1, 1]}), judged({"a": [1]})).repeats == []


def test_kept_values_leave_when_there_is_no_room() -> None:
    """The latest asked ones stay within the bytes, and one that is too large for all of the room is not kept."""
    kept: LruCache[str] = LruCache(most_bytes=10)
    for name in "abc":
        kept.keep(name, name, 4)
    assert [kept.find(name) for name in "abc"] == [None, "b", "c"]
    assert kept.find("b") == "b"
    kept.keep("d", "d", 4)
    assert [kept.find(name) for name in "bcd"] == ["b", None, "d"]
    assert kept.first(lambda value: value in "bd") == "d"
    kept.keep("e", "e", 11)
    assert [kept.find(name) for name in "bde"] == ["b", "d", None]
    kept.keep("d", "again", 10)
    assert [kept.find(name) for name in "bd"] == [None, "again"]


def test_arrays_of_too_many_cells_are_refused(api: Offline) -> None:
    """A case with very many trials among many cases would make arrays of mostly nothing, and is refused before."""
    run = api.begin(experimentName="cells")
    scores = [{"name": "exact", "score": 1.0, "threshold": 0.5}]
    trials = 2_002
    cases = MAX_CELLS // trials + 1
    items = [{"itemKey": "a", "trial": trial, "evalResults": scores} for trial in range(1, trials + 1)]
    items += [{"itemKey": f"b{at}", "evalResults": scores} for at in range(cases - 1)]
    for first in range(0, len(items), 500):
        api.report(run, *items[first : first + 500])
    api.end(run)
    small = stored(api, "cells", {"a": [1.0]})
    assert f"1 evaluators, {cases} items and {trials} trials are too many" in gate(api, small, 409)["detail"]


def test_runs_of_too_many_items_are_refused(api: Offline) -> None:
    """Two runs with more items than can be compared are refused with the advice to compare files."""
    large, small = stored(api, "items", {"a": [1.0]}), stored(api, "items", {"a": [1.0]})
    assert gate(api, small)["status"] == "PASS"
    assert api.running is not None
    statement = (
        "INSERT INTO run_item SELECT r.* REPLACE (r.item_number + 1000000 + n AS item_number, 'k' || n AS item_key)"
        f" FROM run_item AS r, range({MAX_ITEMS - 1}) AS t(n) WHERE r.run_id = '{large}'"
    )
    api.running.store._writer.store(lambda cursor: cursor.execute(statement), 1)  # what would take the API minutes
    for answer in (gate(api, small, 409), difference(api, small, 409)):
        assert f"{MAX_ITEMS + 1} items" in answer["detail"]


def test_the_command_decides_again_over_a_server_and_over_files(api: Offline, tmp_path: Path) -> None:
    """Runs by their ids and as exports have the same verdict, and the exit code says it."""
    before = stored(api, "again", {f"{at}": [0.9] for at in range(20)})
    after = stored(api, "again", {f"{at}": [0.6] for at in range(20)})
    files = [tmp_path / "before.json", tmp_path / "after.json"]
    for file, run in zip(files, (before, after), strict=True):
        file.write_text(api.answer("GET", f"runs/{run}/export?format=json").text)

    def compare_both(*options: str) -> tuple[int, int, Any, Any]:
        server = CliRunner().invoke(main, ["runs", "compare", before, after, "--json", *options, "--server", api.url])
        local = CliRunner().invoke(main, ["runs", "compare", *map(str, files), "--json", *options])
        documents = [json.loads(each.stdout) for each in (server, local)]
        return server.exit_code, local.exit_code, *documents

    for options, code, rates in (
        ((), 1, (1, 1)),
        (("--margin", "0.5"), 0, (1, 1)),
        (("--threshold", "exact=0.7", "--evaluator", "exact"), 1, (1, 0)),
    ):
        one, other, remote, local = compare_both(*options)
        assert (one, other) == (code, code)
        assert remote.pop("corrected") == []  # by votes on items, which a file does not have
        assert remote | {"candidateRunId": None, "baselineRunId": None} == local | {
            "candidateRunId": None,
            "baselineRunId": None,
        }
        assert (remote["baselinePassRate"], remote["candidatePassRate"]) == rates
    text = CliRunner().invoke(main, ["runs", "compare", *map(str, files)]).stdout
    assert "FAIL: regressed\n  100.0 % → 100.0 %; 20 items worse, 0 better, 0 the same." in text
    refused = CliRunner().invoke(main, ["runs", "compare", before, after, "--threshold", "x=1", "--server", api.url])
    assert (refused.exit_code, "no such evaluator" in refused.stderr) == (2, True)
    mixed = CliRunner().invoke(main, ["runs", "compare", str(files[0]), after])
    assert mixed.exit_code == 2
    assert CliRunner().invoke(main, ["runs", "compare", *map(str, files), "--threshold", "exact"]).exit_code == 2


@pytest.mark.parametrize("later_s, is_kept", [(1, True), (3_600, False)])
def test_a_run_that_has_just_ended_is_compared_before_anybody_asks(
    tmp_path: Path, later_s: int, *, is_kept: bool
) -> None:
    """What the watcher compared is what the page of the run finds; a run that ended long ago is not compared."""
    _, before, after = fill(tmp_path / "data", 20)
    kept: LruCache[ComparedRuns] = LruCache()
    options = StoreOptions(writer=WriterOptions(reads=ConventionsReader(NO_KEYS)))
    with closing(Store.open(tmp_path / "data", options)) as store:
        watcher = RunWatcher(
            store.runs, store.run_items, store.run_looks, kept, clock=lambda: time.time_ns() + later_s * 1_000_000_000
        )
        assert watcher.look_now() == 2
        runs = [store.runs.find(None, each) for each in (after, before)]
        assert runs[0] is not None
        assert runs[1] is not None
        comparer = RunComparer(store.run_items, kept)
        pair = comparer.pair(runs[0], runs[1], Options())
        known = comparer.known(pair)
        assert (known is not None) == is_kept
        assert comparer.compare(pair) is known or not is_kept
