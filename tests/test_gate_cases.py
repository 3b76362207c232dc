"""The gate's published cases: a baseline file of others, fields of a verdict, flips, pairing, and direction."""

import json
from pathlib import Path
from typing import Any

import pytest

from collector.gating.results import passes
from rules.statistics.runs.records import ComparedEvaluator, Direction
from tests.test_gate import CI, LOCAL, Desk, an_export

PUBLISHED = """{
  "formatVersion" : 1,
  "experiment" : "agent",
  "dataset" : { "itemCount" : 2 },
  "pairing" : "positional",
  "runsPerItem" : 1,
  "items" : [
    { "key" : "item-0", "input" : "What is 2+2?",
      "evaluators" : [ { "name" : "exact", "score" : 1.0, "threshold" : 0.5, "pass" : true } ] },
    { "key" : "item-1", "input" : "What is 3+3?",
      "evaluators" : [ { "name" : "exact", "score" : 0.9, "threshold" : 0.5, "pass" : true } ] }
  ],
  "provenance" : { }
}
"""
FIELDS = {
    "status",
    "passed",
    "pairing",
    "baselinePassRate",
    "candidatePassRate",
    "passRateDelta",
    "significant",
    "improvedCount",
    "regressedCount",
    "unchangedCount",
    "addedCount",
    "removedCount",
    "regressedEvaluators",
    "cases",
    "casesTruncated",
    "comparedPass",
}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return an empty folder."""
    return Desk(tmp_path)


def test_a_baseline_that_another_program_wrote_is_read(desk: Desk) -> None:
    """The published file, which knows less than ours, is compared with; a drop on one item fails by severity alone."""
    desk.baseline.parent.mkdir()
    desk.baseline.write_text(PUBLISHED, encoding="utf-8")
    assert desk.gate(an_export(1, 0.9), "--severity-margin", "0.15", env=CI).exit_code == 0
    assert desk.verdict().keys() >= FIELDS
    assert desk.verdict()["unchangedCount"] == 2
    assert desk.gate(an_export(1, 0.75), "--severity-margin", "0.15", env=CI).exit_code == 0
    assert desk.gate(an_export(1, 0.74), "--severity-margin", "0.15", env=CI).exit_code == 1
    (case,) = desk.verdict()["cases"]
    assert (case["key"], case["datasetItemId"], case["index"]) == ("item-1", None, 1)
    (drop,) = case["evaluatorDrops"]
    assert (drop["evaluator"], drop["baselineMean"], drop["candidateMean"], drop["delta"]) == (
        "exact",
        0.9,
        0.74,
        -0.16,
    )
    assert desk.baseline.read_text(encoding="utf-8") == PUBLISHED


@pytest.mark.parametrize("worse, better, code", [(4, 0, 0), (6, 0, 1), (8, 1, 1), (7, 3, 0), (3, 3, 0), (12, 2, 1)])
def test_flips_in_one_direction_fail_from_a_few_on(desk: Desk, worse: int, better: int, code: int) -> None:
    """Six flips one way are found, however few items there are, and as many in both directions never."""
    desk.gate(an_export(*[1] * worse, *[0] * better, 1))
    assert desk.gate(an_export(*[0] * worse, *[1] * better, 1), env=CI).exit_code == code
    assert desk.verdict()["significant"] == bool(code)


def test_added_removed_and_moved_items_are_told(desk: Desk) -> None:
    """With ids only the items in both are compared, whatever their order."""
    desk.gate(an_export(*[1] * 10, ids=True))
    export = an_export(*[1] * 12, ids=True)
    export["items"] = export["items"][:1:-1]
    assert desk.gate(export, env=CI).exit_code == 0
    verdict = desk.verdict()
    assert (verdict["pairing"], verdict["addedCount"], verdict["removedCount"]) == ("dataset_item_id", 2, 2)
    assert (verdict["unchangedCount"], verdict["regressedCount"]) == (8, 0)


def test_pairing_by_id_needs_every_id(desk: Desk) -> None:
    """One item without an id ends with 2, since rows would otherwise be paired wrongly."""
    export = an_export(1, 1, ids=True)
    del export["items"][1]["id"]
    result = desk.gate(export, "--pairing", "dataset_item_id")
    assert result.exit_code == 2
    assert "items[1] has no id" in result.output
    assert desk.gate(export).exit_code == 0
    assert json.loads(desk.baseline.read_text(encoding="utf-8"))["pairing"] == "positional"


def test_less_is_better_is_inverted_everywhere(desk: Desk) -> None:
    """A rate of made-up claims that falls is an improvement, and one that rises fails, by severity too."""
    more: dict[str, Any] = {"name": "hallucination", "better": "lower"}
    desk.gate(an_export(*[0.2] * 40, **more))
    assert desk.gate(an_export(*[0.0] * 40, **more), "--severity-margin", "0.1", env=CI).exit_code == 0
    assert desk.verdict()["improvedCount"] == 40
    assert desk.gate(an_export(0.4, *[0.2] * 39, **more), "--severity-margin", "0.1", env=CI).exit_code == 1
    assert desk.gate(an_export(*[0.4] * 40, **more), env=CI).exit_code == 1
    assert [each["evaluator"] for each in desk.verdict()["regressedEvaluators"]] == ["hallucination"]


def test_another_evaluator_moves_no_p_value_of_the_first(desk: Desk) -> None:
    """Each evaluator has random numbers of its own, so adding one leaves the raw p-value of the other."""
    scores = [at / 100 for at in range(60)]
    one = [an_export(*scores), an_export(*(score**1.1 for score in scores))]
    desk.gate(one[0])
    desk.gate(one[1], env=CI)
    alone = next(each for each in desk.verdict()["evaluators"] if each["evaluator"] == "exact")
    for export in one:
        for at, item in enumerate(export["items"]):
            item["evaluations"].append({"evaluator": "another", "score": (at * 7 % 10) / 10, "threshold": 0.5})
    desk.gate(one[0], env={**LOCAL, "TRACEJURY_UPDATE_BASELINE": "true"})
    desk.gate(one[1], env=CI)
    beside = next(each for each in desk.verdict()["evaluators"] if each["evaluator"] == "exact")
    assert beside["pValue"] == alone["pValue"]
    assert beside["adjustedPValue"] >= alone["adjustedPValue"]


def test_a_verdict_that_cannot_be_written_is_told_all_the_same(desk: Desk) -> None:
    """A folder in place of the file is a warning; the verdict and the exit code stay."""
    desk.gate(an_export(*[1] * 20))
    file = desk.folder / "gate" / "agent.json"
    file.unlink()
    file.mkdir()
    result = desk.gate(an_export(*[0] * 20), env=CI)
    assert result.exit_code == 1
    assert "FAIL: regressed" in result.output
    assert "was not written" in result.stderr


def test_no_p_value_is_told_as_0(desk: Desk) -> None:
    """A verdict holds six digits of it; where these are all 0, the comment says that it is less."""
    desk.gate(an_export(*[1] * 60))
    desk.gate(an_export(*[0] * 60), env=CI)
    assert "| under 1e-06 |" in desk.report().output


def test_a_score_at_its_threshold_passes() -> None:
    """In both directions, and a score beyond it does not pass."""
    sides: tuple[tuple[Direction, float], ...] = (("higher", 0.49), ("lower", 0.51))
    for better, beyond in sides:
        evaluator = ComparedEvaluator(name="exact", better=better, threshold=0.5)
        assert (passes(evaluator, 0.5), passes(evaluator, beyond)) == (True, False)
