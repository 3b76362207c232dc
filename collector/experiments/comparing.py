"""Runs that are stored, compared by the engine of the gate."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from collector.experiments.columns import load_run
from collector.gating.gate import Decision, Policy, judge, without_baseline
from collector.gating.results import BadFile
from storage.errors import Conflict
from storage.run_items import RunItems
from storage.runs import Run, Runs

MAX_ITEMS: Final = 200_000
"""Items of both runs together, each trial one: what two runs take in memory grows with them. A guess."""

FINISHED: Final = frozenset({"SUCCESS", "FAILED"})


def compare_runs(candidate: Run, baseline: Run | None, items: RunItems, policy: Policy) -> Decision:
    """What the gate says of a run, compared with another one of its experiment.

    Raises:
        Conflict: one has not finished, or the two cannot be compared.
    """
    both = [each for each in (candidate, baseline) if each is not None]
    refuse_uncomparable(both, items)
    try:
        told = {run.run_id: load_run(run, items, with_texts=True).results for run in both}
        if baseline is None:
            why = "no run of this experiment that ended before it has the same data and branch, so nothing was measured"
            return without_baseline(told[candidate.run_id], why, policy)
        return judge(told[baseline.run_id], told[candidate.run_id], f"run {baseline.run_id}", policy)
    except BadFile as error:
        raise Conflict(str(error)) from error


def refuse_uncomparable(both: Sequence[Run], items: RunItems) -> None:
    """Refuse runs that go on, and those that are too large to be read.

    Raises:
        Conflict: one of them is so.
    """
    for run in both:
        if run.status not in FINISHED:
            raise Conflict(f"the run {run.run_id} is {run.status}: only what is SUCCESS or FAILED is compared")
    count = sum(items.count(run.run_id) for run in both)
    if count > MAX_ITEMS:
        raise Conflict(f"these runs have {count} items, and {MAX_ITEMS} can be compared: export both, and use the gate")


def baseline_of(candidate: Run, runs: Iterable[Run], *, branch: str | None = None) -> Run | None:
    """The newest run that may be compared with: of the same data, a success, and begun before the candidate.

    `runs` are those of the experiment, newest first. Without a branch, it is that of the candidate, if that has one.
    """
    wanted = branch or candidate.git_branch
    return next(
        (
            run
            for run in runs
            if run.status == "SUCCESS"
            and (run.started_at_ns, run.run_id) < (candidate.started_at_ns, candidate.run_id)
            and (run.dataset_id, run.dataset_version) == (candidate.dataset_id, candidate.dataset_version)
            and (wanted is None or run.git_branch == wanted)
        ),
        None,
    )


def newest_first(runs: Runs, experiment_id: str, *, most: int = 1_000, page: int = 100) -> Iterator[Run]:
    """The latest runs of an experiment, read a page at a time."""
    for skip in range(0, most, page):
        found = runs.of_experiment(experiment_id, skip=skip, most=page)
        yield from found
        if len(found) < page:
            return
