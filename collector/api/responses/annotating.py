"""Response documents about annotations by people, by applications and by the users of applications."""

from typing import Annotated, Literal

from msgspec import field

from collector.api.responses.base import JsonObject
from collector.api.responses.wire import From, WireDocument, computed, doc


class MeasuredDocument(WireDocument):
    """A measure with its interval at 95 %; null where it is undefined."""

    value: float | None
    low: Annotated[float | None, computed(lambda measure: measure.interval and measure.interval.low)]
    high: Annotated[float | None, computed(lambda measure: measure.interval and measure.interval.high)]


class ConfusionDocument(WireDocument):
    """Counts of verdicts by people and by the judge: `passedFailed` is what people pass and the judge fails."""

    passed_passed: int
    passed_failed: int
    failed_passed: int
    failed_failed: int


class DisagreementDocument(WireDocument):
    """A result that people disagree with."""

    trace_id: str
    span_id: str | None
    session_id: Annotated[str | None, doc("The session, if the result is about one; the trace is its latest.")]
    judge_passed: bool
    people_passed: bool
    score: float | None
    reason: str | None


class MoreLabelsDocument(WireDocument):
    """The number of further labels that halves the interval (null: none does), and the verdict to label first."""

    count: int | None
    verdict: Annotated[Literal["passed", "failed"], From("of")] = field(name="of")


class CalibrationMonth(WireDocument):
    """Agreement of a judge with people on the results of a month."""

    month: str
    labelled: int
    agreement: float | None
    kappa: float | None


class JudgeCalibration(WireDocument):
    """Agreement of one judge with the labels of people."""

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
    more_labels: Annotated[MoreLabelsDocument | None, From("more", MoreLabelsDocument.of)]
    months: list[CalibrationMonth]
    disagreements: list[DisagreementDocument]


class CalibrationDocument(WireDocument):
    """The judges of a rule against people, the latest judge first."""

    rule_id: str
    tenant: str
    name: str
    source: Literal["people", "user", "application"]
    judges: list[JudgeCalibration]


class PairDocument(WireDocument):
    """Agreement of two people on the targets that both judged."""

    one: str
    other: str
    targets: int
    agreed: float
    kappa: MeasuredDocument


class LabelAgreementDocument(WireDocument):
    """Agreement on one label: of pairs in which one chose it, the proportion in which both did."""

    label: str
    votes: int
    agreed: float | None
    instead: JsonObject


class AgreementMonth(WireDocument):
    """Agreement on targets with two or more votes, by the month of the last vote."""

    month: str
    targets: int
    alpha: float | None


class DisagreedDocument(WireDocument):
    """A target with different votes, and the votes."""

    target: Literal["trace", "span", "run_item"]
    trace_id: str | None
    span_id: str | None
    run_id: str | None
    item_result_id: str | None
    votes: JsonObject


class AgreementDocument(WireDocument):
    """Agreement among people: Krippendorff's alpha, and Fleiss' kappa over targets with the usual number of votes."""

    name: str
    tenant: str
    metric: Literal["nominal", "interval"]
    votes: int
    targets: int
    shared: int
    in_words: str
    alpha: MeasuredDocument
    fleiss_kappa: Annotated[MeasuredDocument, From("fleiss", MeasuredDocument.of)]
    raters: int
    fleiss_targets: int
    pairs: list[PairDocument]
    labels: list[LabelAgreementDocument]
    months: list[AgreementMonth]
    disagreed: list[DisagreedDocument]


class JudgeVersion(WireDocument):
    """Agreement of one version of a judge with people, and its cost per answer."""

    fingerprint: str | None
    agreement: MeasuredDocument
    sensitivity: MeasuredDocument
    specificity: MeasuredDocument
    kappa: MeasuredDocument
    cost_usd_each: float | None


class JudgeFlip(WireDocument):
    """A result on which two versions of a judge differ."""

    trace_id: str
    span_id: str | None
    people_passed: bool
    before: bool
    after: bool
    reason: str | None


class JudgeTrialDocument(WireDocument):
    """Two versions of a judge on targets with votes; `heldOut`: targets used as examples, `failed`: without verdict."""

    labels: int
    held_out: int
    failed: int
    current: JudgeVersion | None
    candidate: JudgeVersion | None
    mended: int
    spoilt: int
    p_value: float
    in_words: str
    flips: list[JudgeFlip]
    problems: list[str]


class LabelledExample(WireDocument):
    """A labelled result as an example for a judge."""

    input: str | None
    output: str
    passed: bool
    trace_id: str
    span_id: str | None


class LabelledExamples(WireDocument):
    """Examples for the prompt of a rule's judge."""

    rule_id: str
    examples: list[LabelledExample]


class ScoresReceipt(WireDocument):
    """Counts of scores that were stored, and of repetitions."""

    tenant: str
    stored: int
    unchanged: int
