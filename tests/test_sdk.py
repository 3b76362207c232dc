"""The SDK against the real server: datasets, experiments, and items during an outage of the server."""

import asyncio
import json
import math
import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from collector.gating.results import read_results
from rules.statistics.runs.records import FAILED, SKIPPED
from tests.offline import Offline, an_offline_server, lines
from tests.serving import unused_port
from tracejury import (
    Client,
    Dataset,
    DatasetNotFound,
    Example,
    Experiment,
    LostItems,
    Measured,
    Refused,
    RunEnded,
    Score,
    Unreachable,
    evaluator,
    replay,
)
from tracejury.reporter import default_spool

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/datasets",
    "collector/experiments",
    "collector/gating",
    "rules/statistics",
    "sdk/python/src",
    "storage/offline",
    "storage/views",
)

CASES = [{"id": str(number), "input": number, "expectedOutput": number * 2} for number in range(6)]


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield one server for all, with a dataset of one version."""
    with an_offline_server(tmp_path_factory.mktemp("sdk") / "data") as server:
        server.dataset()
        server.version(*CASES)
        yield server


@pytest.fixture(autouse=True)
def a_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep spools out of the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture(name="client")
def a_client(server: Offline) -> Iterator[Client]:
    """Yield a client that waits for nothing."""
    client = Client(server.url, patience_s=0)
    yield client
    client.close()


@pytest.fixture(name="dataset")
def from_the_server(client: Client, tmp_path: Path) -> Dataset:
    """Return the version of the server."""
    return Dataset.load("dataset://qa@1", client=client, cache=tmp_path)


def doubled(example: Example) -> dict[str, Any]:
    """Double a number, except 3: the task of most tests."""
    return {"output": example.input * 2 if example.input != 3 else 7}


def exact(example: Example, outputs: dict[str, Any]) -> bool:
    """Compare the output with the expectation."""
    return bool(outputs["output"] == example.expected_output)


def away() -> Client:
    """Return a client of an unreachable server."""
    return Client(f"http://127.0.0.1:{unused_port()}", patience_s=0)


def test_an_experiment_is_reported_item_by_item(server: Offline, client: Client, dataset: Dataset) -> None:
    """The server has each item with its score, the version of the dataset, and the run has ended."""
    result = Experiment("sdk", dataset, doubled, [exact], project="shop", trials=2, client=client, parallelism=3).run()
    assert result.pass_rate == pytest.approx(5 / 6, abs=1e-6)
    assert (len(result.items), result.lost_items) == (12, 0)
    assert result.average_score("exact") == pytest.approx(5 / 6)
    assert result.score_std_dev("exact") == 0
    run_document = server.ask("GET", f"runs/{result.run_id}")
    assert (run_document["status"], run_document["datasetVersion"], run_document["trials"]) == ("SUCCESS", 1, 2)
    assert (run_document["totalItems"], run_document["caseCount"], run_document["passedItems"]) == (12, 6, 10)
    assert {each["datasetItemId"] for each in run_document["items"]["content"]} == {str(number) for number in range(6)}


def test_results_stand_in_the_order_of_the_dataset(dataset: Dataset) -> None:
    """However long each takes, and however many run at a time; never more than were allowed."""
    running, most = 0, 0

    async def task(example: Example) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05 if example.input % 2 else 0)
        running -= 1
        return example.input * 2

    result = Experiment("order", dataset, task, [exact], parallelism=2).run()
    assert [item.example.input for item in result.items] == list(range(6))
    assert (result.pass_rate, most) == (1.0, 2)
    assert result.run_id is None


def test_what_raises_costs_no_other_result(server: Offline, client: Client, dataset: Dataset) -> None:
    """A task that raises is an error, an evaluator that raises a failure, and the other scores of its item stay."""

    def task(example: Example) -> Measured:
        if example.input == 1:
            raise ValueError("no")
        return Measured({"output": 0}, tokens_in=3, cost_usd=0.5)

    def broken(_example: Example, _outputs: Any) -> float:
        raise RuntimeError("judge is down")

    result = Experiment("broken", dataset, task, [exact, broken], project="shop", client=client).run()
    assert result.items[1].error == "ValueError: no"
    run_document = server.ask("GET", f"runs/{result.run_id}")
    assert (run_document["errorItems"], run_document["notEvaluatedItems"], run_document["notPassedItems"]) == (1, 5, 0)
    assert (run_document["pricedItemCount"], run_document["costUsd"]) == (5, 2.5)
    by_name = {each["evaluatorName"]: each for each in run_document["evaluators"]}
    assert (by_name["broken"]["failedCount"], by_name["exact"]["scoredCount"]) == (5, 5)
    assert [result.count(each) for each in ("error", "not_evaluated", "not_passed")] == [1, 5, 0]
    assert result.pass_rate is run_document["passRate"] is None
    unknown = Experiment("broken", dataset, doubled, [broken], trials=2).run()
    assert (unknown.pass_rate, unknown.pass_hat(2)) == (None, None)


def test_a_task_that_takes_too_long_is_an_error(dataset: Dataset) -> None:
    """The time is over for it alone."""

    async def task(example: Example) -> Any:
        await asyncio.sleep(60 if example.input == 2 else 0)
        return example.input * 2

    result = Experiment("slow", dataset, task, [exact], timeout_s=0.5, parallelism=6).run()
    assert [item.error_kind for item in result.items] == [None, None, "timeout", None, None, None]


def test_evaluators_say_what_they_are(dataset: Dataset) -> None:
    """Names, thresholds, directions, several scores at once, and nothing to judge."""

    @evaluator(name="Closeness", threshold=0.9)
    def close(_example: Example, _outputs: Any) -> float:
        return 0.8

    def several(_example: Example, _outputs: Any) -> list[Score]:
        return [Score(value=0.1, threshold=0.2, direction="lower", name="errors"), Score(name="none")]

    result = Experiment("said", dataset, doubled, [close, several]).run()
    passed = {score.name: score.success for score in result.items[0].scores}
    assert passed == {"Closeness": False, "errors": True, "none": None}


def test_an_interrupted_run_goes_on(server: Offline, client: Client, dataset: Dataset) -> None:
    """With a key, items that the run has are not run again, and each is there once."""
    begun = {"experimentName": "resumed", "runKey": "k", "datasetName": "qa", "datasetVersion": 1}
    run = server.ask("POST", "projects/shop/runs", 201, json=begun)["runId"]
    server.report(run, *({"itemKey": str(number), "trial": 1} for number in range(4)))
    again = Experiment("resumed", dataset, doubled, [exact], project="shop", run_key="k", client=client).run()
    assert (again.run_id, again.skipped, len(again.items)) == (run, 4, 6)
    assert [item.key for item in again.items] == [str(number) for number in range(6)]
    assert again.items[0].scores == []
    assert server.ask("GET", f"runs/{run}")["totalItems"] == 6


def test_items_that_cannot_be_delivered_are_kept_and_sent_later(
    server: Offline, client: Client, dataset: Dataset, tmp_path: Path
) -> None:
    """Lost items are counted, passed to the callback and spooled, and replayed ones are stored once."""
    reported: list[int] = []
    lost = Experiment("lost", dataset, doubled, [exact], project="shop", client=client, spool=tmp_path / "spool")
    lost.on_lost = lambda _run, count, _items: reported.append(count)
    send = client.send

    def refusing(method: str, path: str, body: Any, *, key: str | None = None) -> Any:
        if path.endswith("/items"):
            raise Unreachable("away")
        return send(method, path, body, key=key)

    client.send = refusing  # type: ignore[method-assign] # the wire is cut here
    result = lost.run()
    client.send = send  # type: ignore[method-assign] # and mended
    assert (result.lost_items, sum(reported)) == (6, 6)
    assert server.ask("GET", f"runs/{result.run_id}")["totalItems"] == 0
    assert replay(tmp_path / "spool", client) == 6
    assert replay(tmp_path / "spool", client) == 0
    run_document = server.ask("GET", f"runs/{result.run_id}")
    assert (run_document["passedItems"], run_document["status"]) == (5, "SUCCESS")
    lost.fail_on_lost = True
    client.send = refusing  # type: ignore[method-assign] # and cut again
    with pytest.raises(LostItems, match="6 items"):
        lost.run()


def test_without_a_server_an_experiment_runs_all_the_same(dataset: Dataset) -> None:
    """A server that is unavailable when a run begins costs no result, unless that was to be an error."""
    experiment = Experiment("alone", dataset, doubled, [exact], client=away())
    assert experiment.run().pass_rate == pytest.approx(5 / 6, abs=1e-6)
    experiment.spool = None
    with pytest.raises(LostItems, match="6 items"):
        experiment.run()
    experiment.fail_on_lost = True
    with pytest.raises(Unreachable):
        experiment.run()


def test_a_numbered_version_is_pinned_through_an_outage(client: Client, tmp_path: Path) -> None:
    """A numbered version is read from the cache if the server is unavailable; `latest` is not, and a 404 is raised."""
    pinned = Dataset.load("dataset://qa@1", client=client, cache=tmp_path)
    assert (pinned.version, len(pinned)) == (1, 6)
    latest = Dataset.load("dataset://qa@latest", client=client, cache=tmp_path)
    assert latest.version == 1
    assert list(Dataset.load("dataset://qa@1", client=away(), cache=tmp_path)) == list(pinned)
    with pytest.raises(Unreachable):
        Dataset.load("dataset://qa@latest", client=away(), cache=tmp_path)
    with pytest.raises(Refused) as error:
        Dataset.load("dataset://qa@9", client=client, cache=tmp_path)
    assert error.value.status == 404
    with pytest.raises(ValueError, match="the version is a number"):
        Dataset.load("dataset://qa", client=client)


def test_without_a_url_files_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`dataset://` is skipped, and if no source is left the error has the reason for each."""
    monkeypatch.delenv("TRACEJURY_URL", raising=False)
    file = tmp_path / "cases.jsonl"
    file.write_text("\ufeff" + lines(*CASES) + "\n", encoding="utf-8")
    assert len(Dataset.load("dataset://qa@1", file)) == 6
    with pytest.raises(DatasetNotFound, match=r"TRACEJURY_URL names no server; .*no such file"):
        Dataset.load("dataset://qa@1", tmp_path / "none.json")


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_what_the_server_exports_is_read(server: Offline, form: str, tmp_path: Path) -> None:
    """Files of simple and of complex examples are read, and an error names its line."""
    file = tmp_path / f"cases.{form}"
    simple = {"json": json.dumps({"name": "n", "examples": CASES}), "jsonl": lines(*CASES)}
    file.write_text(simple.get(form, "ID,Input,output,level\n1,a,b,c\n"), encoding="utf-8")
    first = Dataset.load(file)[0]
    assert (first.input, first.expected_output) == (("a", "b") if form == "csv" else (0, 0))
    if form != "csv":
        file.write_bytes(server.exported(form))
        assert [each.inputs for each in Dataset.load(file)] == [{"input": number} for number in range(6)]
    file.write_text({"json": '{"examples": [{}]}', "jsonl": '{"input": 1}\n{', "csv": "a\n"}[form], encoding="utf-8")
    with pytest.raises(ValueError, match=r"line [12]|example 1"):
        Dataset.load(file)


