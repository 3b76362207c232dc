"""Experiments from files: a command or an endpoint is run on each case, judged by name, and stored item by item."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
import yaml
from click.testing import CliRunner, Result

from collector.cli.main import main
from collector.experiment_runner.answers import ApplicationAnswer
from collector.experiment_runner.conductor import Conductor
from tests.model_server import CHAT, Hangs, ModelRequest, Says, Status, Step, a_model
from tests.offline import Offline, an_offline_server
from tests.serving import unused_port
from tracejury.dataset_text import ItemText

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/api_calls.py",
    "collector/cli",
    "collector/experiment_runner",
    "collector/datasets",
    "collector/evaluation",
    "collector/experiments",
    "evaluators",
    "sdk/python/src",
    "storage/offline",
)

CASES = [{"id": land, "input": land, "expectedOutput": city} for land, city in (("Norway", "Oslo"), ("Peru", "Lima"))]
PROGRAM = """
import json, os, sys
told = json.load(sys.stdin)
assert set(told) == {"id", "inputs", "metadata", "trial"}, told
assert os.environ["TRACEPARENT"].startswith("00-") and os.environ["GREETING"] == "hello"
assert os.environ["BAGGAGE"].startswith("tracejury.run.id=")
assert os.environ["OTEL_RESOURCE_ATTRIBUTES"].endswith(os.environ["BAGGAGE"])
land = told["inputs"]["input"]
if land == "Atlantis":
    sys.exit("it has sunk")
print(json.dumps({"output": {"Norway": "Oslo"}.get(land, "Paris"), "usage": {"in": 12, "usd": 0.25}}))
"""


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield one server for all, with the cases as a dataset."""
    with an_offline_server(tmp_path_factory.mktemp("files") / "data") as server:
        server.dataset("capitals")
        server.version(*CASES, name="capitals")
        yield server


def a_file(folder: Path, **plan: Any) -> Path:
    """Return the file of an experiment, with the program beside it."""
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    task = {"command": [sys.executable, "program.py"], "environment": {"GREETING": "hello"}}
    content = {
        "experiment": folder.name,
        "dataset": "dataset://capitals@1",
        "task": task,
        "evaluators": ["exact_match"],
    }
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(content | plan), encoding="utf-8")
    return file


def run(server: Offline | str, file: Path, *options: str) -> Result:
    """Run the command against a server or a URL."""
    url = server if isinstance(server, str) else server.url
    return CliRunner().invoke(main, ["experiments", "run", str(file), "--server", url, *options])


def shown(result: Result) -> dict[str, Any]:
    """Decode the run that a command printed as JSON."""
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_a_command_answers_each_case(server: Offline, tmp_path: Path) -> None:
    """A command reads each case without its expectation, and scores have the server's fingerprints."""
    file = a_file(tmp_path, trials=2, parallelism=2, metadata={"model": "m1"}, project="shop")
    result = run(server, file, "--json", "--git-branch", "main")
    document = shown(result)
    assert (document["status"], document["totalItems"], document["passedItems"]) == ("SUCCESS", 4, 2)
    assert (document["datasetVersion"], document["trials"], document["config"]) == (1, 2, {"model": "m1"})
    (item,) = (each for each in document["items"]["content"] if each["itemKey"] == "Norway" and each["trial"] == 1)
    assert (item["input"], item["expectedOutput"]) == ({"input": "Norway"}, {"output": "Oslo"})
    assert item["actualOutput"]["output"] == "Oslo"
    (score,) = item["evalResults"]
    server.ask("POST", f"runs/{document['id']}/evaluations", 201, json={"evaluator": "exact_match", "name": "again"})
    stored = wait_for(server, document["id"])
    both = {each["evaluatorName"]: each["fingerprint"] for each in stored["evaluators"]}
    assert len(both) == 2
    assert set(both.values()) == {score["fingerprint"]}


