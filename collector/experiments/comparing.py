"""Comparison of stored runs by the engine of the gate."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import BoundedSemaphore
from typing import Final, NamedTuple

from collector.experiments.columns import LoadedRun, load_run
from collector.experiments.kept import LruCache
from collector.gating.gate import GateDecision, Policy, decision_on, without_baseline
from collector.gating.results import BadResultsFile
from rules.statistics.runs.comparison import Comparison, Incomparable, compare
from rules.statistics.runs.items import ItemTable, compare_items
from rules.statistics.runs.options import Options
from rules.statistics.runs.records import JudgedItem
from storage.errors import Conflict, Overloaded
from storage.limit import Limit
from storage.offline.run_items import RunItems, RunStamp
from storage.offline.runs import Run, Runs

MAX_ITEMS: Final = 200_000
"""Maximum number of items, trials counted singly, of both runs together; it bounds memory. A guess."""

FINISHED: Final = frozenset({"SUCCESS", "FAILED"})

_AT_ONCE: Final = 1
_WAIT_S: Final = 30.0
_comparing = BoundedSemaphore(_AT_ONCE)
_COMPARISONS: Final = Limit(value=_AT_ONCE, unit="at a time", remedy="try again when they are done")
"""A guess: a comparison takes one processor, and holds two runs in memory."""

_ITEM_BYTES: Final = 600  # of an item with its key, its text and some metadata
_CHANGE_BYTES: Final = 300
_MOST_SLICES: Final = 20  # maximum number of values of a metadata key to compare by
_MOST_BASELINES: Final = 50
"""Maximum number of earlier runs searched for scores of all evaluators; each takes 5 ms. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StampedRun:
    """A finished run, and the stamp of its results when it was read."""

    run: Run
    stamp: RunStamp

    @property
    def key(self) -> tuple[str, RunStamp]:
        """Return a key that is equal for equal results of a run."""
        return self.run.run_id, self.stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPair:
    """Two runs to compare, and the options."""

    baseline: StampedRun
    candidate: StampedRun
    options: Options

    @property
    def key(self) -> tuple[object, ...]:
        """Return a key that is equal for equal comparisons."""
        return self.baseline.key, self.candidate.key, repr(self.options)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparedRuns:
    """Two runs as arrays, and their comparison."""

    pair: RunPair
    baseline: LoadedRun
    candidate: LoadedRun
    comparison: Comparison
    table: ItemTable
    slice_keys: Sequence[str]  # keys of metadata with 2 to 20 values, fewer than items

    @property
    def nbytes(self) -> int:
        """Estimate its memory."""
        runs = [of.results.run for of in (self.baseline, self.candidate)]
        items = sum(len(run.items) for run in runs)
        cells = sum(int(run.outcomes.size) for run in runs)
        trials = sum(int(of.numbers.size) for of in (self.baseline, self.candidate))
        table = 8 * items * (4 + 3 * len(self.table.columns))
        return 17 * cells + 24 * trials + table + _ITEM_BYTES * items + _CHANGE_BYTES * len(self.comparison.items)

    def decision(self, policy: Policy) -> GateDecision:
        """Return the gate's decision under a policy with the same options."""
        return decision_on(self.comparison, self.candidate.results, policy)


class RunComparer:
    """Comparison of stored runs, with a cache. Thread-safe."""

    def __init__(self, items: RunItems, kept: LruCache[ComparedRuns]) -> None:
        self._items = items
        self._kept = kept

    def pair(self, candidate: Run, baseline: Run, options: Options) -> RunPair:
        """Return two runs with stamps of their present results.

        Raises:
            Conflict: a run has not finished, or the runs are too large.
        """
        one, other = self._stamped(baseline), self._stamped(candidate)
        _refuse_too_large(one, other)
        return RunPair(baseline=one, candidate=other, options=options)

    def known(self, pair: RunPair) -> ComparedRuns | None:
        """Return the kept comparison of a pair; None if there is none."""
        return self._kept.find(pair.key)

    def compare(self, pair: RunPair) -> ComparedRuns:
        """Return the kept comparison of a pair, or compare the two.

        Raises:
            Conflict: the two cannot be compared.
            Overloaded: other comparisons did not end in time.
        """
        known = self.known(pair)
        if known is not None:
            return known
        with _one_comparison():
            return self.known(pair) or self._compared(pair)

    def _compared(self, pair: RunPair) -> ComparedRuns:
        """Compare both runs; load each unless the cache holds it."""
        try:
            before, after = self._loaded(pair.baseline), self._loaded(pair.candidate)
            if before.results.pairing != after.results.pairing:
                raise Conflict("the items of one of these runs have keys, and those of the other have not")
            runs = (before.results.run, after.results.run)
            compared = ComparedRuns(
                pair=pair,
                baseline=before,
                candidate=after,
                comparison=compare(*runs, pair.options),
                table=compare_items(*runs, pair.options),
                slice_keys=_slice_keys(runs[1].items),
            )
        except (BadResultsFile, Incomparable) as error:
            raise Conflict(str(error)) from error
        self._kept.keep(pair.key, compared, compared.nbytes)
        return compared

    def without_baseline(self, candidate: Run, policy: Policy) -> GateDecision:
        """Return the decision without a run to compare with.

        Raises:
            Conflict: the run has not finished, or cannot be read.
            Overloaded: comparisons did not end in time.
        """
        stamped = self._stamped(candidate)
        _refuse_too_large(stamped)
        why = "no earlier successful run of this experiment has the same data and branch, so nothing was measured"
        try:
            with _one_comparison():
                return without_baseline(self._loaded(stamped).results, why, policy)
        except BadResultsFile as error:
            raise Conflict(str(error)) from error

    def _stamped(self, run: Run) -> StampedRun:
        if run.status not in FINISHED:
            raise Conflict(f"the run {run.run_id} is {run.status}: only runs with SUCCESS or FAILED can be compared")
        return StampedRun(run=run, stamp=self._items.stamp(run.run_id))

    def _loaded(self, run: StampedRun) -> LoadedRun:
        known = self._kept.first(lambda each: run.key in {each.pair.baseline.key, each.pair.candidate.key})
        if known is not None:
            return known.baseline if known.pair.baseline.key == run.key else known.candidate
        return load_run(run.run, self._items, with_texts=True)


