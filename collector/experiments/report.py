"""The content of a run's report: its cases, each over all of its trials, and their sums."""

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
"""Verdicts by outcome; other outcomes have no verdict."""

_DIGITS: Final = 6  # decimals of computed numbers
_CASES_AT_ONCE: Final = 100  # per query, held while a client does not read; with 50, files took 40 % longer
_WORST_FIRST: Final[Sequence[CaseOutcome]] = ("not_passed", "error", "not_evaluated", "unjudged")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEvaluation:
    """One evaluator's results for a case, by trial."""

    name: str
    rows: Sequence[Mapping[str, Any]]

    @property
    def scores(self) -> list[float | None]:
        """Return the score of each trial, or None."""
        return [each["score"] if each["outcome"] == "scored" else None for each in self.rows]

    @property
    def mean(self) -> float | None:
        """Return the mean of the known scores."""
        return mean_of([score for score in self.scores if score is not None])

    @property
    def deviation(self) -> float:
        """Return the standard deviation of the scores over the trials."""
        return deviation_of([score for score in self.scores if score is not None])

    @property
    def outcome(self) -> str:
        """Return scored if any trial was; else failed if any failed; else skipped."""
        outcomes = {each["outcome"] for each in self.rows}
        return next(each for each in ("scored", "failed", "skipped") if each in outcomes)

    @property
    def success(self) -> bool | None:
        """Return False if a trial did not pass, True if all passed that were not skipped, else None."""
        passed = {each["passed"] for each in self.rows if each["outcome"] != "skipped"}
        return False if False in passed else True if passed == {True} else None

    @property
    def reason(self) -> str | None:
        """Return the first reason, preferably of a trial that did not pass."""
        reasons = [each["reason"] for each in self.rows if each["passed"] is not True]
        return next((each for each in [*reasons, *(each["reason"] for each in self.rows)] if each), None)

    def common(self, column: str) -> Any:  # noqa: ANN401 - a value of a row
        """Return the common value of all trials in a column; None if they differ."""
        values = {each[column] for each in self.rows}
        return values.pop() if len(values) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """A case's trials in their order, each with its scores."""

    key: str | None  # None: no identity across runs
    trials: Sequence[Mapping[str, Any]]

    @property
    def first(self) -> Mapping[str, Any]:
        """Return the first trial, for the values that all have in common."""
        return self.trials[0]

    @property
    def shown(self) -> Mapping[str, Any]:
        """Return the trial to show: the first that did not pass, else the first."""
        return next((each for each in self.trials if each["outcome"] != "passed"), self.trials[0])

    @property
    def outcome(self) -> CaseOutcome:
        """Return the outcome of all trials together."""
        return folded([each["outcome"] for each in self.trials])

    @property
    def error(self) -> str | None:
        """Return the error of the task."""
        return next((each["error"] or each["error_kind"] for each in self.trials if each["outcome"] == "error"), None)

    @property
    def evaluations(self) -> list[CaseEvaluation]:
        """Return the results by evaluator."""
        scores = sorted((score for trial in self.trials for score in trial["scores"]), key=lambda score: score["name"])
        return [CaseEvaluation(name=name, rows=list(rows)) for name, rows in groupby(scores, lambda row: row["name"])]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedEvaluator:
    """One evaluator's results in a run: means over the trials, each of which counts alike."""

    name: str
    mean: float | None
    deviation: float
    pass_rate: float | None
    failed: int
    skipped: int


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """A run, its sums, and the source of its items."""

    run: Run
    sums: RunSums
    outline: Sequence[OutlinedItem]
    trials: Sequence[EvaluatedTrial]
    items: RunItems

    @cached_property
    def groups(self) -> list[list[OutlinedItem]]:
        """Return the outlined items, grouped by case."""
        return [list(items) for _, items in groupby(self.outline, lambda item: item.key)]

    @cached_property
    def outcomes(self) -> list[CaseOutcome]:
        """Return the outcome of each case, in order."""
        return [folded([item.outcome for item in group]) for group in self.groups]

    @cached_property
    def _trial_counts(self) -> Sequence[Mapping[str, int]]:
        counts: dict[int, Counter[str]] = {}
        for item in self.outline:
            counts.setdefault(item.trial, Counter())[item.outcome] += 1
        return list(counts.values())

    @property
    def trial_count(self) -> int:
        """Return the number of distinct trials among the items, at least 1."""
        return max(len(self._trial_counts), 1)

    @property
    def pass_rate(self) -> float | None:
        """Return the mean of the pass rates of the trials with verdicts; None without any."""
        return mean_of(_known(pass_rate(each["passed"], each["not_passed"]) for each in self._trial_counts))

    def count(self, outcome: CaseOutcome) -> float:
        """Return how many cases have an outcome, as a mean over the trials."""
        return mean_of([each[outcome] for each in self._trial_counts]) or 0

    @property
    def evaluators(self) -> list[ReportedEvaluator]:
        """Return the results by evaluator."""
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
        """Yield all cases in their order, or those of `groups`; items are read on demand."""
        chosen = self.groups if groups is None else groups
        for first in range(0, len(chosen), _CASES_AT_ONCE):
            batch = chosen[first : first + _CASES_AT_ONCE]
            numbers = [item.number for group in batch for item in group]
            rows = {row["item_number"]: row for row in self.items.by_number(self.run.run_id, numbers)}
            for group in batch:
                case_rows = [rows[item.number] for item in group if item.number in rows]
                if case_rows:
                    yield CaseResult(
                        key=case_rows[0]["item_key"] if case_rows[0]["is_keyed"] else None, trials=case_rows
                    )

    def worst_first(self, most: int) -> list[list[OutlinedItem]]:
        """Return at most `most` cases: those that did not pass first, else in their order."""
        ranked = sorted(zip(self.outcomes, self.groups, strict=True), key=lambda pair: pair[0] == "passed")
        return [group for _, group in ranked][:most]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def folded(outcomes: Sequence[str]) -> CaseOutcome:
    """Return the worst outcome of a case's trials; unjudged trials count only if all are unjudged."""
    kinds = set(outcomes)
    for outcome in _WORST_FIRST[:-1]:
        if outcome in kinds:
            return outcome
    return "passed" if "passed" in kinds else "unjudged"


def mean_of(values: Sequence[float]) -> float | None:
    """Return the mean, rounded as in files; None without values."""
    return round(statistics.fmean(values), _DIGITS) if values else None


def deviation_of(values: Sequence[float]) -> float:
    """Return the sample standard deviation, rounded as in files; 0 for less than two values."""
    return round(statistics.stdev(values), _DIGITS) if len(values) > 1 else 0.0


def readable_json(text: str) -> str:
    """Format a stored JSON map for display; a map with one member is shown as the value of that member."""
    value = json.loads(text)
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) if value != {} else ""


def plain_number(value: float | None) -> float | int | None:
    """Return an integer if the number is one."""
    return int(value) if value is not None and float(value).is_integer() else value