def test_each_item_is_linked_to_its_trace(server: Offline, client: Client, dataset: Dataset) -> None:
    """The task runs inside of a span, in whatever thread, and the item names its trace."""
    trace.set_tracer_provider(TracerProvider())
    seen: dict[Any, str] = {}
    lock = threading.Lock()

    def task(example: Example) -> Any:
        with lock:
            seen[str(example.input)] = f"{trace.get_current_span().get_span_context().trace_id:032x}"
        return example.input * 2

    result = Experiment("traced", dataset, task, [exact], project="shop", client=client, parallelism=4).run()
    items = server.ask("GET", f"runs/{result.run_id}")["items"]["content"]
    assert {each["datasetItemId"]: each["traceId"] for each in items} == seen
    assert len(set(seen.values())) == 6


@pytest.mark.parametrize(
    "wrong", [{"dataset": Dataset("none", [])}, {"evaluators": []}, {"trials": 0}, {"parallelism": 0}]
)
def test_what_cannot_be_run_is_refused_at_once(dataset: Dataset, wrong: dict[str, Any]) -> None:
    """An empty dataset, no evaluator, no trial, nothing at a time."""
    right: dict[str, Any] = {"name": "x", "dataset": dataset, "task": doubled, "evaluators": [exact]}
    with pytest.raises(ValueError, match=r"empty|evaluator|trials"):
        Experiment(**(right | wrong))


