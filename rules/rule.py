"""A rule: which spans or traces are judged, by what, how many of them, and at what expense."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rules.conditions import Clause, Condition
from rules.marker import (
    NOT_OF_PLAYGROUND,
    NOT_OF_RUN,
    NOT_OURS,
    NOT_SIMULATED,
    names_playground,
    names_run,
    names_simulated,
)
from rules.monitoring import AS_USUAL, Monitoring
from storage.records import JsonValue

PriorOutcome: TypeAlias = Literal["scored", "failed", "skipped"]
"""Outcome of the other rule's evaluation: a score, or the reason for its absence."""

PRIOR_OUTCOMES: Final[tuple[PriorOutcome, ...]] = ("scored", "failed", "skipped")

GOES_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "SPAN": ("SPAN",),
    "TRACE": ("TRACE", "SPAN"),
    "SESSION": ("SESSION",),
}
"""By the target of a rule, the targets of the rules whose results it can depend on: the same target, and for traces
also spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterRule:
    """The condition on a result of another rule, which is named by name or id. None matches any value."""

    rule: str
    passed: bool | None = None
    below: float | None = None
    at_least: float | None = None
    outcome: PriorOutcome = "scored"

    def document(self) -> dict[str, JsonValue]:
        """Return the condition as a JSON or YAML document."""
        document: dict[str, JsonValue] = {
            "rule": self.rule,
            "passed": self.passed,
            "below": self.below,
            "atLeast": self.at_least,
        }
        document = {key: value for key, value in document.items() if value is not None}
        return document if self._asks_about_scores else document | {"outcome": self.outcome}

    @property
    def _asks_about_scores(self) -> bool:
        return any(each is not None for each in (self.passed, self.below, self.at_least))

    def __str__(self) -> str:
        terms = [] if self.passed is None else ["passed" if self.passed else "did not pass"]
        terms += [] if self.below is None else [f"scored below {self.below:.17g}"]
        terms += [] if self.at_least is None else [f"scored at least {self.at_least:.17g}"]
        return f"after {self.rule!r} {' and '.join(terms) or self.outcome}"


Target: TypeAlias = Literal["SPAN", "TRACE", "SESSION"]
"""Target of judging: a span that meets the conditions, or a trace or a session with such a span."""

COMPARE_BY: Final = "service.version"

Judge: TypeAlias = Literal["again", "once"]
"""Effect of late spans on a judged trace or session: it is judged again, or its result stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Daily limits of judging; None means unlimited."""

    calls_per_day: int | None = None
    tokens_per_day: int | None = None
    usd_per_day: float | None = None
    allow_unpriced: bool = False  # ask a model without a price although USD are limited

    def document(self) -> dict[str, JsonValue]:
        """Return the limits as a JSON or YAML document."""
        return _without_none(
            callsPerDay=self.calls_per_day,
            tokensPerDay=self.tokens_per_day,
            usdPerDay=self.usd_per_day,
            allowUnpriced=self.allow_unpriced or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: the spans to judge, the evaluator, and the budget.

    Shorthand is expanded: `matchType` into conditions; `criteria`, `minScore`, `threshold` and the like into the
    evaluator's configuration.

    """

    name: str
    enabled: bool
    project: str | None  # the only project that the rule is about; None: all projects
    target: Target
    conditions: tuple[Clause, ...]  # all of which must hold
    evaluator: str  # the name of its kind
    configuration: Mapping[str, JsonValue]
    connection: str | None  # of the judge, by name or id
    sample_rate: float
    compare_by: str  # the attribute that distinguishes releases
    budget: Budget | None
    tools: Sequence[Mapping[str, JsonValue]] | None  # offered to the model, if the spans do not list them
    expected: Mapping[str, JsonValue] | None  # the `expectedOutputs` of the test case
    monitoring: Monitoring = AS_USUAL
    judge: Judge = "again"  # if spans come after a trace or a session was judged
    jury: Sequence[str] = ()  # further connections whose judges vote too, by name or id
    settle_s: float | None = None  # idle time before a session is judged; None: the server's setting
    after: AfterRule | None = None  # further condition, on a result of another rule

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """Return all conditions in the order in which they are checked.

        They are: not one of our spans; the project; the conditions; and, each unless a condition names its mark, not
        simulated, not of an experiment, and not of the playground. These three are last, so that the clause numbers in
        past decisions stay valid.
        """
        project = () if self.project is None else (Condition(field="project", operator="=", operand=self.project),)
        simulated = () if names_simulated(self.conditions) else (NOT_SIMULATED,)
        experiments = () if names_run(self.conditions) else (NOT_OF_RUN,)
        tried = () if names_playground(self.conditions) else (NOT_OF_PLAYGROUND,)
        return (NOT_OURS, *project, *self.conditions, *simulated, *experiments, *tried)

    @property
    def additions(self) -> dict[str, JsonValue]:
        """Return what the rule adds to each test case: `tools` and `expected`, each only if the rule has it."""
        return _without_none(
            tools=None if self.tools is None else [dict(tool) for tool in self.tools],
            expected=None if self.expected is None else dict(self.expected),
        )

    @property
    def judgement(self) -> tuple[object, ...]:
        """Return all that scores depend on. If a part changes, monitors ignore all earlier results."""
        return self.evaluator, self.configuration, self.connection, tuple(self.jury), self.additions

    @property
    def revision(self) -> str:
        """Return the digest of all that the rule says, except whether it is enabled. An edit changes it."""
        meaning = {key: value for key, value in self.document().items() if key != "enabled"}
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()

    def document(self) -> dict[str, JsonValue]:
        """Return the rule as a JSON or YAML document. Defaults are omitted, so that a new field changes no revision."""
        return _without_none(
            name=self.name,
            enabled=None if self.enabled else False,
            project=self.project,
            target=self.target,
            conditions=[clause.document() for clause in self.conditions] or None,
            evaluator=self.evaluator,
            config=dict(self.configuration),
            connectionId=self.connection,
            jury=list(self.jury) or None,
            sampleRate=None if self.sample_rate == 1 else self.sample_rate,
            compareBy=None if self.compare_by == COMPARE_BY else self.compare_by,
            budget=None if self.budget is None else self.budget.document(),
            **self.additions,
            monitor=self.monitoring.document(),
            judge=None if self.judge == "again" else self.judge,
            settle=self.settle_s,
            after=None if self.after is None else self.after.document(),
        )


def _without_none(**fields: JsonValue) -> dict[str, JsonValue]:
    return {key: value for key, value in fields.items() if value is not None}
