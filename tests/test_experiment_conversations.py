"""Experiments from files over scenarios: conversations are run, judged and stored, with pass^k."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from collector.cli.main import main
from tests.offline import Offline, an_offline_server

AGENT = """
import json, pathlib, sys
told = json.load(sys.stdin)
had = pathlib.Path("had.txt")
with had.open("a") as file:
    file.write(f"{told['scenario']} {told['message']}\\n")
if told["scenario"] == "Broken":
    sys.exit("it is down")
steady = told["scenario"] == "Steady" or had.read_text().count("Flaky Pay!") % 2
print(json.dumps({"output": "refunded" if steady else "no", "state": {"paid": bool(steady)}}))
"""
SCENARIOS = [
    {
        "id": name.lower(),
        "scenario": name,
        "userTurns": ["Money!", "Pay!"],
        "expectedOutputs": {"state": {"paid": True}},
    }
    for name in ("Steady", "Flaky", "Broken")
]


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Start one server for all tests."""
    with an_offline_server(tmp_path_factory.mktemp("conversations") / "data") as server:
        yield server


def a_file(folder: Path, **plan: Any) -> Path:
    """Return the file of an experiment, with a simulation and its agent beside it."""
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    simulation = {"simulation": "refunds", "scenarios": SCENARIOS, "target": {"command": [sys.executable, "agent.py"]}}
    (folder / "refunds.yaml").write_text(yaml.safe_dump(simulation), encoding="utf-8")
    state = {"evaluator": "structural_match", "config": {"outputKey": "state", "mode": "LENIENT"}}
    content = {"experiment": folder.name, "project": "shop", "simulation": "refunds.yaml", "evaluators": [state]}
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(content | plan), encoding="utf-8")
    return file


def run(server: Offline, file: Path, *options: str) -> Result:
    """Run the command against a server."""
    return CliRunner().invoke(main, ["experiments", "run", str(file), "--server", server.url, *options])


def test_scenarios_are_had_judged_and_stored(server: Offline, tmp_path: Path) -> None:
    """Each trial is a conversation, and what broke off keeps its turns; run again, nothing is had again."""
    file = a_file(tmp_path, trials=4)
    result = run(server, file, "--run-key", "once")
    assert result.exit_code == 0, result.output
    assert "pass^1 50.0%, of 3 cases" in result.output
    assert "pass^4 33.3%, of 3 cases" in result.output
    shown = json.loads(run(server, file, "--run-key", "once", "--json").stdout)
    items = server.ask("GET", f"runs/{shown['id']}?size=100")["items"]["content"]
    assert Counter((each["itemKey"], each["outcome"]) for each in items) == {
        ("steady", "passed"): 4,
        ("flaky", "passed"): 2,
        ("flaky", "not_passed"): 2,
        ("broken", "error"): 4,
    }
    assert {each["errorKind"] for each in items if each["itemKey"] == "broken"} == {"agent"}
    assert all(each["actualOutput"]["trajectory"]["messages"][0]["content"] == "Money!" for each in items)
    steady = next(each for each in items if each["itemKey"] == "steady")
    assert len(steady["actualOutput"]["trajectory"]["messages"]) == 4
    assert steady["expectedOutput"] == {"state": {"paid": True}}
    assert (tmp_path / "had.txt").read_text().count("Money!") == 12


def test_scenarios_of_a_dataset_are_had(server: Offline, tmp_path: Path) -> None:
    """Their own expectations count, and the simulation file says only who talks to what."""
    server.dataset("talks")
    item = {"id": "one", "inputs": {"scenario": "Steady", "userTurns": ["Pay!"]}, "expectedOutputs": {"state": {}}}
    server.version(item, name="talks")
    result = run(server, a_file(tmp_path, dataset="dataset://talks@1"), "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["datasetVersion"], document["totalItems"], document["passedItems"]) == (1, 1, 1)


@pytest.mark.parametrize(
    "plan, message",
    [
        ({"task": {"command": ["x"]}, "dataset": "a.jsonl"}, "needs either a task or a simulation"),
        ({"simulation": None}, "needs either a task or a simulation"),
        ({"simulation": None, "task": {"command": ["x"]}}, "dataset: required with a task"),
        ({"simulation": "nowhere.yaml"}, "simulation: nowhere.yaml: No such file"),
        ({"simulation": "experiment.yaml"}, "simulation: experiment.yaml: "),
        ({"linkTraces": True}, "a trace of its own"),
    ],
)
def test_a_file_that_says_something_else_is_refused(
    server: Offline, tmp_path: Path, plan: dict[str, Any], message: str
) -> None:
    """Errors in the file are reported before anything is run."""
    result = run(server, a_file(tmp_path, **plan))
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "had.txt").exists()
