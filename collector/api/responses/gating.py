"""Verdicts of the gate on the wire."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType

from collector.api.responses.alerting import CorrectedDifferenceDocument
from collector.api.responses.wire import WireDocument, doc


class GateEvaluator(WireDocument):
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


class GateSlice(WireDocument):
    """Items that have a value of metadata in common."""

    key: str
    value: str
    evaluator: str
    items: int
    delta: float | None
    adjusted_p_value: float | None


class GateRatio(WireDocument):
    """Cost or latency of the candidate, divided by that of the baseline."""

    name: str
    items: int
    ratio: float | None
    interval: list[float | None]
    verdict: Annotated[str | None, doc("Null without a margin: the ratio decides nothing then.")]


class GateRepeat(WireDocument):
    """Results of repeated trials: means over the items that have at least k trials in both runs."""

    k: int
    items: int
    pass_at_k: Annotated[list[float], doc("The chance that one of k trials passes: baseline, candidate.")]
    pass_hat_k: Annotated[list[float], doc("The chance that all of k trials pass: baseline, candidate.")]


class RegressedEvaluator(WireDocument):
    """An evaluator that says that the candidate is worse."""

    evaluator: str
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float | None
    p_value: float | None


class EvaluatorDrop(WireDocument):
    """Drop of an item's score by one evaluator."""

    evaluator: str
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float | None
    flip: Any


class GateCase(WireDocument):
    """An item that became worse."""

    key: str
    dataset_item_id: Annotated[str | None, doc("Same as `key`, if items are paired by this id.")]
    index: Annotated[int | None, doc("Its position, if items are paired by position.")]
    input: str
    evaluator_drops: list[EvaluatorDrop]


class CorrectedEvaluator(CorrectedDifferenceDocument):
    """The pass rates of an evaluator, corrected by people's votes on items that it judged."""

    evaluator: str
    fingerprint: str


class GateVerdict(WireDocument, kw_only=True):
    """Verdict of the gate on a run. Fields about a comparison are absent without one (`comparedPass`)."""

    candidate_run_id: str
    baseline_run_id: str | None
    status: Literal["PASS", "FAIL", "NO_BASELINE"]
    passed: bool
    verdict: str | None
    experiment: str
    pairing: Literal["none", "positional", "dataset_item_id"]
    compared_pass: bool
    baseline_pass_rate: float | UnsetType | None = UNSET
    candidate_pass_rate: float | UnsetType | None = UNSET
    pass_rate_delta: float | UnsetType | None = UNSET
    significant: bool | UnsetType | None = UNSET
    improved_count: int | UnsetType | None = UNSET
    regressed_count: int
    unchanged_count: int | UnsetType | None = UNSET
    unscored_count: Annotated[int | UnsetType | None, doc("Items of both runs that no evaluator scored in both.")] = (
        UNSET
    )
    added_count: int | UnsetType | None = UNSET
    removed_count: int | UnsetType | None = UNSET
    regressed_evaluators: list[RegressedEvaluator]
    cases: Annotated[list[GateCase], doc("Items that became worse, the worst first.")]
    cases_truncated: bool
    evaluators: list[GateEvaluator]
    slices: list[GateSlice]
    ratios: list[GateRatio]
    repeats: Annotated[list[GateRepeat], doc("Empty where one of the runs has one trial of each item.")]
    corrected: Annotated[list[CorrectedEvaluator], doc("Empty if too few items have votes.")]
    failures: list[str]
    warnings: list[str]
