"""The text of a metric monitor: its metric, its scope, and its alert condition."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from rules.metric_limit import MetricLimit
from rules.statistics.settings import Kind, MonitorSettings
from storage.records import MAX_COUNT, Severity

if TYPE_CHECKING:  # a command needs no database
    from storage.alerting.metric_monitors import NumbersStatement, OutcomesStatement

MetricName: TypeAlias = Literal[
    "span_errors",
    "root_errors",
    "traces_with_errors",
    "span_latency",
    "trace_latency",
    "trace_cost",
    "trace_tokens",
    "span_count",
    "trace_count",
    "judgement_failures",
    "rule_matches",
    "budget_used",
]
FormerName: TypeAlias = Literal["trace_errors"]
FORMER_NAMES: Final[Mapping[str, MetricName]] = {"trace_errors": "root_errors"}
"""Names of metrics in earlier versions, which requests, files and stored monitors may use."""


def metric_named(name: object) -> object:
    """Return the present name of a metric that is called by a former one; anything else is returned unchanged."""
    return FORMER_NAMES.get(name, name) if isinstance(name, str) else name


Unit: TypeAlias = Literal["share", "ms", "usd", "tokens", "count"]
Scope: TypeAlias = Literal["project", "release", "model", "tool", "rule", "connection"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
_OF_SPANS: Final[tuple[Scope, ...]] = ("project", "release", "model", "tool")
_OF_TRACES: Final[tuple[Scope, ...]] = ("project", "release")
_PAYERS: Final[tuple[Scope, ...]] = ("rule", "project", "connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric that can be monitored."""

    unit: Unit
    scopes: tuple[Scope, ...]  # by which it can be narrowed down
    numbers: "NumbersStatement | None"  # the statement that computes it; None: it is not in the database
    outcomes: "OutcomesStatement | None" = None  # statement with a row per span or judgement, for rates
    is_of_roots: bool = False
    counts: bool = False  # a count, of which 0 is a value, too; or the share of a budget


METRICS: Final[Mapping[MetricName, Metric]] = {
    "span_errors": Metric(unit="share", scopes=_OF_SPANS, numbers="metric_of_spans", outcomes="outcomes_of_spans"),
    "root_errors": Metric(
        unit="share",
        scopes=_OF_TRACES,
        numbers="metric_of_spans",
        outcomes="outcomes_of_spans",
        is_of_roots=True,
    ),
    "traces_with_errors": Metric(
        unit="share",
        scopes=_OF_TRACES,
        numbers="metric_of_failed_traces",
        outcomes="outcomes_of_traces",
    ),
    "span_latency": Metric(unit="ms", scopes=_OF_SPANS, numbers="metric_of_spans"),
    "trace_latency": Metric(unit="ms", scopes=_OF_TRACES, numbers="metric_of_spans", is_of_roots=True),
    "trace_cost": Metric(unit="usd", scopes=_OF_TRACES, numbers="metric_of_traces"),
    "trace_tokens": Metric(unit="tokens", scopes=_OF_TRACES, numbers="metric_of_traces"),
    "span_count": Metric(unit="count", scopes=_OF_SPANS, numbers="metric_of_spans", counts=True),
    "trace_count": Metric(unit="count", scopes=_OF_TRACES, numbers="metric_of_spans", is_of_roots=True, counts=True),
    "judgement_failures": Metric(
        unit="share",
        scopes=("project", "release", "rule"),
        numbers="metric_of_judgements",
        outcomes="outcomes_of_judgements",
    ),
    "rule_matches": Metric(unit="count", scopes=("rule",), numbers="metric_of_matches", counts=True),
    "budget_used": Metric(unit="share", scopes=_PAYERS, numbers=None, counts=True),
}