def test_a_run_with_a_key_can_be_interrupted_and_goes_on(server: Offline, client: Client, dataset: Dataset) -> None:
    """An interrupted run stays open, answered items are not asked again, and the result is that of the whole run."""
    requested: list[Any] = []

    def task(example: Example) -> Any:
        requested.append(example.input)
        if len(requested) == 4:
            raise KeyboardInterrupt
        return doubled(example)

    experiment = Experiment("interrupted", dataset, task, [exact], project="shop", run_key="i", client=client)
    with pytest.raises(KeyboardInterrupt):
        experiment.run()
    result = experiment.run()
    assert (requested, result.skipped) == ([0, 1, 2, 3, 3, 4, 5], 3)
    assert result.pass_rate == pytest.approx(5 / 6, abs=1e-6)
    run_document = server.ask("GET", f"runs/{result.run_id}")
    assert (run_document["status"], run_document["totalItems"], run_document["passedItems"]) == ("SUCCESS", 6, 5)


def test_a_run_that_is_over_does_not_go_on(server: Offline, client: Client, dataset: Dataset) -> None:
    """Going on with a run that was cancelled is an error before anything runs."""
    run = server.ask("POST", "projects/shop/runs", 201, json={"experimentName": "over", "runKey": "o"})["runId"]
    server.end(run, "CANCELLED")
    with pytest.raises(RunEnded, match="is CANCELLED"):
        Experiment("over", dataset, doubled, [exact], project="shop", run_key="o", client=client).run()