def wait_for(server: Offline, run_id: str) -> dict[str, Any]:
    """Return the run once the server's evaluators are done."""
    for _ in range(600):
        run_document: dict[str, Any] = server.ask("GET", f"runs/{run_id}")
        if run_document["status"] != "EVALUATING":
            return run_document
        time.sleep(0.1)
    raise AssertionError("the server evaluates for ever")


def test_what_fails_is_told_apart(server: Offline, tmp_path: Path) -> None:
    """A command that fails is an error of its item and costs no other; cases of a file are sent as they are."""
    lines = [json.dumps(each) for each in [*CASES, {"input": "Atlantis", "metadata": {"level": 3}}]]
    (tmp_path / "cases.jsonl").write_text("\n".join(lines), encoding="utf-8")
    task = {"command": [sys.executable, "program.py"], "environment": {"GREETING": "hello"}}
    task |= {"output": "/output", "tokensIn": "/usage/in", "costUsd": "/usage/usd"}
    result = run(server, a_file(tmp_path, dataset="cases.jsonl", task=task), "--json", "--min-pass-rate", "0.3")
    document = shown(result)
    assert (document["passedItems"], document["notPassedItems"], document["errorItems"]) == (1, 1, 1)
    assert (document["costUsd"], document["tokenizedItemCount"], document["datasetName"]) == (0.5, 2, None)
    (failed,) = (each for each in document["items"]["content"] if each["outcome"] == "error")
    assert (failed["errorKind"], failed["metadata"]) == ("task", {"level": 3})
    assert "it has sunk" in failed["error"]
    assert failed["itemKey"].startswith("item-")
    output = CliRunner().invoke(main, ["experiments", "runs", "default", tmp_path.name, "--server", server.url]).stdout
    assert "$0.50" in output
    output = CliRunner().invoke(main, ["experiments", "show", document["id"], "--server", server.url]).stdout
    assert "cost $0.50 (2/3 items priced)" in output or "cost $0.50" in output
    assert " 0.500 " in output  # the mean of the evaluator
    unknown = run(server, tmp_path / "experiment.yaml", "--min-pass-rate", "0.5")
    assert (unknown.exit_code, "1 item could not be judged" in unknown.stderr) == (3, True)
    below = run(server, tmp_path / "experiment.yaml", "--min-pass-rate", "0.6")
    assert (below.exit_code, "50.0% of 2 judged items passed" in below.stderr) == (1, True)


def test_a_run_of_which_nothing_was_judged_is_no_success(server: Offline, tmp_path: Path) -> None:
    """The exit code is 3 with and without a rate, the reason is shown, and pass^k of no verdicts is not 0 %."""
    judge = {"evaluator": "llm_judge", "config": {"criteria": "right?", "evaluationParams": ["INPUT"]}}
    file = a_file(tmp_path, evaluators=[judge], trials=2)
    with a_model(Status(400)) as model:
        options = ("--judge-base-url", model.base_url, "--judge-model", "m")
        results = [run(server, file, *options, *more) for more in ((), ("--min-pass-rate", "0.5"))]
    for result in results:
        assert result.exit_code == 3, result.output
        assert "none of 4 items was judged: 0 errors, 4 without a verdict, 0 not judged" in result.stderr
        assert "LLM Judge: status 400" in result.stdout
        assert "pass^" not in result.stdout
    task = {"command": [sys.executable, "-c", "raise SystemExit('down')"]}
    crashed = run(server, a_file(tmp_path, task=task))
    assert (crashed.exit_code, "none of 2 items was judged: 2 errors" in crashed.stderr) == (3, True)


def test_a_run_of_which_some_was_judged_is_whole_and_not_known_to_pass(server: Offline, tmp_path: Path) -> None:
    """Some failed calls of a judge cost no success by themselves, and leave a minimum that is met unknown."""

    def script(request: ModelRequest) -> Step:
        return Status(400) if "Peru" in request.user else Says({"score": 1, "reason": "right"})

    file = a_file(tmp_path, evaluators=[{"evaluator": "llm_judge", "config": {"criteria": "right?"}}])
    with a_model(script) as model:
        options = ("--judge-base-url", model.base_url, "--judge-model", "m")
        for more, code in (((), 0), (("--min-pass-rate", "0.5"), 0), (("--min-pass-rate", "0.6"), 3)):
            result = run(server, file, *options, *more)
            assert result.exit_code == code, result.output
            assert "1 of 1 judged items passed" in result.stdout