_Text = Annotated[str, Field(min_length=1, max_length=200)]
_CONFIG: Final = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class ChangeText(BaseModel):
    """Comparison of a rate with the past: the settings of the monitors of results."""

    model_config = _CONFIG

    alpha: float = Field(default=0.05, ge=1e-9, le=0.5)
    margin: float = Field(default=0.01, ge=0, le=0.99)
    min_results: int = Field(default=10, ge=1, le=1_000_000)
    baseline: int = Field(default=2_000, ge=64, le=100_000)
    every: int = Field(default=100_000, ge=100, le=10**12)
    off: Kind | None = None

    @property
    def settings(self) -> MonitorSettings:
        """Return the settings for the monitors."""
        return MonitorSettings(
            alpha=self.alpha,
            margin=self.margin,
            minimum=self.min_results,
            baseline=self.baseline,
            every=self.every,
            off=frozenset({self.off} if self.off else ()),
        )


class MetricMonitorText(BaseModel):
    """Text of a monitor: its metric, and when it opens an alert: one of `above`, `below` and `change`."""

    model_config = _CONFIG

    name: _Text
    metric: Annotated[
        MetricName, BeforeValidator(metric_named, json_schema_input_type=Literal[MetricName, FormerName])
    ] = Field(description="`trace_errors` is accepted for `root_errors`, its name in earlier versions.")
    project: _Text | None = None
    release: _Text | None = None
    model: _Text | None = None
    tool: _Text | None = None
    rule: _Text | None = Field(default=None, description="A name or an id.")
    connection: _Text | None = Field(default=None, description="A name or an id.")
    above: float | None = Field(default=None, ge=0, le=MAX_COUNT, allow_inf_nan=False)
    below: float | None = Field(default=None, gt=0, le=MAX_COUNT, allow_inf_nan=False)
    escalate_at: float | None = Field(
        default=None,
        ge=0,
        le=MAX_COUNT,
        allow_inf_nan=False,
        description="Value at which an open alert is escalated, and sent once more.",
    )
    change: ChangeText | None = None
    experiments: bool = Field(default=False, description="True if spans of experiments count, too.")
    window_seconds: int = Field(default=300, ge=10, le=86_400)
    percentile: float = Field(default=0.95, gt=0, lt=1, description="The percentile, if the metric is a latency.")
    min_count: int = Field(default=20, ge=1, le=10**9, description="With fewer values it is unknown; unused by counts.")
    looks: int = Field(default=1, ge=1, le=100, description="Number of consecutive checks that must agree.")
    severity: Severity = "warning"
    enabled: bool = True

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse fields that do not apply to the metric."""
        metric = METRICS[self.metric]
        set_scopes = [scope for scope in SCOPES if getattr(self, scope) is not None]
        if strangers := [scope for scope in set_scopes if scope not in metric.scopes]:
            raise ValueError(f"{self.metric} has no {strangers[0]}; it has {', '.join(metric.scopes)}")
        if sum(each is not None for each in (self.above, self.below, self.change)) != 1:
            raise ValueError("say one of above, below and change")
        if self.change is not None and metric.outcomes is None:
            raise ValueError(f"{self.metric} is not a rate of what passed or failed, so it has no change")
        if self.metric == "rule_matches" and self.rule is None:
            raise ValueError("rule_matches needs a rule")
        if self.metric == "budget_used" and len(set_scopes) != 1:
            raise ValueError("budget_used needs one of rule, project and connection")
        if self.escalate_at is not None and not self._is_further(self.escalate_at):
            raise ValueError("escalateAt goes with above or below, and lies beyond it")
        return self

    def _is_further(self, number: float) -> bool:
        if self.above is not None:
            return number > self.above
        return self.below is not None and number < self.below

    @property
    def of(self) -> Metric:
        """Return its metric."""
        return METRICS[self.metric]

    @property
    def limit(self) -> MetricLimit:
        """Return the limit that must not be crossed."""
        return MetricLimit(above=self.above, below=self.below, escalate_at=self.escalate_at, looks=self.looks)

    @property
    def interval_s(self) -> float:
        """Return the seconds between two checks: a twentieth of the window, from 5 s to 5 minutes. A guess."""
        return min(max(self.window_seconds / 20, 5.0), 300.0)
