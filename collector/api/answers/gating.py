"""What the gate says of a run."""

from typing import Any, Literal

from pydantic import Field

from collector.api.answers.alerting import CorrectedDifferenceDocument
from collector.api.answers.base import ApiAnswer


class GateEvaluator(ApiAnswer):
    """An evaluator, or the pass rate, of two runs."""

    evaluator: str
    verdict: str
    improved: bool
    within_margin: bool
    better: Literal["higher", "lower"]
    margin: float
    items: int
    worse: int
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float | None
    interval: list[float | None]
    method: str
    p_value: float | None
    adjusted_p_value: float | None
    smallest_detectable: float | None
    items_needed: int | None
    unscored: dict[str, list[int]]


class GateSlice(ApiAnswer):
    """Items that have a value of metadata in common."""

    key: str
    value: str
    evaluator: str
    items: int
    delta: float | None
    adjusted_p_value: float | None


class GateRatio(ApiAnswer):
    """Cost or latency of the candidate, divided by that of the baseline."""

    name: str
    items: int
    ratio: float | None
    interval: list[float | None]
    verdict: str | None = Field(description="Null where no margin was asked for, so that it decides nothing.")


class GateRepeat(ApiAnswer):
    """What several trials say, as means over the items that have at least k of them in both runs."""

    k: int
    items: int
    pass_at_k: list[float] = Field(description="The chance that one of k trials passes: baseline, candidate.")
    pass_hat_k: list[float] = Field(description="The chance that all of k trials pass: baseline, candidate.")


class RegressedEvaluator(ApiAnswer):
    """An evaluator that says that the candidate is worse."""

    evaluator: str
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float | None
    p_value: float | None


class EvaluatorDrop(ApiAnswer):
    """How much worse an item is by one evaluator."""

    evaluator: str
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float | None
    flip: Any


class GateCase(ApiAnswer):
    """An item that became worse."""

    key: str
    dataset_item_id: str | None = Field(description="The key, where items are paired by it.")
    index: int | None = Field(description="Its place, where items are paired by that.")
    input: str
    evaluator_drops: list[EvaluatorDrop]


class CorrectedEvaluator(CorrectedDifferenceDocument):
    """The pass rates of an evaluator as people would find them, who voted on items that it judged."""

    evaluator: str
    fingerprint: str


class GateVerdict(ApiAnswer):
    """What the gate says of a run. What is about a comparison is only there where there was one (`comparedPass`)."""

    candidate_run_id: str
    baseline_run_id: str | None
    status: Literal["PASS", "FAIL", "NO_BASELINE"]
    passed: bool
    verdict: str | None
    experiment: str
    pairing: Literal["none", "positional", "dataset_item_id"]
    compared_pass: bool
    baseline_pass_rate: float | None = None
    candidate_pass_rate: float | None = None
    pass_rate_delta: float | None = None
    significant: bool | None = None
    improved_count: int | None = None
    regressed_count: int
    unchanged_count: int | None = None
    unscored_count: int | None = Field(default=None, description="Items of both runs that no evaluator scored in both.")
    added_count: int | None = None
    removed_count: int | None = None
    regressed_evaluators: list[RegressedEvaluator]
    cases: list[GateCase] = Field(description="Those that became worse, the worst first.")
    cases_truncated: bool
    evaluators: list[GateEvaluator]
    slices: list[GateSlice]
    ratios: list[GateRatio]
    repeats: list[GateRepeat] = Field(description="Empty where one of the runs has one trial of each item.")
    corrected: list[CorrectedEvaluator] = Field(description="Empty where people voted on too little.")
    failures: list[str]
    warnings: list[str]