class Going(BaseHTTPRequestHandler):
    """A way to a server that closes every connection once a run has ended."""

    target: ClassVar[str] = ""
    is_gone: ClassVar[bool] = False

    def do_GET(self) -> None:
        """Pass a request on, unless the server is gone."""
        if Going.is_gone:
            return
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        kept = {name: value for name, value in self.headers.items() if name.lower() not in {"host", "content-length"}}
        answer = httpx.request(self.command, f"{Going.target}{self.path}", content=body, headers=kept, trust_env=False)
        Going.is_gone = self.command == "PATCH"
        self.send_response(answer.status_code)
        self.send_header("content-type", answer.headers.get("content-type", "application/json"))
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def do_POST(self) -> None:
        """Do the same."""
        self.do_GET()

    def do_PATCH(self) -> None:
        """Do the same, and be gone."""
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class gave it
        """Say nothing."""


def test_a_server_that_is_away_is_no_low_pass_rate(server: Offline, tmp_path: Path) -> None:
    """The exit code is 2 before the run and after it, when the message names the stored run."""
    result = run(f"http://127.0.0.1:{unused_port()}", a_file(tmp_path), "--min-pass-rate", "0.1")
    assert result.exit_code == 2, result.output
    Going.target, Going.is_gone = server.url, False
    with ThreadingHTTPServer(("127.0.0.1", 0), Going) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        result = run(f"http://127.0.0.1:{proxy.server_port}", a_file(tmp_path), "--min-pass-rate", "0.1")
        proxy.shutdown()
        thread.join()
    assert result.exit_code == 2, result.output
    assert "the run is stored; tracejury experiments show " in result.output.replace("\n", " ")


