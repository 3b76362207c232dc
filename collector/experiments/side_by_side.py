"""Two runs item by item: outputs, scores, cost and latency."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from collector.experiments.columns import LoadedRun
from collector.experiments.comparing import ComparedRuns
from rules.statistics.runs.items import MOVEMENTS, Movement
from rules.statistics.runs.records import SCORED, JudgedItem, Numbers
from storage.offline.run_items import RunItems

DiffFilter: TypeAlias = Literal["ALL", "CHANGED", "REGRESSED", "IMPROVED", "UNCHANGED", "UNSCORED", "ADDED", "REMOVED"]
ScoreMovement: TypeAlias = Literal["REGRESSED", "IMPROVED", "UNCHANGED", "UNSCORED"]

DIFF_FILTERS: Final[Mapping[DiffFilter, Sequence[Movement]]] = {
    "ALL": MOVEMENTS,
    "CHANGED": ("REGRESSED", "IMPROVED"),
    "REGRESSED": ("REGRESSED",),
    "IMPROVED": ("IMPROVED",),
    "UNCHANGED": ("UNCHANGED",),
    "UNSCORED": ("UNSCORED",),
    "ADDED": ("ADDED",),
    "REMOVED": ("REMOVED",),
}
"""The item statuses that each filter lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreDifference:
    """One evaluator's mean scores of an item; None without a score in a run, and then `movement` is UNSCORED."""

    name: str
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float | None
    movement: ScoreMovement


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSide:
    """An item in one of the runs. `row` is the trial to show: the first that did not pass, else the first."""

    row: Mapping[str, Any]
    trials: int
    cost_usd: float | None  # mean of the trials with a known cost
    latency_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffCase:
    """An item in both runs; None for a run without it."""

    key: str
    movement: Movement
    flip: Literal["to_fail", "to_pass"] | None
    scores: Sequence[ScoreDifference]
    baseline: DiffSide | None
    candidate: DiffSide | None


def cases_of(compared: ComparedRuns, places: Sequence[int], items: RunItems) -> list[DiffCase]:
    """Return the items at some rows of the table, with the results of both runs."""
    table, pair = compared.table, compared.pair
    before = _sides(compared.baseline, pair.baseline.run.run_id, table.before[list(places)].tolist(), items)
    after = _sides(compared.candidate, pair.candidate.run.run_id, table.after[list(places)].tolist(), items)
    return [
        DiffCase(
            key=item_of(compared, place).key,
            movement=MOVEMENTS[table.movements[place]],
            flip=_FLIPS[int(table.flips[place])],
            scores=scores_of(compared, place),
            baseline=one,
            candidate=other,
        )
        for place, one, other in zip(places, before, after, strict=True)
    ]


def item_of(compared: ComparedRuns, place: int) -> JudgedItem:
    """Return the item at a row of the table, from the candidate, else from the baseline."""
    after = int(compared.table.after[place])
    if after >= 0:
        return compared.candidate.results.run.items[after]
    return compared.baseline.results.run.items[int(compared.table.before[place])]


def scores_of(compared: ComparedRuns, place: int) -> list[ScoreDifference]:
    """Return the scores of an item in both runs, by evaluator."""
    differences = []
    epsilon = compared.pair.options.epsilon
    for column in compared.table.columns:
        gain = float(column.gains[place])
        movement: ScoreMovement = "UNSCORED"
        if not math.isnan(gain):
            movement = "REGRESSED" if gain < -epsilon else "IMPROVED" if gain > epsilon else "UNCHANGED"
        before, after = float(column.before[place]), float(column.after[place])
        differences.append(
            ScoreDifference(
                name=column.name,
                baseline_mean=_known(before),
                candidate_mean=_known(after),
                delta=_known(after - before),
                movement=movement,
            )
        )
    return differences


_FLIPS: Final[Mapping[int, Literal["to_fail", "to_pass"] | None]] = {-1: "to_fail", 0: None, 1: "to_pass"}


def _sides(loaded: LoadedRun, run_id: str, places: Sequence[int], items: RunItems) -> list[DiffSide | None]:
    """Return a run's items by their indexes in its arrays; None for -1."""
    run, numbers = loaded.results.run, loaded.numbers
    present = [place for place in places if place >= 0]
    passed = ((run.outcomes[:, present] == SCORED) & (run.passed[:, present] == 1)).all(axis=0)
    trials = np.argmax(~passed & (numbers[present] > 0), axis=1).tolist() if present else []
    chosen = {place: int(numbers[place, trial]) for place, trial in zip(present, trials, strict=True)}
    rows = {row["item_number"]: row for row in items.by_number(run_id, list(chosen.values()))}
    return [
        DiffSide(
            row=rows[chosen[place]],
            trials=int((numbers[place] > 0).sum()),
            cost_usd=_mean(run.cost_usd, place),
            latency_ms=_mean(run.latency_ms, place),
        )
        if chosen.get(place) in rows
        else None
        for place in places
    ]


def _mean(usage: Numbers | None, place: int) -> float | None:
    if usage is None:
        return None
    known = usage[place][~np.isnan(usage[place])]
    return float(known.mean()) if known.size else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
