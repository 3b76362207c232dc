"""Two runs item by item: what each said, how it was scored, what it cost and how long it took."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from collector.experiments.columns import LoadedRun, load_run
from collector.experiments.comparing import refuse_uncomparable
from collector.gating.results import BadFile
from rules.statistics.runs.comparison import Incomparable
from rules.statistics.runs.items import MOVEMENTS, ItemTable, Movement, compare_items
from rules.statistics.runs.options import Options
from rules.statistics.runs.records import SCORED, Numbers
from storage.errors import Conflict
from storage.run_items import RunItems
from storage.runs import Run

DiffFilter: TypeAlias = Literal["ALL", "CHANGED", "REGRESSED", "IMPROVED", "UNCHANGED", "ADDED", "REMOVED"]
ScoreMovement: TypeAlias = Literal["REGRESSED", "IMPROVED", "UNCHANGED", "UNSCORED"]

DIFF_FILTERS: Final[Mapping[DiffFilter, Sequence[Movement]]] = {
    "ALL": MOVEMENTS,
    "CHANGED": ("REGRESSED", "IMPROVED"),
    "REGRESSED": ("REGRESSED",),
    "IMPROVED": ("IMPROVED",),
    "UNCHANGED": ("UNCHANGED",),
    "ADDED": ("ADDED",),
    "REMOVED": ("REMOVED",),
}
"""Which items each filter lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreDifference:
    """One evaluator's mean scores of an item; None where a run has none, and then it is UNSCORED."""

    name: str
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float | None
    movement: ScoreMovement


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSide:
    """An item in one of the runs. `row` is the trial that is shown: the first that did not pass, else the first."""

    row: Mapping[str, Any]
    trials: int
    cost_usd: float | None  # means of the trials of which it is known
    latency_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffCase:
    """An item in both runs; a side that is None does not have it."""

    key: str
    movement: Movement
    flip: Literal["to_fail", "to_pass"] | None
    scores: Sequence[ScoreDifference]
    baseline: DiffSide | None
    candidate: DiffSide | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunDiff:
    """Two finished runs, read and laid beside each other."""

    baseline: LoadedRun
    candidate: LoadedRun
    baseline_id: str
    candidate_id: str
    table: ItemTable
    epsilon: float

    def cases(self, places: Sequence[int], items: RunItems) -> list[DiffCase]:
        """Some items, by their places in the table, with what each run said of them."""
        table = self.table
        before = _sides(self.baseline, self.baseline_id, table.before[list(places)].tolist(), items)
        after = _sides(self.candidate, self.candidate_id, table.after[list(places)].tolist(), items)
        return [
            DiffCase(
                key=self._key(place),
                movement=MOVEMENTS[table.movements[place]],
                flip=_FLIPS[int(table.flips[place])],
                scores=self._scores(place),
                baseline=one,
                candidate=other,
            )
            for place, one, other in zip(places, before, after, strict=True)
        ]

    def _key(self, place: int) -> str:
        after = int(self.table.after[place])
        if after >= 0:
            return self.candidate.results.run.items[after].key
        return self.baseline.results.run.items[int(self.table.before[place])].key

    def _scores(self, place: int) -> list[ScoreDifference]:
        found = []
        for column in self.table.columns:
            gain = float(column.gains[place])
            movement: ScoreMovement = "UNSCORED"
            if not math.isnan(gain):
                movement = "REGRESSED" if gain < -self.epsilon else "IMPROVED" if gain > self.epsilon else "UNCHANGED"
            before, after = float(column.before[place]), float(column.after[place])
            found.append(
                ScoreDifference(
                    name=column.name,
                    baseline_mean=_known(before),
                    candidate_mean=_known(after),
                    delta=_known(after - before),
                    movement=movement,
                )
            )
        return found


_FLIPS: Final[Mapping[int, Literal["to_fail", "to_pass"] | None]] = {-1: "to_fail", 0: None, 1: "to_pass"}


def diff_runs(candidate: Run, baseline: Run, items: RunItems) -> RunDiff:
    """Read both, and lay them side by side.

    Raises:
        Conflict: one has not finished, or the two cannot be compared.
    """
    refuse_uncomparable((candidate, baseline), items)
    options = Options()
    try:
        before, after = (load_run(run, items, with_texts=False) for run in (baseline, candidate))
        if before.results.pairing != after.results.pairing:
            raise Conflict("the items of one of these runs have keys, and those of the other have not")
        table = compare_items(before.results.run, after.results.run, options)
    except (BadFile, Incomparable) as error:
        raise Conflict(str(error)) from error
    return RunDiff(
        baseline=before,
        candidate=after,
        baseline_id=baseline.run_id,
        candidate_id=candidate.run_id,
        table=table,
        epsilon=options.epsilon,
    )


def _sides(loaded: LoadedRun, run_id: str, places: Sequence[int], items: RunItems) -> list[DiffSide | None]:
    """These items of a run, each by its place in the arrays; None for -1."""
    run, numbers = loaded.results.run, loaded.numbers
    there = [place for place in places if place >= 0]
    passed = ((run.outcomes[:, there] == SCORED) & (run.passed[:, there] == 1)).all(axis=0)
    trials = np.argmax(~passed & (numbers[there] > 0), axis=1).tolist() if there else []
    chosen = {place: int(numbers[place, trial]) for place, trial in zip(there, trials, strict=True)}
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