def test_an_endpoint_answers_each_case(server: Offline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The body holds the case at the configured place, a header comes from the environment, and an HTTP error fails."""

    def script(request: ModelRequest) -> Step:
        assert request.headers["authorization"] == "Bearer s3cret"
        assert request.headers["traceparent"].startswith("00-")
        assert request.headers["baggage"].startswith("tracejury.run.id=")
        return Says("Oslo", 31, 2) if "of Norway?" in request.user else Status(400)

    monkeypatch.setenv("MODEL_AUTHORIZATION", "Bearer s3cret")
    with a_model(script) as model:
        task = {
            "url": model.base_url.removesuffix("/v1") + CHAT,
            "headersFrom": {"authorization": "MODEL_AUTHORIZATION"},
            "body": {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "capital of {{input}}?"}]},
            "output": "/choices/0/message/content",
            "tokensIn": "/usage/prompt_tokens",
        }
        document = shown(run(server, a_file(tmp_path, task=task, linkTraces=True), "--json"))
    items = {each["itemKey"]: each for each in document["items"]["content"]}
    assert (items["Norway"]["outcome"], items["Norway"]["tokensIn"]) == ("passed", 31)
    assert len(items["Norway"]["traceId"]) == 32
    assert items["Peru"]["error"].startswith("HTTP 400: ")
    assert "s3cret" not in json.dumps(document)


def test_a_run_that_was_cut_off_goes_on(server: Offline, tmp_path: Path) -> None:
    """With its key, what the run has is not run again, also while the server evaluates; a cancelled one is refused."""
    begun = server.ask(
        "POST",
        "projects/default/runs",
        201,
        json={"experimentName": tmp_path.name, "runKey": "night", "datasetName": "capitals", "datasetVersion": 1},
    )
    server.report(begun["runId"], {"itemKey": "Norway", "actualOutputs": {"output": "Bergen"}})
    file = a_file(tmp_path)
    document = shown(run(server, file, "--json", "--run-key", "night"))
    assert (document["id"], document["totalItems"]) == (begun["runId"], 2)
    assert {"output": "Bergen"} in [each["actualOutput"] for each in document["items"]["content"]]
    assert shown(run(server, file, "--json", "--run-key", "night"))["totalItems"] == 2
    with a_model(Hangs()) as model:
        server.ask("POST", "llm-connections", 201, json={"name": "slow", "baseUrl": model.base_url, "model": "m"})
        evaluations = f"runs/{begun['runId']}/evaluations"
        evaluation = server.ask("POST", evaluations, 201, json={"criteria": "right?", "connectionId": "slow"})
        document = shown(run(server, file, "--json", "--run-key", "night"))
        assert (document["status"], document["totalItems"]) == ("EVALUATING", 2)
        server.ask("DELETE", f"{evaluations}/{evaluation['id']}", 204)
    ended = server.begin("default", experimentName=tmp_path.name, runKey="gone")
    server.end(ended, "CANCELLED")
    refused = run(server, file, "--run-key", "gone")
    assert (refused.exit_code, "is CANCELLED" in refused.output) == (2, True)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"task": {}}, "needs either a command or a url"),
        ({"task": {"url": "http://localhost/", "environment": {}}}, "environment: not used with a url"),
        ({"task": {"url": "http://localhost/", "headersFrom": {"a": "NO_SUCH_VARIABLE"}}}, "NO_SUCH_VARIABLE"),
        ({"evaluators": ["exact"]}, "exact"),
        ({"evaluators": ["exact_match", "exact_match"]}, "two evaluators are called"),
        ({"evaluators": ["llm_judge"]}, "criteria: is required"),
        ({"dataset": "dataset://capitals"}, "says no version"),
        ({"dataset": "dataset://capitals@9"}, "no version"),
        ({"dataset": "there-is-none.csv"}, "No such file"),
        ({"dataset": "cases.txt"}, "ends in none of"),
        ({"trials": 0}, "trials"),
        ({"parallel": 4}, "did you mean parallelism?"),
    ],
)
def test_what_cannot_be_run_is_told_before_it_begins(
    server: Offline, tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    """The message names the key, and no run is there."""
    result = run(server, a_file(tmp_path, **wrong))
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    listed = server.ask("GET", "projects/default/experiments")
    assert tmp_path.name not in {each["name"] for each in listed}


@pytest.mark.parametrize("content", ["a: [", "trials: 2026-13-45", "[" * 5_000])
def test_a_plan_that_is_not_yaml_is_refused(server: Offline, tmp_path: Path, content: str) -> None:
    """Neither a date that there is not, nor endless brackets, end the command with a traceback."""
    file = a_file(tmp_path)
    file.write_text(content, encoding="utf-8")
    result = run(server, file)
    assert (result.exit_code, "it is not YAML" in result.output) == (2, True), result.output


def test_a_line_that_is_wrong_is_named(server: Offline, tmp_path: Path) -> None:
    """A file of cases is read whole before anything runs."""
    (tmp_path / "cases.jsonl").write_text('{"input": 1}\n{"input"', encoding="utf-8")
    result = run(server, a_file(tmp_path, dataset="cases.jsonl"))
    assert (result.exit_code, "line 2: it is not JSON" in result.output) == (2, True)


def test_a_consumer_that_stops_ends_the_cases_though_many_wait() -> None:
    """Closing the iterator, as a failed delivery does, returns even if as many finished items wait as may."""

    async def task(*_: object) -> ApplicationAnswer:
        return ApplicationAnswer(outputs={})

    async def consume() -> None:
        cases = (
            (ItemText(item_id=str(number), inputs={}, expected_outputs={}, metadata={}), 1) for number in range(3_000)
        )
        conductor = Conductor(task=task, evaluators=(), parallelism=2, link_traces=False, is_stored=True)
        items = conductor.items(cases, "run")
        await anext(items)
        await asyncio.sleep(0.5)
        async with asyncio.timeout(20) as limit:
            await items.aclose()
        assert not limit.expired()

    asyncio.run(consume())
