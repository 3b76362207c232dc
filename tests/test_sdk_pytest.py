"""The plugin for pytest, in sessions of their own: one run, also with workers, and nothing without a mark."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.offline import Offline, an_offline_server, lines
from tests.serving import unused_port
from tests.source_tree import ROOT

pytestmark = pytest.mark.costly("collector/api/offline", "collector/experiments", "evaluators", "sdk/python/src")

CASES = [{"id": str(number), "input": number, "expectedOutput": number * 2} for number in range(4)]
TESTS = """
import pytest
from tracejury import Score, assert_eval

@pytest.mark.tracejury(dataset={dataset!r}, repeats=2, experiment="suite", project="shop")
def test_doubles(example, record, request):
    record.outputs(example.input * 2 if example.input != 3 else 7)
    if example.input == 2:
        record.score("any", True)
        if request.node.name.endswith("-2]"):
            pytest.fail("late")
        raise ValueError("boom")
    record.score("exact", record.output == example.expected_output)
    assert_eval(record.scores[0])
"""


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield one server for all, with a dataset of one version."""
    with an_offline_server(tmp_path_factory.mktemp("plugin") / "data") as server:
        server.dataset()
        server.version(*CASES)
        yield server


def session(
    folder: Path, text: str, *options: str, url: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest over one file, with the plugin loaded as an installed one.

    The other plugins that are installed here take a third of its time, so the sessions of one test alone have them.
    """
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("TRACEJURY", "PYTEST"))}
    environ |= {"PYTHONPATH": str(ROOT / "sdk" / "python" / "src"), "HOME": str(folder)}
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    environ |= {"TRACEJURY_URL": url, "TRACEJURY_PATIENCE_S": "0"} if url else {}
    environ |= variables
    plugin = ["-p", "tracejury.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
    if environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] and "-n" in options:
        plugin += ["-p", "xdist"]
    command = [sys.executable, "-m", "pytest", *plugin, "--rootdir", str(folder), *options, str(folder / "test_it.py")]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_session_is_one_run(server: Offline, tmp_path: Path, options: tuple[str, ...]) -> None:
    """Each example and repeat is a test and an item; a failed score, an error and a pass are three things."""
    before = {each["id"] for each in runs(server)}
    text = TESTS.format(dataset="dataset://qa@1")
    done = session(tmp_path, text, *options, url=server.url, PYTEST_DISABLE_PLUGIN_AUTOLOAD="")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "4 failed, 4 passed" in done.stdout
    assert "Evaluation 'exact' failed: score=0.00" in done.stdout
    (run,) = [each for each in runs(server) if each["id"] not in before]
    run_document = server.ask("GET", f"runs/{run['id']}")
    assert (run_document["status"], run_document["trials"], run_document["datasetVersion"]) == ("SUCCESS", 2, 1)
    assert (
        run_document["totalItems"],
        run_document["passedItems"],
        run_document["notPassedItems"],
        run_document["errorItems"],
    ) == (8, 4, 2, 2)
    errors = {each["error"] for each in run_document["items"]["content"]} - {None}
    assert errors == {"ValueError: boom", "Failed: late"}


def test_without_a_server_the_same_tests_run_on_files(tmp_path: Path) -> None:
    """Nothing is sent, and the results are the same."""
    (tmp_path / "cases.jsonl").write_text(lines(*CASES), encoding="utf-8")
    done = session(tmp_path, TESTS.format(dataset=("dataset://qa@1", "cases.jsonl")))
    assert "4 failed, 4 passed" in done.stdout, done.stdout + done.stderr


def test_a_mark_that_is_wrong_is_told(tmp_path: Path) -> None:
    """A word that it does not know ends the session."""
    text = "import pytest\n@pytest.mark.tracejury(data='x')\ndef test_x(): pass\n"
    done = session(tmp_path, text)
    assert "tracejury(dataset | json | jsonl | csv=" in done.stdout + done.stderr
    assert done.returncode != 0


def test_a_session_without_marks_imports_nothing(tmp_path: Path) -> None:
    """The plugin is loaded, and neither httpx nor pydantic is."""
    text = "import sys\ndef test_x():\n    assert not {'httpx', 'pydantic', 'opentelemetry'} & sys.modules.keys()\n"
    done = session(tmp_path, text, "-p", "no:hypothesispytest", "-p", "no:asyncio", "-p", "no:anyio")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def runs(server: Offline, experiment: str = "suite") -> list[dict[str, object]]:
    """Return the runs of an experiment."""
    listed = server.ask("GET", "projects/shop/experiments")
    ids = [each["id"] for each in listed if each["name"] == experiment]
    run_list: list[dict[str, object]] = server.ask("GET", f"experiments/{ids[0]}/runs") if ids else []
    return run_list


LOSING = """
import pytest

@pytest.mark.tracejury(dataset={dataset!r}, experiment="losing", project="shop")
def test_loses(example, record):
    record.outputs("x" * (9 << 20) if example.input == 1 else "short")
    record.score("any", True)
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_what_cannot_be_delivered_is_told_and_may_fail(
    server: Offline, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """No test fails by it; it is counted at the end, on record in the spool, and the session fails."""
    text = LOSING.format(dataset="dataset://qa@1")
    lost = session(tmp_path, text, *options, "-o", "tracejury_spool=kept", url=server.url)
    assert (lost.returncode, "tracejury: 1 items could not be delivered" in lost.stdout) == (1, True), lost.stdout
    assert ("losing of shop: run " in lost.stdout, "4 passed" in lost.stdout) == (True, True)
    (run, *_) = runs(server, "losing")
    assert (run["status"], run["itemCount"]) == ("SUCCESS", 3)
    (line,) = (tmp_path / "kept" / "refused-items.ndjson").read_text(encoding="utf-8").splitlines()
    assert sorted(json.loads(line)) == ["error", "items", "key", "runId"]


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_server_that_is_away_costs_no_test(server: Offline, tmp_path: Path, options: tuple[str, ...]) -> None:
    """The tests of a file run and pass; spooled items are counted, fatal on request, and sent by the next session."""
    (tmp_path / "cases.jsonl").write_text(lines(*CASES), encoding="utf-8")
    text = LOSING.format(dataset="cases.jsonl").replace("9 << 20", "9")
    away = f"http://127.0.0.1:{unused_port()}"
    done = session(tmp_path, text, url=away)
    assert (done.returncode, "4 passed" in done.stdout) == (0, True), done.stdout
    assert "tracejury: 4 items could not be delivered: http://127.0.0.1" in done.stdout
    assert "4 of them are in the spool" in done.stdout
    assert session(tmp_path, text, "-o", "tracejury_fail_on_lost=true", url=away).returncode == 1
    assert session(tmp_path, text, "-o", "tracejury_spool=no", url=away).returncode == 1
    name = f"kept by {len(options)}"
    kept = session(tmp_path, text.replace("losing", name), *options, "-o", "tracejury_spool=kept", url=away)
    assert kept.returncode == 0, kept.stdout
    other = text.replace("losing", "other")
    assert session(tmp_path, other, "-o", "tracejury_spool=kept", url=server.url).returncode == 0
    (run,) = runs(server, name)
    assert (run["status"], run["itemCount"], run["passRate"]) == ("SUCCESS", 4, 1.0)
    assert [each.name for each in (tmp_path / "kept").glob("*.ndjson")] == []


INLINE = """
import pytest
from tracejury import Dataset, Example

@pytest.mark.tracejury(json='[{"input": "What is 2+2? [now]"}, {"id": "named", "input": 5}]', experiment="inline")
def test_json(example, record):
    record.score("any", True)

@pytest.mark.tracejury(csv="input\\none\\ntwo\\n", repeats=2, experiment="inline")
def test_csv(example, record):
    assert example.input in {"one", "two"}
    record.score("any", True)

@pytest.mark.tracejury(dataset=Dataset("mine", [Example.of("of a list")]), experiment="inline")
def test_object(example, record):
    record.score("any", True)
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_mark_may_hold_its_dataset(server: Offline, tmp_path: Path, options: tuple[str, ...]) -> None:
    """A text or an object is the dataset; tests are named by their inputs, the project by the environment."""
    done = session(tmp_path, INLINE, "-rA", *options, url=server.url, TRACEJURY_PROJECT="shop")
    assert done.returncode == 0, done.stdout
    names = set(re.findall(r"PASSED test_it\.py::(.*)", done.stdout))
    assert names == {
        "test_json[What is 2+2? _now_]",
        "test_json[named]",
        *(f"test_csv[{word}-{trial}]" for word in ("one", "two") for trial in (1, 2)),
        "test_object[of a list]",
    }
    assert {run["itemCount"] for run in runs(server, "inline")} == {7}


TRACED = """
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())

@pytest.mark.tracejury(dataset="dataset://qa@1", experiment="traced", project="shop")
def test_traced(example, record):
    span = trace.get_current_span()
    trace_id = f"{span.get_span_context().trace_id:032x}"
    record.outputs({"trace": trace_id, "run": span.attributes["tracejury.run.id"]})
    record.score("any", True)
"""


def test_each_test_is_linked_to_its_trace(server: Offline, tmp_path: Path) -> None:
    """It runs inside of a span that names run and item, and the item names its trace."""
    done = session(tmp_path, TRACED, url=server.url)
    assert done.returncode == 0, done.stdout
    (run,) = runs(server, "traced")
    items = server.ask("GET", f"runs/{run['id']}")["items"]["content"]
    assert [each["actualOutput"] for each in items] == [{"trace": each["traceId"], "run": run["id"]} for each in items]
    assert len({each["traceId"] for each in items}) == len(CASES)
