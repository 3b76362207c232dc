"""Two runs, item by item."""

from typing import Literal

from pydantic import Field

from collector.api.answers.base import ApiAnswer, JsonObject, PageAnswer
from collector.api.answers.gating import GateRepeat


class DiffSummary(ApiAnswer):
    """What moved in all. The rates are of the items of which it is known in both runs whether they passed."""

    pairing: Literal["positional", "dataset_item_id"]
    baseline_pass_rate: float | None
    candidate_pass_rate: float | None
    pass_rate_delta: float | None
    significant: bool = Field(description="Whether the change of the pass rate is, after correction over evaluators.")
    improved_count: int
    regressed_count: int
    unchanged_count: int
    unscored_count: int = Field(description="Items of both runs that no evaluator scored in both.")
    added_count: int
    removed_count: int
    flipped_to_fail_count: int
    flipped_to_pass_count: int
    repeats: list[GateRepeat] = Field(description="Empty where one of the runs has one trial of each item.")
    warnings: list[str]


class DiffScore(ApiAnswer):
    """One evaluator's mean scores of an item. It is UNSCORED where one of the runs has none."""

    name: str
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float | None
    status: Literal["REGRESSED", "IMPROVED", "UNCHANGED", "UNSCORED"]
    significant: bool = Field(description="Whether this evaluator's scores differ between the runs, over all items.")


class DiffSideDocument(ApiAnswer):
    """An item in one of the runs: the trial that tells most, and means over the trials of cost and latency."""

    item_id: str
    trial: int
    trials: int
    outcome: Literal["passed", "not_passed", "error", "not_evaluated", "unjudged"]
    actual_output: JsonObject
    error: str | None
    cost_usd: float | None
    latency_ms: float | None


class DiffCaseDocument(ApiAnswer):
    """An item in both runs. A side is null where that run does not have it."""

    key: str
    status: Literal["REGRESSED", "IMPROVED", "UNCHANGED", "UNSCORED", "ADDED", "REMOVED"]
    pass_flip: bool
    flip: Literal["to_fail", "to_pass"] | None
    input: JsonObject
    expected_output: JsonObject
    evaluators: list[DiffScore]
    baseline: DiffSideDocument | None
    candidate: DiffSideDocument | None


class DiffCases(PageAnswer):
    """A page of them: flips first, then the largest losses, then the largest gains."""

    content: list[DiffCaseDocument]


class RunDiffDocument(ApiAnswer):
    """How a run differs from a baseline."""

    candidate_run_id: str
    baseline_run_id: str
    summary: DiffSummary
    cases: DiffCases
