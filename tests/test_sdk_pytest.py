"""The plugin for pytest, in sessions of their own: one run, also with workers, and nothing without a mark."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.offline import Offline, an_offline_server, lines
from tests.source_tree import ROOT

CASES = [{"id": str(number), "input": number, "expectedOutput": number * 2} for number in range(4)]
TESTS = """
import pytest
from tracejury import Score, assert_eval

@pytest.mark.tracejury(dataset={dataset!r}, repeats=2, experiment="suite", project="shop")
def test_doubles(example, record):
    record.outputs(example.input * 2 if example.input != 3 else 7)
    if example.input == 2:
        raise ValueError("boom")
    record.score("exact", record.output == example.expected_output)
    assert_eval(record.scores[0])
"""


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """One server for all, with a dataset of one version."""
    with an_offline_server(tmp_path_factory.mktemp("plugin") / "data") as server:
        server.dataset()
        server.version(*CASES)
        yield server


def session(folder: Path, text: str, *options: str, url: str = "") -> subprocess.CompletedProcess[str]:
    """A session of pytest over one file, with the plugin as an installed one is loaded."""
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("TRACEJURY", "PYTEST"))}
    environ |= {"PYTHONPATH": str(ROOT / "sdk" / "python" / "src"), "HOME": str(folder)}
    environ |= {"TRACEJURY_URL": url} if url else {}
    plugin = ("-p", "tracejury.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:schemathesis")
    command = [sys.executable, "-m", "pytest", *plugin, "--rootdir", str(folder), *options, str(folder / "test_it.py")]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_session_is_one_run(server: Offline, tmp_path: Path, options: tuple[str, ...]) -> None:
    """Each example and repeat is a test and an item; a failed score, an error and a pass are three things."""
    before = {each["id"] for each in runs(server)}
    done = session(tmp_path, TESTS.format(dataset="dataset://qa@1"), *options, url=server.url)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "4 failed, 4 passed" in done.stdout
    assert "Evaluation 'exact' failed: score=0.00" in done.stdout
    (run,) = [each for each in runs(server) if each["id"] not in before]
    found = server.ask("GET", f"runs/{run['id']}")
    assert (found["status"], found["trials"], found["datasetVersion"]) == ("SUCCESS", 2, 1)
    assert (found["totalItems"], found["passedItems"], found["notPassedItems"], found["errorItems"]) == (8, 4, 2, 2)
    errors = {each["error"] for each in found["items"]["content"]} - {None}
    assert errors == {"ValueError: boom"}


def test_without_a_server_the_same_tests_run_on_files(tmp_path: Path) -> None:
    """Nothing is sent, and the results are the same."""
    (tmp_path / "cases.jsonl").write_text(lines(*CASES), encoding="utf-8")
    done = session(tmp_path, TESTS.format(dataset=("dataset://qa@1", "cases.jsonl")))
    assert "4 failed, 4 passed" in done.stdout, done.stdout + done.stderr


def test_a_mark_that_is_wrong_is_told(tmp_path: Path) -> None:
    """A word that it does not know ends the session."""
    text = "import pytest\n@pytest.mark.tracejury(data='x')\ndef test_x(): pass\n"
    done = session(tmp_path, text)
    assert "tracejury(dataset=" in done.stdout + done.stderr
    assert done.returncode != 0


def test_a_session_without_marks_imports_nothing(tmp_path: Path) -> None:
    """The plugin is loaded, and neither httpx nor pydantic is."""
    text = "import sys\ndef test_x():\n    assert not {'httpx', 'pydantic', 'opentelemetry'} & sys.modules.keys()\n"
    done = session(tmp_path, text, "-p", "no:hypothesispytest", "-p", "no:asyncio", "-p", "no:anyio")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def runs(server: Offline) -> list[dict[str, object]]:
    """The runs of the experiment."""
    listed = server.ask("GET", "projects/shop/experiments")
    ids = [each["id"] for each in listed if each["name"] == "suite"]
    found: list[dict[str, object]] = server.ask("GET", f"experiments/{ids[0]}/runs") if ids else []
    return found
