"""Results of an experiment: of each example in each trial, and of the whole experiment."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, TypeAlias

from tracejury.dataset import Example
from tracejury.exported import exported
from tracejury.plain import plain
from tracejury.score import Score, amount

Outcome: TypeAlias = Literal["passed", "not_passed", "error", "not_evaluated", "unjudged"]

_REPORT: Final = ("tracejury", "experiments", "report")
SIMULATOR: Final = "simulator"
"""The `error_kind` of failures of the simulated user or the stopping condition, not of the application."""


@dataclass(frozen=True)
class Measured:
    """The outputs of a task, and its usage."""

    outputs: Any
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None
    stop_reason: str | None = None

    def checked(self) -> "Measured":
        """Return a copy whose numbers are Python's `int` and `float`.

        Raises:
            TypeError: a value is not a number, or a token count is not an integer.
            ValueError: a number is less than 0, NaN, or beyond what a server stores.
        """
        return replace(
            self,
            tokens_in=_count(self.tokens_in, "tokens_in"),
            tokens_out=_count(self.tokens_out, "tokens_out"),
            cost_usd=amount(self.cost_usd, "cost_usd"),
            latency_ms=amount(self.latency_ms, "latency_ms"),
        )


def _count(value: Any, name: str) -> int | None:
    number = amount(value, name)
    if number is None:
        return None
    if isinstance(value, bool) or not number.is_integer():
        raise TypeError(f"{name} is an integer, not {value}")
    return int(number)


class TaskFailed(Exception):
    """Exception for a task to raise if it failed, with the kind of the error and the outputs so far."""

    def __init__(self, kind: str, message: str, outputs: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.outputs = outputs or {}


@dataclass(frozen=True)
class ItemResult:
    """Result of an example in one trial."""

    example: Example
    key: str
    trial: int
    outputs: Mapping[str, Any]
    scores: Sequence[Score]
    error: str | None = None
    error_kind: str | None = None
    measured: Measured | None = None
    latency_ms: float | None = None
    trace_id: str | None = None
    span_id: str | None = None

    @property
    def outcome(self) -> Outcome:
        """Return the outcome, by the server's precedence: task failed, evaluator failed, score not passed."""
        known = [score for score in self.scores if score.error is None and score.error_kind is None]
        verdicts = [score.success for score in known if score.success is not None]
        if self.error is not None or self.error_kind is not None:
            return "error"
        if len(known) < len(self.scores):
            return "not_evaluated"
        if not all(verdicts):
            return "not_passed"
        return "passed" if verdicts else "unjudged"

    @property
    def passed(self) -> bool:
        """Return True if the task and all evaluators ran, at least one score has a verdict, and all verdicts passed."""
        return self.outcome == "passed"


@dataclass(frozen=True)
class Result:
    """Result of an experiment, in the order of the dataset, each trial of an example after the other."""

    name: str
    items: Sequence[ItemResult]
    run_id: str | None = None
    lost_items: int = 0  # items that could not be delivered to the server
    spooled_items: int = 0  # lost items that are in the spool; the next run sends them
    skipped: int = 0  # items that the stored run had already, so that they were not run again
    description: str = ""

    @property
    def pass_rate(self) -> float | None:
        """Return the share of the items with a verdict that passed, or None without any. `count` has the numbers."""
        judged = self.count("passed") + self.count("not_passed")
        return round(self.count("passed") / judged, 6) if judged else None

    def count(self, outcome: Outcome) -> int:
        """Return how many items have an outcome."""
        return sum(item.outcome == outcome for item in self.items)

    def scores(self, evaluator: str) -> list[float]:
        """Return the scores of an evaluator."""
        values = [score.value for item in self.items for score in item.scores if score.name == evaluator]
        return [value for value in values if value is not None]

    def average_score(self, evaluator: str) -> float | None:
        """Return the mean score of an evaluator, or None without any."""
        scores = self.scores(evaluator)
        return fmean(scores) if scores else None

    def score_std_dev(self, evaluator: str) -> float | None:
        """Return the sample standard deviation of the trials' means; None if fewer than two trials have scores."""
        means = []
        for trial in sorted({item.trial for item in self.items}):
            part = Result(self.name, [item for item in self.items if item.trial == trial])
            mean = part.average_score(evaluator)
            means += [] if mean is None else [mean]
        return stdev(means) if len(means) > 1 else None

    def write(self, path: str | Path) -> None:
        """Write the results as the JSON file that `tracejury gate` reads; items have their keys as ids."""
        text = json.dumps(plain(exported(self.name, self.items, self.description)), indent=1, ensure_ascii=False)
        Path(path).write_text(text + "\n", encoding="utf-8")

    def export(self, path: str | Path, *, command: Sequence[str] = _REPORT) -> None:
        """Write a report in the format that the file name's ending selects: HTML, Markdown, CSV, JUnit XML or JSON.

        The installed program `tracejury` writes it, without a server, in the layout of an exported run. Unlike the file
        of `write`, a report has expected and actual outputs, and the reasons of scores.

        Raises:
            ProgramNotFound: the report program is not installed.
            ValueError: the program cannot write the file; the message says why.
        """
        from tracejury.builtin import installed
        from tracejury.dataset import Dataset
        from tracejury.reported import document_of

        unstored = Dataset("", [])
        trials = max((item.trial for item in self.items), default=1)
        items = [document_of(item, unstored) for item in self.items]
        document = {"experimentName": self.name, "description": self.description, "trials": trials, "items": items}
        with TemporaryDirectory() as folder:
            file = Path(folder) / "results.json"
            file.write_text(json.dumps(document), encoding="utf-8")
            arguments = (installed(command[0]), *command[1:], str(file), str(path))
            done = subprocess.run(arguments, capture_output=True, text=True, check=False)  # noqa: S603 - the caller's
        if done.returncode:
            raise ValueError(done.stderr.strip() or f"{' '.join(command)} ended with {done.returncode}")

    def pass_hat(self, k: int) -> float | None:
        """Compute pass^k: the chance that k trials of a case all pass, as the mean of the cases.

        For a case with c passes in n trials it is C(c, k) / C(n, k), which is unbiased; (c / n)^k is not. Items whose
        simulator failed, or that have no verdict, do not count as trials. None if a case has fewer than k trials.

        Raises:
            ValueError: `k` is less than 1.
        """
        trials: dict[str, list[bool]] = {item.key: [] for item in self.items}
        for item in self.items:
            if item.error_kind != SIMULATOR and item.outcome not in {"not_evaluated", "unjudged"}:
                trials[item.key].append(item.passed)
        if k < 1:
            raise ValueError("k is 1 or more")
        if not trials or any(len(passed) < k for passed in trials.values()):
            return None
        return fmean(comb(sum(passed), k) / comb(len(passed), k) for passed in trials.values())
