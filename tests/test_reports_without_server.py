"""Reports without a server: those of the SDK, and of experiments from files."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from collector.cli.main import main
from collector.gating.results import read_results
from tests.offline import an_offline_server
from tests.source_tree import ROOT
from tracejury import Client, Dataset, Example, Experiment, Score, results

pytestmark = pytest.mark.costly(
    "collector/api/offline",
    "collector/cli",
    "collector/experiment_runner",
    "collector/datasets",
    "collector/evaluation",
    "collector/experiments",
    "collector/gating",
    "collector/plan_file.py",
    "collector/spreadsheet.py",
    "evaluators",
    "rules/statistics",
    "sdk/python/src",
    "storage/offline",
)

COMMAND = (sys.executable, "-c", "from collector.cli.main import main; main()", "experiments", "report")
FORMS = {"html": "html", "md": "markdown", "csv": "csv", "xml": "junit", "json": "json"}


def task(example: Example) -> Any:
    """Answer, but for one input."""
    if example.input == "Atlantis":
        raise LookupError("it has sunk")
    return {"output": {"Norway": "Oslo"}.get(example.input, "Paris")}


def right(example: Example, outputs: Any) -> Score:
    """Score with a reason."""
    is_right = outputs["output"] == example.expected_output
    return Score(value=float(is_right), passed=is_right, reason="as known" if is_right else "another city")


ABOUT = "Capitals by memory"
CASES = [Example.of("Norway", "Oslo"), Example.of("Peru", "Lima"), Example.of("Atlantis", "none")]


@pytest.fixture(autouse=True)
def from_this_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start programs from this tree."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, ROOT / "sdk" / "python" / "src"))))
    monkeypatch.delenv("TRACEJURY_URL", raising=False)


@pytest.fixture(name="files", scope="module")
def reports_of_both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Return the reports of the SDK without a server, and of the same run by a server, by their endings."""
    folder = tmp_path_factory.mktemp("reports")
    with an_offline_server(folder / "data") as server:
        client = Client(server.url)
        dataset = Dataset("d", CASES)
        result = Experiment("capitals", dataset, task, [right], trials=2, client=client, description=ABOUT).run()
        client.close()
        stored = {
            ending: server.answer("GET", f"runs/{result.run_id}/export?format={form}").text
            for ending, form in FORMS.items()
        }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, ROOT / "sdk" / "python" / "src"))))
        for ending in FORMS:
            result.export(folder / f"run.{ending}", command=COMMAND)
    return {ending: ((folder / f"run.{ending}").read_bytes().decode(), stored[ending]) for ending in FORMS}


def test_a_report_of_the_sdk_has_what_an_export_has(files: dict[str, tuple[str, str]]) -> None:
    """Inputs, expected and actual outputs, scores, reasons and errors are there as in an export of a server."""
    for ending, (text, stored) in files.items():
        assert [ABOUT in each for each in (text, stored)] == [ending not in {"csv", "xml"}] * 2, ending
        for shown in ("Peru", "Lima", "Paris", "another city", "it has sunk"):
            assert shown in text, (ending, shown)
    assert files["csv"][0] == files["csv"][1]
    (mine, theirs) = (json.loads(each)["items"] for each in files["json"])
    columns = ("id", "input", "expectedOutput", "actualOutput", "evaluations", "outcome")
    assert [[each.get(name) for name in columns] for each in mine] == [
        [each.get(name) for name in columns] for each in theirs
    ]


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A name without a known extension, and a missing folder, are errors."""
    result = results.Result("empty", Experiment("e", Dataset("d", CASES), task, [right]).run().items)
    with pytest.raises(ValueError, match=r"run\.txt has no known file extension: \.json, \.csv"):
        result.export(tmp_path / "run.txt", command=COMMAND)
    with pytest.raises(ValueError, match="cannot be written"):
        result.export(tmp_path / "none" / "run.csv", command=COMMAND)


def run(file: Path, *options: str) -> Result:
    """Return what the command says."""
    return CliRunner().invoke(main, ["experiments", "run", str(file), "--no-server", *options])


def test_an_experiment_from_a_file_runs_without_a_server(tmp_path: Path) -> None:
    """It judges, prints and reports as with one; the report is what the gate reads, and its exit code says the rate."""
    program = "import json, sys; print({'Norway': 'Oslo'}.get(json.load(sys.stdin)['inputs']['input'], 'Paris'))"
    plan: dict[str, Any] = {"experiment": "capitals", "description": ABOUT, "dataset": "cases.jsonl"}
    plan |= {"task": {"command": [sys.executable, "-c", program]}, "evaluators": ["exact_match"]}
    lines = [
        json.dumps({"id": each.input, "input": each.input, "expectedOutput": each.expected_output}) for each in CASES
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(lines), encoding="utf-8")
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(plan), encoding="utf-8")
    reports = [tmp_path / "run.json", tmp_path / "run.html"]
    done = run(file, *(f"--report={each}" for each in reports), "--min-pass-rate", "0.3")
    assert done.exit_code == 0, done.output
    assert "capitals" in done.stdout
    assert read_results(reports[0]).experiment == "capitals"
    assert json.loads(reports[0].read_text(encoding="utf-8"))["description"] == ABOUT
    assert "Paris" in reports[1].read_text(encoding="utf-8")
    assert run(file, "--min-pass-rate", "0.5").exit_code == 1
    wrong = run(file, "--report", str(tmp_path / "run.txt"))
    assert (wrong.exit_code, "has no known file extension" in wrong.stderr) == (2, True)