@contextmanager
def _one_comparison() -> Iterator[None]:
    """Limit how many runs are read and compared at once."""
    if not _comparing.acquire(timeout=_WAIT_S):
        raise Overloaded(f"runs are being compared already, which is done {_COMPARISONS}", retry_after_s=5)
    try:
        yield
    finally:
        _comparing.release()


def _refuse_too_large(*runs: StampedRun) -> None:
    count = sum(each.stamp.items for each in runs)
    if count > MAX_ITEMS:
        limit = Limit(value=MAX_ITEMS, unit="items", remedy="export both, and use the gate")
        raise Conflict(f"these runs have {count} items, which is more than {limit}")


def _slice_keys(items: Sequence[JudgedItem]) -> list[str]:
    """Return keys of metadata with two or more distinct values, up to a limit and below the number of items."""
    values: dict[str, set[str]] = {}
    for item in items:
        for key, value in item.metadata.items():
            seen = values.setdefault(key, set())
            if len(seen) <= _MOST_SLICES:
                seen.add(value)
    return sorted(key for key, seen in values.items() if 1 < len(seen) <= min(_MOST_SLICES, len(items) - 1))


class Baseline(NamedTuple):
    """A run to compare with, and a warning if a newer one fits but has too few scores."""

    run: Run
    warnings: Sequence[str] = ()


def baseline_of(candidate: Run, runs: Runs, *, branch: str | None = None) -> Baseline | None:
    """Return the newest earlier successful run on the same data with scores of all the candidate's evaluators.

    An evaluator needs at least half as many scores as in the candidate: one whose judge failed in the newest run would
    otherwise be compared with nothing. If no run has all evaluators, return the newest that lacks the fewest. Without
    `branch`, only runs of the candidate's branch count, if it has one.
    """
    needed = _scored(candidate, runs)
    newest: tuple[Run, list[str]] | None = None
    best: tuple[Run, list[str]] | None = None
    for run in islice(_earlier(candidate, runs, branch or candidate.git_branch), _MOST_BASELINES):
        scored = _scored(run, runs) if needed else {}
        lacks = sorted(name for name, count in needed.items() if 2 * scored.get(name, 0) < count)
        newest = newest or (run, lacks)
        if best is None or len(lacks) < len(best[1]):
            best = (run, lacks) if best else newest
        if not lacks:
            break
    if best is None or newest is None:
        return None
    if best is newest:
        return Baseline(best[0])
    lacking = ", ".join(name for name in newest[1] if name not in best[1])
    text = f"the run before, {newest[0].run_id}, has too few scores of {lacking}: an earlier one is the baseline"
    return Baseline(best[0], (text,))


def _earlier(candidate: Run, runs: Runs, branch: str | None) -> Iterator[Run]:
    """Yield earlier successful runs on the same data that did not fail a gate, newest first."""
    for run in newest_first(runs, candidate.experiment_id):
        if (
            run.status == "SUCCESS"
            and run.verdict != "FAIL"
            and (run.started_at_ns, run.run_id) < (candidate.started_at_ns, candidate.run_id)
            and (run.dataset_id, run.dataset_version) == (candidate.dataset_id, candidate.dataset_version)
            and (branch is None or run.git_branch == branch)
        ):
            yield run


def _scored(run: Run, runs: Runs) -> dict[str, int]:
    return {each.name: each.scored for each in runs.sums([run.run_id])[run.run_id].evaluators if each.scored}


def newest_first(runs: Runs, experiment_id: str, *, most: int = 1_000, page: int = 100) -> Iterator[Run]:
    """Yield the latest runs of an experiment, read a page at a time."""
    for skip in range(0, most, page):
        runs_page = runs.of_experiment(experiment_id, skip=skip, most=page)
        yield from runs_page
        if len(runs_page) < page:
            return