def test_what_is_no_json_is_reported_as_near_as_it_goes(server: Offline, client: Client, dataset: Dataset) -> None:
    """Models, dates, sets, the application's own objects and a score of NaN lose no item."""

    def task(example: Example) -> Any:
        return {"output": {example.input}, "at": date(2026, 1, 2), "mine": Client, "nan": math.nan, "half": "\ud800"}

    def undefined(_example: Example, _outputs: Any) -> float:
        return math.nan

    result = Experiment("odd", dataset, task, [undefined], project="shop", client=client).run()
    assert result.lost_items == 0
    run_document = server.ask("GET", f"runs/{result.run_id}")
    output = run_document["items"]["content"][1]["actualOutput"]
    assert output == {"output": [1], "at": "2026-01-02", "mine": str(Client), "nan": "nan", "half": "?"}
    assert run_document["notEvaluatedItems"] == 6


def test_an_item_that_is_refused_costs_no_other(server: Offline, client: Client, dataset: Dataset) -> None:
    """Of a batch that the server refuses, only the invalid items are lost."""

    def task(example: Example) -> Any:
        return "x" * (9 << 20) if example.input == 4 else example.input * 2  # a request holds 8 MiB

    experiment = Experiment("refused", dataset, task, [exact], project="shop", client=client)
    with pytest.raises(LostItems, match="1 items of the run") as lost:
        experiment.run()
    result = lost.value.result
    assert (result.lost_items, result.spooled_items, len(result.items)) == (1, 0, 6)
    run_document = server.ask("GET", f"runs/{result.run_id}")
    assert (run_document["totalItems"], run_document["status"]) == (5, "SUCCESS")
    assert run_document["statusReason"] == "1 items could not be delivered"
    (refused,) = default_spool(client).glob("*.ndjson")
    assert (refused.name, '"error": "413' in refused.read_text()) == ("refused-items.ndjson", True)
    experiment.fail_on_lost = False
    assert experiment.run().lost_items == 1


