"""Stored runs, loaded as the arrays that a comparison reads."""

import json
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from collector.gating.results import BadResultsFile, Results, anchor
from rules.statistics.runs.records import (
    FAILED,
    MISSING,
    NO_TRIAL,
    SCORED,
    SKIPPED,
    ComparedEvaluator,
    FinishedRun,
    JudgedItem,
    Numbers,
)
from storage.limit import Limit
from storage.offline.run_items import RunColumns, RunItems, StoredEvaluator
from storage.offline.runs import Run as StoredRun

MAX_CELLS: Final = 5_000_000
"""Maximum number of cells of a run, evaluators by cases by trials: 85 MB of arrays. Each case takes as many cells as
that with the most trials, so few items could otherwise make large arrays. A guess."""

_CODES: Final = {"scored": SCORED, "failed": FAILED, "skipped": SKIPPED}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedRun:
    """A run as arrays, and the stored item of each trial."""

    results: Results
    numbers: NDArray[np.int64]  # item numbers by case and trial; 0 if there is no such trial


def load_run(run: StoredRun, items: RunItems, *, with_texts: bool) -> LoadedRun:
    """Load the arrays of a run. Without texts, its items have neither input nor metadata.

    Raises:
        BadResultsFile: the run has no evaluations, is too large, or an evaluator changed within it.
    """
    columns = items.columns(run.run_id)
    where = f"run {run.run_id}"
    evaluators = [_evaluator(each, where) for each in columns.evaluators]
    if not evaluators:
        raise BadResultsFile(f"{where}: no item has evaluations")
    places = _Places.of(columns.items)
    if len(evaluators) * places.numbers.size > MAX_CELLS:
        cells = f"{len(evaluators)} evaluators, {len(places.keys)} items and {places.trials} trials are too many"
        limit = Limit(value=MAX_CELLS, unit="results", remedy="compare runs of fewer items")
        raise BadResultsFile(f"{where}: {cells}, because their product is larger than {limit}")
    outcomes, scores, passed = _judged(columns, places, evaluators)
    texts = items.texts(run.run_id) if with_texts else []
    return LoadedRun(
        results=Results(
            experiment=run.experiment,
            pairing="dataset_item_id" if places.are_keyed else "positional",
            run=FinishedRun(
                items=_items(places, texts),
                evaluators=evaluators,
                outcomes=outcomes,
                scores=scores,
                passed=passed,
                cost_usd=places.spread(columns.items["cost_usd"]),
                latency_ms=places.spread(columns.items["latency_ms"]),
            ),
        ),
        numbers=places.numbers,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Places:
    """Positions of a run's items in its arrays."""

    keys: list[str]
    are_keyed: bool  # True if every item has a key; keys name the same case in all runs
    cases: NDArray[np.int64]  # index of the case of each item, in the order of rows
    in_case: NDArray[np.int64]  # index of each item among the trials of its case
    numbers: NDArray[np.int64]  # by case and trial

    @classmethod
    def of(cls, items: pa.Table) -> "_Places":
        coded = items["item_key"].combine_chunks().dictionary_encode()
        cases = coded.indices.to_numpy().astype(np.int64)
        starts = np.flatnonzero(np.diff(cases, prepend=-1))
        in_case = np.arange(cases.size) - starts[cases]
        numbers = np.zeros((starts.size, int(in_case.max(initial=0)) + 1), dtype=np.int64)
        numbers[cases, in_case] = items["item_number"].to_numpy()
        are_keyed = bool(pc.all(items["is_keyed"]).as_py())
        keys = coded.dictionary.to_pylist() if are_keyed else [f"item-{at}" for at in range(starts.size)]
        return cls(keys=keys, are_keyed=are_keyed, cases=cases, in_case=in_case, numbers=numbers)

    @property
    def trials(self) -> int:
        """Return the highest number of trials of a case."""
        return int(self.numbers.shape[1])

    def spread(self, column: pa.ChunkedArray) -> Numbers | None:
        """Spread a column over cases and trials; None if it has no values."""
        if column.null_count == len(column):
            return None
        values = np.full(self.numbers.shape, math.nan)
        values[self.cases, self.in_case] = column.to_numpy()
        return values


def _judged(
    columns: RunColumns, places: _Places, evaluators: list[ComparedEvaluator]
) -> tuple[NDArray[np.uint8], Numbers, Numbers]:
    """Return outcomes, scores and passes, by evaluator, case and trial."""
    shape = (len(evaluators), *places.numbers.shape)
    outcomes = np.where(places.numbers > 0, MISSING, NO_TRIAL).astype(np.uint8)
    outcomes = np.broadcast_to(outcomes, shape).copy()
    scores, passed = np.full(shape, math.nan), np.full(shape, math.nan)
    of_evaluator = {each.name: at for at, each in enumerate(evaluators)}
    table, numbers = columns.scores, columns.items["item_number"].to_numpy()
    by_number = np.argsort(numbers)
    rows = by_number[np.searchsorted(numbers, table["item_number"].to_numpy(), sorter=by_number)]
    at = (_coded(table["name"], of_evaluator), places.cases[rows], places.in_case[rows])
    values = table["score"].to_numpy().astype(np.float64)
    codes = _coded(table["outcome"], _CODES)
    codes = np.where((codes == SCORED) & ~np.isfinite(values), FAILED, codes)
    is_scored = codes == SCORED
    outcomes[at] = codes
    scores[at] = np.where(is_scored, np.round(values, 6), math.nan)
    passed[at] = np.where(is_scored, table["passed"].cast(pa.float64()).to_numpy(), math.nan)
    return outcomes, scores, passed


def _coded(column: pa.ChunkedArray, codes: dict[str, int]) -> NDArray[np.int64]:
    coded = column.combine_chunks().dictionary_encode()
    table = np.array([codes[text] for text in coded.dictionary.to_pylist()], dtype=np.int64)
    codes_of_rows: NDArray[np.int64] = table[coded.indices.to_numpy()]
    return codes_of_rows


def _evaluator(stored: StoredEvaluator, where: str) -> ComparedEvaluator:
    if not stored.is_one:
        raise BadResultsFile(f"{where}: {stored.name} has another threshold, direction or fingerprint than before")
    return ComparedEvaluator(
        name=stored.name,
        better="lower" if stored.direction == "lower" else "higher",
        threshold=None if stored.threshold is None else round(stored.threshold, 6),
        fingerprint=stored.fingerprint,
    )


def _items(places: _Places, texts: list[tuple[str, str]]) -> list[JudgedItem]:
    if not texts:
        return [JudgedItem(key=key) for key in places.keys]
    # Items of a run share few maps of metadata, which are never changed.
    known = {metadata: _metadata(json.loads(metadata)) for metadata in {metadata for _, metadata in texts}}
    return [
        JudgedItem(key=key, text=anchor(json.loads(inputs)), metadata=known[metadata])
        for key, (inputs, metadata) in zip(places.keys, texts, strict=True)
    ]


def _metadata(metadata: dict[str, Any]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in metadata.items()}
