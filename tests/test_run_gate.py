"""The gate over HTTP and on the command line: stored runs are compared as files are."""

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from collector.cli.main import main
from tests.offline import Offline, an_offline_server

pytestmark = pytest.mark.costly(
    "collector/api", "collector/cli", "collector/experiments", "collector/gating", "rules/statistics", "storage/offline"
)


@pytest.fixture(name="api", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield one server for all; each test has an experiment of its own."""
    with an_offline_server(tmp_path_factory.mktemp("gate") / "data") as server:
        yield server


def a_run(api: Offline, experiment: str, passed: int, **more: Any) -> str:
    """Build a run of which `passed` items pass."""
    of, end, fingerprint = more.pop("of", 40), more.pop("end", "SUCCESS"), more.pop("fingerprint", "f1")
    run = api.begin(experimentName=experiment, **more)
    items = [
        {
            "itemKey": f"item-{number}",
            "inputs": {"q": f"question {number}"},
            "evalResults": [
                {"name": "exact", "score": float(number < passed), "threshold": 1.0, "fingerprint": fingerprint}
            ],
        }
        for number in range(of)
    ]
    api.report(run, *items)
    if end != "RUNNING":
        api.end(run, end)
    return run


def gate(api: Offline, run: str, status: int = 200, **more: Any) -> Any:
    """Compare a run with its baseline."""
    experiment = api.ask("GET", f"runs/{run}")["experimentId"]
    return api.ask("POST", f"experiments/{experiment}/gate", status, json={"candidateRunId": run, **more})


def test_a_run_that_is_worse_fails(api: Offline) -> None:
    """The fields of the seeds: the rates, what regressed, and the items that did, of which at most fifty are listed."""
    before, after = a_run(api, "worse", 80, of=80), a_run(api, "worse", 10, of=80)
    result = gate(api, after)
    assert (result["status"], result["passed"], result["verdict"]) == ("FAIL", False, "regressed")
    assert (result["candidateRunId"], result["baselineRunId"]) == (after, before)
    assert (result["baselinePassRate"], result["candidatePassRate"], result["passRateDelta"]) == (1.0, 0.125, -0.875)
    assert (result["regressedCount"], result["unchangedCount"], result["significant"]) == (70, 10, True)
    assert (len(result["cases"]), result["casesTruncated"]) == (50, True)
    assert {(each["datasetItemId"] == each["key"], each["index"]) for each in result["cases"]} == {(True, None)}
    assert [each["evaluator"] for each in result["regressedEvaluators"]] == ["exact"]
    assert (result["pairing"], result["comparedPass"]) == ("dataset_item_id", True)
    assert result["warnings"] == []  # such as that another run would be nearer


def test_a_run_that_is_not_worse_passes_and_one_that_is_the_first_has_no_baseline(api: Offline) -> None:
    """`NO_BASELINE` passes, and says that nothing was measured."""
    first = a_run(api, "fine", 38)
    result = gate(api, first)
    assert (result["status"], result["passed"], result["comparedPass"]) == ("NO_BASELINE", True, False)
    assert "nothing was measured" in result["warnings"][0]
    assert gate(api, a_run(api, "fine", 38), margin=0.2)["status"] == "PASS"


def test_the_baseline_is_the_newest_success_before_it_on_its_branch(api: Offline) -> None:
    """Runs that failed, that go on, that came later, or that are of another branch are none."""
    main_branch, other = {"gitBranch": "main"}, {"gitBranch": "feature"}
    a_run(api, "branches", 40, **main_branch)
    good = a_run(api, "branches", 40, **main_branch)
    a_run(api, "branches", 0, end="FAILED", **main_branch)
    a_run(api, "branches", 0, end="RUNNING", **main_branch)
    on_feature = a_run(api, "branches", 0, **other)
    candidate = a_run(api, "branches", 40, **main_branch)
    a_run(api, "branches", 0, **main_branch)
    assert gate(api, candidate)["baselineRunId"] == good
    assert gate(api, candidate, baselineBranch="feature")["baselineRunId"] == on_feature
    assert gate(api, candidate, baselineRunId=on_feature)["baselineRunId"] == on_feature
    assert gate(api, on_feature)["status"] == "NO_BASELINE"


def test_what_cannot_be_compared_is_refused(api: Offline) -> None:
    """A run that goes on, another judge, and a run of another experiment."""
    before = a_run(api, "refused", 40)
    running = a_run(api, "refused", 40, end="RUNNING")
    assert "RUNNING" in gate(api, running, 409)["detail"]
    assert "fingerprint" in gate(api, a_run(api, "refused", 40, fingerprint="f2"), 409)["detail"]
    stranger = a_run(api, "stranger", 40)
    assert "not of the experiment" in gate(api, before, 404, baselineRunId=stranger)["detail"]
    assert gate(api, before, 400, margin=-1)["detail"]


def test_the_command_says_it_and_exits_with_it(api: Offline) -> None:
    """The command prints Markdown or JSON, and exits with 1 for a regression, and 3 if unknown is to fail."""
    before, after = a_run(api, "command", 40), a_run(api, "command", 4)
    result = CliRunner().invoke(main, ["experiments", "gate", after, "--server", api.url])
    assert result.exit_code == 1, result.output
    assert "regressed" in result.output
    result = CliRunner().invoke(main, ["experiments", "gate", before, "--json", "--server", api.url])
    assert (result.exit_code, '"NO_BASELINE"' in result.output) == (0, True)
    a_run(api, "unknown", 4, of=5)
    few = a_run(api, "unknown", 3, of=5)
    result = CliRunner().invoke(main, ["experiments", "gate", few, "--fail-on-inconclusive", "--server", api.url])
    assert result.exit_code == 3, result.output


def test_what_cannot_be_compared_is_no_regression(api: Offline) -> None:
    """The command exits with 2 if the server refuses or is unreachable, with 4 if a required baseline is missing."""
    before = a_run(api, "codes", 40)
    other = a_run(api, "codes", 40, fingerprint="f2")
    required = ("--require-baseline",)
    for run, options, code in ((other, (), 2), ("no-such-run", (), 2), (before, required, 4), (before, (), 0)):
        result = CliRunner().invoke(main, ["experiments", "gate", run, *options, "--server", api.url])
        assert result.exit_code == code, result.output
    away = CliRunner().invoke(main, ["experiments", "gate", before, "--server", "http://127.0.0.1:9"])
    assert away.exit_code == 2, away.output


def judged(api: Offline, experiment: str, *evaluations: dict[str, Any], of: int = 40) -> str:
    """Return a run with the same evaluations of each item."""
    run = api.begin(experimentName=experiment)
    api.report(run, *({"itemKey": f"item-{at}", "inputs": {}, "evalResults": [*evaluations]} for at in range(of)))
    api.end(run)
    return run


def test_a_run_that_no_judge_answered_for_does_not_pass(api: Offline) -> None:
    """The command exits with 3, with a baseline and without; the version of a failure is not a fingerprint."""
    judge = {"name": "judge", "fingerprint": "f1"}
    dead = {"name": "judge", "version": "2", "error": "status 401: bad <key>", "errorKind": "refused"}
    judged(api, "dead", {**judge, "score": 1.0, "threshold": 0.5})
    for run in (judged(api, "dead", dead), judged(api, "dead alone", dead)):
        result = CliRunner().invoke(main, ["experiments", "gate", run, "--server", api.url])
        assert (result.exit_code, "nothing was judged" in result.stdout) == (3, True), result.output


def test_a_missing_evaluator_can_be_allowed(api: Offline) -> None:
    """One that scored nothing in the baseline is a warning as it is, and the terminal shows names as they are."""
    exact = {"name": "exact", "score": 1.0, "threshold": 1.0}
    judged(api, "removed", exact, {"name": "latency_ms", "score": 1.0}, {"name": "broken", "error": "prose"})
    results = [
        CliRunner().invoke(main, ["experiments", "gate", run, *options, "--server", api.url])
        for run in [judged(api, "removed", exact)]
        for options in ((), ("--allow-removed-evaluators",))
    ]
    assert [each.exit_code for each in results] == [1, 0], results[1].output
    assert "failed: evaluator latency_ms of the baseline is missing" in results[0].stdout
    assert "warning: evaluator broken of the baseline is missing" in results[0].stderr