def test_a_declared_version_is_told(server: Offline, client: Client, dataset: Dataset) -> None:
    """By it the server knows which scores are comparable."""
    judge = evaluator(name="versioned", version="7")(lambda _example, _outputs: 1.0)
    result = Experiment("versions", dataset, doubled, [judge], project="shop", client=client).run()
    (document,) = server.ask("GET", f"runs/{result.run_id}")["evaluators"]
    assert (document["evaluatorName"], document["version"]) == ("versioned", "7")


def test_results_are_what_the_gate_reads(tmp_path: Path) -> None:
    """Trials are grouped in order, with failures, skipped ones, and scores for which lower is better."""

    def answer(example: Example) -> Measured:
        if example.input == 3:
            raise ValueError("broken")
        return Measured({"output": example.input * 2}, cost_usd=0.5, latency_ms=7.0)

    def few(example: Example, outputs: dict[str, Any]) -> Score | None:
        del outputs
        return Score(value=2.0, threshold=1.0, direction="lower", version="3") if example.input else None

    data = Dataset("qa", [Example(id=str(number), inputs={"input": number}) for number in range(6)])
    result = Experiment(
        "gate", data, answer, evaluators=[lambda *_: True, few], trials=2, progress=lambda *_: None
    ).run()
    result.write(tmp_path / "results.json")
    read = read_results(tmp_path / "results.json", "auto")
    assert (read.experiment, read.pairing, len(read.run.items)) == ("gate", "dataset_item_id", 6)
    assert [(each.name, each.better, each.threshold, each.fingerprint) for each in read.run.evaluators] == [
        ("<lambda>", "higher", 0.5, None),
        ("few", "lower", 1.0, "3"),
    ]
    assert read.run.passed[0].tolist()[:3] == [[1.0, 1.0]] * 3
    assert read.run.passed[1].tolist()[1:3] == [[0.0, 0.0]] * 2
    assert read.run.outcomes[:, 3].tolist() == [[FAILED] * 2] * 2
    assert read.run.outcomes[1, 0].tolist()[0] == SKIPPED
    assert read.run.cost_usd is not None
    assert read.run.latency_ms is not None
    assert (read.run.cost_usd[0].tolist(), read.run.latency_ms[0].tolist()) == ([0.5, 0.5], [7.0, 7.0])


@pytest.mark.parametrize("trials", [1, 2])
def test_scores_that_passed_by_something_else_do_not_pass_by_a_threshold(tmp_path: Path, trials: int) -> None:
    """One that says itself that it passed keeps that with one trial; with several it is not known, and never wrong."""

    def generous(example: Example, outputs: dict[str, Any]) -> Score:
        del example, outputs
        return Score(value=0.2, passed=True, threshold=0.9)

    data = Dataset("qa", [Example(id="a", inputs={"input": 1})])
    result = Experiment("gate", data, doubled, evaluators=[generous], trials=trials, progress=lambda *_: None).run()
    result.write(tmp_path / "results.json")
    (passed,) = read_results(tmp_path / "results.json", "auto").run.passed[0].tolist()
    assert passed == [1.0] if trials == 1 else [math.isnan(each) for each in passed] == [True, True]
