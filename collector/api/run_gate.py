"""The gate over HTTP: whether a run is worse than another one of its experiment."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.answers.declared import answers
from collector.api.answers.gating import GateVerdict
from collector.api.context import Context, Here, Who
from collector.api.runs import run_seen
from storage.errors import Missing, Overloaded
from storage.runs import Run

router = APIRouter(prefix="/api/v1/experiments/{experiment_id}")

_AT_ONCE: Final = 1
_WAIT_S: Final = 30.0
_comparing = BoundedSemaphore(_AT_ONCE)
"""A guess: a comparison takes one processor, and holds two runs in memory."""

_Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Key = Annotated[str, Field(min_length=1, max_length=200)]


class GateQuestion(BaseModel):
    """Which runs are compared, and when a difference is one. A baseline that is not named is looked for."""

    model_config = ConfigDict(extra="forbid")

    candidateRunId: _Key  # noqa: N815 - as it is written
    baselineRunId: _Key | None = None  # noqa: N815 - likewise
    baselineBranch: _Key | None = None  # noqa: N815 - likewise
    margin: Annotated[_Share, Field(description="A loss that is smaller is tolerated.")] = 0.05
    alpha: Annotated[float, Field(gt=0, lt=1, description="Of all evaluators together.")] = 0.05
    severityMargin: Annotated[_Share, Field(description="No item may lose more.")] | None = None  # noqa: N815 - likewise
    floor: Annotated[int, Field(ge=0, le=10_000, description="So many trials of each item must pass.")] | None = None
    evaluators: Annotated[list[_Key], Field(min_length=1, max_length=100)] | None = None
    slices: Annotated[list[_Key], Field(max_length=20, description="Keys of metadata.")] = []
    unscored: dict[Literal["failed", "skipped", "missing"], Literal["check", "worst", "exclude", "refuse"]] = {}
    failOnInconclusive: bool = False  # noqa: N815 - likewise


@router.post("/gate")
@needs(Permission.READ, by_tenant=True)
@answers(GateVerdict)
def gate(experiment_id: str, body: GateQuestion, here: Here, who: Who) -> dict[str, Any]:
    """Whether a run is worse than a baseline; 409 where one has not finished, or the two cannot be compared.

    The baseline is the newest successful run of the experiment that began before the candidate, has the same version of
    the dataset, and the branch that is named, or else that of the candidate.
    """
    candidate = run_of_experiment(experiment_id, body.candidateRunId, here, who)
    named = None
    if body.baselineRunId is not None:
        named = run_of_experiment(experiment_id, body.baselineRunId, here, who)
    with one_comparison():
        return _verdict(candidate, named, body, here)


@contextmanager
def one_comparison() -> Iterator[None]:
    """The block in which runs are read and compared, of which only so many go on at once.

    Raises:
        Overloaded: others did not end in time.
    """
    if not _comparing.acquire(timeout=_WAIT_S):
        raise Overloaded("other runs are being compared; try again", retry_after_s=5)
    try:
        yield
    finally:
        _comparing.release()


def run_of_experiment(experiment_id: str, run_id: str, here: Context, who: Who) -> Run:
    """A run that is named with its experiment.

    Raises:
        Missing: there is none, or it is of another experiment.
    """
    run = run_seen(run_id, here, who)
    if run.experiment_id != experiment_id:
        raise Missing(f"the run {run_id} is not of the experiment {experiment_id}")
    return run


def _verdict(candidate: Run, named: Run | None, body: GateQuestion, here: Context) -> dict[str, Any]:
    # Imported here: it brings scipy, which a server that compares nothing should not load.
    from collector.experiments.comparing import baseline_of, compare_runs, newest_first  # noqa: PLC0415
    from collector.gating.gate import Policy  # noqa: PLC0415
    from rules.statistics.runs.options import Options  # noqa: PLC0415

    before = named or baseline_of(
        candidate, newest_first(here.runs, candidate.experiment_id), branch=body.baselineBranch
    )
    options = Options(
        margin=body.margin,
        alpha=body.alpha,
        severity=body.severityMargin,
        floor=body.floor,
        evaluators=None if body.evaluators is None else tuple(body.evaluators),
        slices=tuple(body.slices),
        unscored=dict(body.unscored.items()),
    )
    policy = Policy(options=options, fail_on_inconclusive=body.failOnInconclusive)
    decision = compare_runs(candidate, before, here.run_items, policy)
    return {
        **decision.document,
        "candidateRunId": candidate.run_id,
        "baselineRunId": None if before is None else before.run_id,
    }
