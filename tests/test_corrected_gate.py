"""The gate of a server corrected for the errors of judges: human votes on items decide which losses survive."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.gating.summary import markdown
from tests.offline import Offline, an_offline_server

pytestmark = pytest.mark.costly("collector/api", "collector/experiments", "collector/gating", "rules", "storage")

ITEMS = 100


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Offline]:
    """Start a server for each test."""
    with an_offline_server(tmp_path / "data") as server:
        yield server


def a_run(api: Offline, passes: int, version: str | None = "1") -> str:
    """Build a run of which `passes` items pass; return its id."""
    run_id = api.begin()
    items = [
        {
            "itemKey": f"item {number}",
            "inputs": {"question": f"Question {number}?"},
            "actualOutputs": {"output": "an answer"},
            "evalResults": [
                {"name": "tone", "score": float(number < passes), "threshold": 1, "success": number < passes}
                | ({} if version is None else {"version": version})
            ],
        }
        for number in range(ITEMS)
    ]
    api.report(run_id, *items)
    api.end(run_id)
    return run_id


def vote(api: Offline, run_id: str, passes: int, *, wrong_every: int) -> None:
    """Let Ada vote on every other item, otherwise than the judge at regular distances."""
    items = [
        each for page in range(2) for each in api.ask("GET", f"runs/{run_id}?page={page}&size=50")["items"]["content"]
    ]
    for item in items[::2]:
        number = int(item["itemKey"].rpartition(" ")[2])
        is_right = (number < passes) is (number // 2 % wrong_every != 0)
        body = {"verdict": "CORRECT" if is_right else "INCORRECT", "by": "Ada"}
        api.ask("PUT", f"runs/{run_id}/items/{item['id']}/annotation", json=body)


def gate(api: Offline, candidate: str, baseline: str) -> Any:
    """Compare two runs."""
    experiment = api.ask("GET", f"runs/{candidate}")["experimentId"]
    body = {"candidateRunId": candidate, "baselineRunId": baseline}
    return api.ask("POST", f"experiments/{experiment}/gate", json=body)


def test_a_loss_that_people_see_survives(api: Offline) -> None:
    """Before a vote nothing is corrected; with a judge that people mostly agree with, the loss stays one."""
    before, after = a_run(api, 85), a_run(api, 55)
    assert gate(api, after, before)["corrected"] == []
    for run_id, passes in ((before, 85), (after, 55)):
        vote(api, run_id, passes, wrong_every=10)
    result = gate(api, after, before)
    assert result["verdict"] == "regressed"
    (corrected,) = result["corrected"]
    assert (corrected["evaluator"], corrected["survives"]) == ("tone", True)
    assert corrected["difference"]["high"] < 0
    assert not any("survive" in each for each in result["warnings"])
    assert "corrected for judge errors" in markdown([result])


def test_a_loss_that_the_judge_made_up_does_not_survive(api: Offline) -> None:
    """If people disagree in a third of the cases, a small loss is reported beside the verdict as not surviving."""
    before, after = a_run(api, 80), a_run(api, 66)
    for run_id, passes in ((before, 80), (after, 66)):
        vote(api, run_id, passes, wrong_every=3)
    result = gate(api, after, before)
    assert result["verdict"] == "regressed"
    (corrected,) = result["corrected"]
    assert not corrected["survives"]
    assert [each for each in result["warnings"] if each.startswith("tone: It does not survive")]


def test_an_evaluator_that_nobody_knows_is_not_corrected(api: Offline) -> None:
    """What declares neither a fingerprint nor a version may be another judge in each run."""
    unknown = a_run(api, 85, version=None), a_run(api, 55, version=None)
    for run_id, passes in zip(unknown, (85, 55), strict=True):
        vote(api, run_id, passes, wrong_every=10)
    assert gate(api, unknown[1], unknown[0])["corrected"] == []
