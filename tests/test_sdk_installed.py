"""The SDK as installed from its wheel, in an environment without the server's packages: programs run as experiments."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.live import until
from tests.model_server import RESPONSES, ModelRequest, ModelServer, Says, Sends, Step, a_model
from tests.offline import Offline, an_offline_server
from tests.source_tree import ROOT

pytestmark = pytest.mark.costly("collector/api", "collector/experiments", "sdk/python")

SDK = ROOT / "sdk" / "python"
NEEDED = (
    "openai-agents==0.24.0",
    "openai==3.54.0",
    "opentelemetry-exporter-otlp-proto-http==1.45.2",
    "opentelemetry-sdk==1.45.2",
    "httpx==0.28.1",
    "pydantic==2.14.3",
)
CAPITALS = {"Norway": "Oslo", "Japan": "Tokyo", "Peru": "Lima", "Atlantis": "nowhere"}


@pytest.fixture(name="wheel", scope="module")
def the_built_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built by the hatchling of this environment, without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(SDK)]
    subprocess.run(build, cwd=folder, check=True, capture_output=True, timeout=120)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(name="python", scope="module")
def an_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the Python of an environment with the wheel and what the programs need, which takes seconds."""
    environment = tmp_path_factory.mktemp("environment") / "venv"
    python = str(environment / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=120)
    installed = install(python, *NEEDED)
    if installed.returncode:
        pytest.skip(f"what the programs need cannot be installed here: {installed.stderr.strip()[-300:]}")
    done = install(python, "--offline", str(wheel))
    assert done.returncode == 0, done.stderr
    return python


def install(python: str, *what: str) -> subprocess.CompletedProcess[str]:
    """Install something into an environment."""
    command = [str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--python", python, *what]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield one server, with the questions as a dataset."""
    with an_offline_server(tmp_path_factory.mktemp("installed") / "data") as server:
        server.dataset("capitals")
        cases = [
            {"id": land, "input": f"capital of {land}?", "expectedOutput": city} for land, city in CAPITALS.items()
        ]
        server.version(*cases, name="capitals")
        yield server


def script(request: ModelRequest) -> Step:
    """Answer with the capital, after a call of the agent's tool. Atlantis is unknown."""
    items = [item for item in request.body.get("input", []) if isinstance(item, dict)]
    if request.path == RESPONSES and not any(item.get("type") == "function_call_output" for item in items):
        return Sends(json.dumps(a_call(request)).encode())
    return Says(next((city for land, city in CAPITALS.items() if land in request.user and land != "Atlantis"), "Paris"))


def a_call(request: ModelRequest) -> dict[str, Any]:
    """Build an answer that calls the tool `population`."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "population", "status": "completed"}
    usage = {"input_tokens": 50, "output_tokens": 5, "total_tokens": 55}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    head = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": request.body["model"],
        "status": "completed",
    }
    more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return head | more | {"output": [call | {"arguments": '{"city": "Oslo"}'}], "usage": usage | details}


def bare() -> dict[str, str]:
    """Return the environment without what names servers and packages."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TRACEJURY", "OTEL"))}


def run(python: str, program: str, server: Offline, model: ModelServer) -> dict[str, Any]:
    """Run an example; return the JSON that it prints at its end."""
    environ = bare() | {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none", "TRACEJURY_URL": server.url}
    command = [python, str(SDK / "examples" / program), "dataset://capitals@1"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_wheel_holds_one_package_and_asks_for_three(wheel: Path) -> None:
    """Nothing of the server comes with it, and it is marked as typed."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read("tracejury_sdk-0.1.0.dist-info/METADATA").decode()
    assert {name.partition("/")[0] for name in names} == {"tracejury", "tracejury_sdk-0.1.0.dist-info"}
    assert "tracejury/py.typed" in names
    needs = [line.split()[1] for line in metadata.splitlines() if re.match("Requires-Dist: [^;]*$", line)]
    assert [name.partition("<")[0] for name in needs] == ["httpx", "opentelemetry-api", "pydantic"]


@pytest.mark.parametrize("program, calls", [("openai_client.py", 1), ("openai_agents.py", 2)])
def test_a_program_is_run_as_an_experiment(python: str, server: Offline, program: str, calls: int) -> None:
    """Its items have answers, scores and tokens, and each is linked to a trace that the server has."""
    with a_model(script) as model:
        result = run(python, program, server, model)
        assert len(model.requests) == calls * len(CAPITALS)
    assert (result["passRate"], result["lost"]) == (0.75, 0)
    run_document = server.ask("GET", f"runs/{result['runId']}")
    assert (run_document["status"], run_document["passedItems"], run_document["notPassedItems"]) == ("SUCCESS", 3, 1)
    assert (run_document["tokenizedItemCount"], run_document["datasetVersion"]) == (4, 1)
    items = {each["datasetItemId"]: each for each in run_document["items"]["content"]}
    assert items["Peru"]["actualOutput"] == {"output": "Lima"}
    traces = {each["traceId"] for each in items.values()}
    assert len(traces) == len(CAPITALS)
    for trace_id in traces:
        kept = until(partial(server.answer, "GET", f"traces/{trace_id}"), lambda answer: answer.is_success)
        assert f"experiment {run_document['experimentName']}" in kept.text


KEPT = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
import tracejury
assert tracejury.init() is False
assert not hasattr(trace.get_tracer_provider(), "add_span_processor")
mine = TracerProvider()
trace.set_tracer_provider(mine)
assert tracejury.init(url={url!r}) and tracejury.init(url={url!r} + "/")
assert trace.get_tracer_provider() is mine
with trace.get_tracer("mine").start_as_current_span("kept") as span:
    print(f"{{span.get_span_context().trace_id:032x}}")
"""


def test_a_provider_that_is_there_is_kept(python: str, server: Offline) -> None:
    """It sends to the server too, once however often it is asked; without a URL nothing changes."""
    command = [python, "-c", KEPT.format(url=server.url)]
    done = subprocess.run(command, env=bare(), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    trace_id = done.stdout.strip()
    kept = until(partial(server.answer, "GET", f"traces/{trace_id}"), lambda answer: answer.is_success)
    assert "kept" in kept.text
