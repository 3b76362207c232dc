"""What a file about a run tells: its cases, each over all of its trials, and what they sum up to."""

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias

from storage.offline.run_items import EvaluatedTrial, OutlinedItem, RunItems
from storage.offline.run_sums import RunSums
from storage.offline.runs import Run
from storage.rates import pass_rate

CaseOutcome: TypeAlias = Literal["passed", "not_passed", "error", "not_evaluated", "unjudged"]

VERDICTS: Final[Mapping[str, bool]] = {"passed": True, "not_passed": False}
"""Verdicts by outcome; every other outcome is none."""

_DIGITS: Final = 6  # of numbers that are worked out
_CASES_AT_ONCE: Final = 100  # read, and held while a client does not read; with 50, files took 40 % longer
_WORST_FIRST: Final[Sequence[CaseOutcome]] = ("not_passed", "error", "not_evaluated", "unjudged")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEvaluation:
    """What one evaluator said of a case: `said` holds the row of each trial in which it was asked."""

    name: str
    said: Sequence[Mapping[str, Any]]

    @property
    def scores(self) -> list[float | None]:
        """The score of each trial; None where there is none."""
        return [each["score"] if each["outcome"] == "scored" else None for each in self.said]

    @property
    def mean(self) -> float | None:
        """The mean of the scores that there are."""
        return mean_of([score for score in self.scores if score is not None])

    @property
    def deviation(self) -> float:
        """How far the scores of trials lie apart."""
        return deviation_of([score for score in self.scores if score is not None])

    @property
    def outcome(self) -> str:
        """Scored as soon as one trial was; else failed as soon as one failed; else skipped."""
        outcomes = {each["outcome"] for each in self.said}
        return next(each for each in ("scored", "failed", "skipped") if each in outcomes)

    @property
    def success(self) -> bool | None:
        """Return whether every trial passed; None if none is known to have failed and a verdict is unknown."""
        passed = {each["passed"] for each in self.said if each["outcome"] != "skipped"}
        return False if False in passed else True if passed == {True} else None

    @property
    def reason(self) -> str | None:
        """The first reason that was given, that of a trial which did not pass before others."""
        reasons = [each["reason"] for each in self.said if each["passed"] is not True]
        return next((each for each in [*reasons, *(each["reason"] for each in self.said)] if each), None)

    def common(self, column: str) -> Any:  # noqa: ANN401 - a value of a row
        """What all trials have in a column; None where they differ."""
        values = {each[column] for each in self.said}
        return values.pop() if len(values) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What came of a case: the rows of its trials in their order, each with its scores."""

    key: str | None  # None: nothing tells it from others in another run
    trials: Sequence[Mapping[str, Any]]

    @property
    def first(self) -> Mapping[str, Any]:
        """The first trial, which has what all have in common."""
        return self.trials[0]

    @property
    def shown(self) -> Mapping[str, Any]:
        """The trial that tells most: the first that did not pass, else the first."""
        return next((each for each in self.trials if each["outcome"] != "passed"), self.trials[0])

    @property
    def outcome(self) -> CaseOutcome:
        """What came of it in all trials together."""
        return folded([each["outcome"] for each in self.trials])

    @property
    def error(self) -> str | None:
        """What the task failed with."""
        return next((each["error"] or each["error_kind"] for each in self.trials if each["outcome"] == "error"), None)

    @property
    def evaluations(self) -> list[CaseEvaluation]:
        """What each evaluator said, by name."""
        said = sorted((score for trial in self.trials for score in trial["scores"]), key=lambda score: score["name"])
        return [CaseEvaluation(name=name, said=list(rows)) for name, rows in groupby(said, lambda row: row["name"])]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedEvaluator:
    """What one evaluator said in a run: means over the trials, each of which counts alike."""

    name: str
    mean: float | None
    deviation: float
    pass_rate: float | None
    failed: int
    skipped: int


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """A run, what its items sum up to, and where these are read from."""

    run: Run
    sums: RunSums
    outline: Sequence[OutlinedItem]
    trials: Sequence[EvaluatedTrial]
    items: RunItems

    @cached_property
    def groups(self) -> list[list[OutlinedItem]]:
        """The items in short, those of a case together."""
        return [list(items) for _, items in groupby(self.outline, lambda item: item.key)]

    @cached_property
    def outcomes(self) -> list[CaseOutcome]:
        """What came of each case, in their order."""
        return [folded([item.outcome for item in group]) for group in self.groups]

    @cached_property
    def _trial_counts(self) -> Sequence[Mapping[str, int]]:
        """The items of each trial by their outcomes."""
        counts: dict[int, Counter[str]] = {}
        for item in self.outline:
            counts.setdefault(item.trial, Counter())[item.outcome] += 1
        return list(counts.values())

    @property
    def trial_count(self) -> int:
        """How often each case was run, as far as the items tell."""
        return max(len(self._trial_counts), 1)

    @property
    def pass_rate(self) -> float | None:
        """The mean of the pass rates of the trials that have verdicts; None without any."""
        return mean_of(_known(pass_rate(each["passed"], each["not_passed"]) for each in self._trial_counts))

    def count(self, outcome: CaseOutcome) -> float:
        """Return how many cases have an outcome, as a mean over the trials."""
        return mean_of([each[outcome] for each in self._trial_counts]) or 0

    @property
    def evaluators(self) -> list[ReportedEvaluator]:
        """What each evaluator said, by name."""
        return [
            ReportedEvaluator(
                name=name,
                mean=mean_of(_known(each.mean for each in rows)),
                deviation=deviation_of(_known(each.mean for each in rows)),
                pass_rate=mean_of(_known(pass_rate(each.passed, each.not_passed) for each in rows)),
                failed=sum(each.failed for each in rows),
                skipped=sum(each.skipped for each in rows),
            )
            for name, rows in ((name, list(rows)) for name, rows in groupby(self.trials, lambda each: each.name))
        ]

    def cases(self, groups: Sequence[Sequence[OutlinedItem]] | None = None) -> Iterator[CaseResult]:
        """All cases in their order, or some of `groups`, read while they are asked for."""
        wanted = self.groups if groups is None else groups
        for first in range(0, len(wanted), _CASES_AT_ONCE):
            batch = wanted[first : first + _CASES_AT_ONCE]
            numbers = [item.number for group in batch for item in group]
            rows = {row["item_number"]: row for row in self.items.by_number(self.run.run_id, numbers)}
            for group in batch:
                found = [rows[item.number] for item in group if item.number in rows]
                if found:
                    yield CaseResult(key=found[0]["item_key"] if found[0]["is_keyed"] else None, trials=found)

    def worst_first(self, most: int) -> list[list[OutlinedItem]]:
        """At most so many cases: those that did not pass before the others, else in their order."""
        ranked = sorted(zip(self.outcomes, self.groups, strict=True), key=lambda pair: pair[0] == "passed")
        return [group for _, group in ranked][:most]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def folded(outcomes: Sequence[str]) -> CaseOutcome:
    """What came of a case whose trials went like this: the worst of them, and passed if the judged ones passed."""
    found = set(outcomes)
    for outcome in _WORST_FIRST[:-1]:
        if outcome in found:
            return outcome
    return "passed" if "passed" in found else "unjudged"


def mean_of(values: Sequence[float]) -> float | None:
    """Their mean, rounded as files tell it; None without any."""
    return round(statistics.fmean(values), _DIGITS) if values else None


def deviation_of(values: Sequence[float]) -> float:
    """Their sample standard deviation, rounded as files tell it; 0 of less than two."""
    return round(statistics.stdev(values), _DIGITS) if len(values) > 1 else 0.0


def readable_json(text: str) -> str:
    """A map that is stored as JSON, as people read it: of one with one text that text."""
    value = json.loads(text)
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) if value != {} else ""


def plain_number(value: float | None) -> float | int | None:
    """A number without a fraction where it has none."""
    return int(value) if value is not None and float(value).is_integer() else value
