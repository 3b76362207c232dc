"""What people, applications and their users say of what was recorded."""

from typing import Any, Literal

from collector.api.answers.base import ApiAnswer


class AnnotationDocument(ApiAnswer):
    """What somebody said of a trace, a span, a session or an item of a run."""

    tenant: str
    target: Literal["trace", "span", "session", "run_item"]
    project_name: str | None
    trace_id: str | None
    span_id: str | None
    session_id: str | None
    run_id: str | None
    item_result_id: str | None
    name: str
    verdict: Literal["CORRECT", "INCORRECT", "UNSURE"] | None
    label: str | None
    score: float | None
    passed: bool | None
    note: str | None
    overridden_expected_output: Any
    source: Literal["person", "adjudicator", "application", "user"]
    author: str
    withdrawn: bool
    superseded: bool
    created_at: str


class MeasuredDocument(ApiAnswer):
    """A measure with its interval at 95 %; null where it is undefined."""

    value: float | None
    low: float | None
    high: float | None


class ConfusionDocument(ApiAnswer):
    """How often people and the judge pass the same: `passedFailed` is what people pass and the judge fails."""

    passed_passed: int
    passed_failed: int
    failed_passed: int
    failed_failed: int


class DisagreementDocument(ApiAnswer):
    """A result that people see otherwise."""

    trace_id: str
    span_id: str | None
    judge_passed: bool
    people_passed: bool
    score: float | None
    reason: str | None


class MoreLabelsDocument(ApiAnswer):
    """How many labels more would halve the interval (null: no number would), and of which verdicts first."""

    count: int | None
    of: Literal["passed", "failed"]


class JudgeCalibration(ApiAnswer):
    """One judge against people."""

    fingerprint: str
    name: str
    judged: int
    labelled: int
    undecided: int
    left_out: int
    confusion: ConfusionDocument
    raw: MeasuredDocument
    agreement: MeasuredDocument
    kappa: MeasuredDocument
    ac1: float | None
    sensitivity: MeasuredDocument
    specificity: MeasuredDocument
    alpha_of_people: MeasuredDocument
    standing: Literal["unknown", "useless", "unproven", "informative"]
    in_words: str
    method: Literal["error_rates", "prediction_powered", "by_verdict", "by_weight"]
    corrected: MeasuredDocument
    more_labels: MoreLabelsDocument | None
    disagreements: list[DisagreementDocument]


class CalibrationDocument(ApiAnswer):
    """The judges of a rule against people, the latest judge first."""

    rule_id: str
    tenant: str
    name: str
    source: Literal["people", "user", "application"]
    judges: list[JudgeCalibration]


class ScoresReceipt(ApiAnswer):
    """How many scores were stored, and of how many the same had been said already."""

    tenant: str
    stored: int
    unchanged: int
