"""Values that tasks and evaluators return and raise: none costs an item or the run."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.offline import Offline, an_offline_server
from tracejury import Client, Dataset, Example, Experiment, Measured, Score, TaskFailed


class Fails:
    """An object whose every operation raises."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __repr__(self) -> str:
        raise self._error

    __str__ = __repr__


class BadMap(dict[str, Any]):
    """A mapping that cannot be read."""

    def items(self) -> Any:
        """Raise an error."""
        raise RuntimeError


class BadList(list[Any]):
    """A list that cannot be read."""

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError


class TimedOut(Exception):
    """An error with a very long text."""

    def __str__(self) -> str:
        return "e" * (9 << 20)


def in_itself() -> Any:
    """Return a mapping that holds itself twice."""
    value: dict[str, Any] = {}
    return value | {"a": value.setdefault("self", value), "b": value}


def nested(levels: int) -> Any:
    """Return lists in each other."""
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def without_end() -> Iterator[int]:
    """Yield for ever."""
    while True:
        yield 1


def raising(error: BaseException) -> Callable[[], Any]:
    """Return what raises an error."""

    def raised() -> Any:
        raise error

    return raised


OUTPUTS: Mapping[str, Callable[[], Any]] = {
    "set": lambda: {1},
    "bytes": lambda: b"\xff",
    "NaN": lambda: {"output": float("nan")},
    "a text that raises": lambda: Fails(RuntimeError),
    "a text that exits": lambda: Fails(SystemExit),
    "a mapping that raises": lambda: BadMap(a=1),
    "a list that raises": lambda: BadList([1]),
    "in itself": in_itself,
    "deep": lambda: nested(400),
    "very deep": lambda: nested(100_000),
    "a long number": lambda: 10**5000,
    "without end": without_end,
    "keys that are not texts": lambda: {None: 1, (1, 2): 3},
    "half a pair": lambda: "\ud800",
}
ERRORS: Mapping[str, Callable[[], Any]] = {
    "a negative number": lambda: Measured("x", tokens_in=-1),
    "half a token": lambda: Measured("x", tokens_out=1.5),  # type: ignore[arg-type]
    "NaN tokens": lambda: Measured("x", cost_usd=float("nan")),
    "tokens as text": lambda: Measured("x", tokens_in="12"),  # type: ignore[arg-type]
    "more than is stored": lambda: Measured("x", tokens_in=1 << 60),
    "a long error": raising(TimedOut()),
    "an error that exits": raising(ValueError(Fails(SystemExit))),
    "a failure with anything": raising(TaskFailed(Fails(RuntimeError), "", in_itself())),  # type: ignore[arg-type]
    "a failure with a text": raising(TaskFailed("k" * 1000, "m", "outputs")),  # type: ignore[arg-type]
}
SCORES: Mapping[str, Any] = {
    "threshold": Score(0.5, threshold="x"),  # type: ignore[arg-type]
    "NaN threshold": Score(0.5, threshold=float("nan")),
    "direction": Score(0.5, direction="sideways"),  # type: ignore[arg-type]
    "passed": Score(0.5, passed="yes"),  # type: ignore[arg-type]
    "metadata": Score(0.5, metadata="x"),  # type: ignore[arg-type]
    "cost": Score(0.5, cost_usd=-1),
    "more than is stored": 1e308,
    "text": "good",
    "long integer": 10**400,
}
GOOD_SCORES: Mapping[str, Any] = {
    "version": Score(0.5, version=3),  # type: ignore[arg-type]
    "blank name": Score(0.5, name="  "),
    "long name": Score(0.5, name="n" * 1000),
    "long reason": Score(0.5, reason="r" * (9 << 20)),
    "any reason": Score(0.5, reason={"a": 1}),  # type: ignore[arg-type]
    "label": Score(0.5, label=5),  # type: ignore[arg-type]
    "metadata in itself": Score(0.5, metadata={"a": in_itself()}),
    "True": Score(value=True),
}


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Start one server for all tests."""
    with an_offline_server(tmp_path_factory.mktemp("values") / "data") as server:
        yield server


@pytest.fixture(name="run")
def runs(server: Offline, tmp_path: Path) -> Iterator[Callable[..., Mapping[str, Any]]]:
    """Return what runs an experiment over names, and returns the run that the server has."""
    client = Client(server.url, patience_s=0)

    def run(names: Mapping[str, Any], task: Callable[[Example], Any], judge: Callable[..., Any]) -> Mapping[str, Any]:
        dataset = Dataset("odd", [Example(id=name, inputs={"input": name}) for name in ["good", *names]])
        result = Experiment("odd", dataset, task, [judge], client=client, spool=tmp_path).run()
        assert (result.lost_items, len(result.items)) == (0, len(names) + 1)
        run_document: Mapping[str, Any] = server.ask("GET", f"runs/{result.run_id}")
        assert (run_document["totalItems"], run_document["status"]) == (len(names) + 1, "SUCCESS")
        return run_document

    yield run
    client.close()


def always(_example: Example, _outputs: Any) -> float:
    """Score 1."""
    return 1.0


def test_outputs_that_are_no_json_are_stored_as_near_as_it_goes(run: Callable[..., Mapping[str, Any]]) -> None:
    """Whatever a task returns, its item is on the server with its score, and can be read there."""
    result = run(OUTPUTS, lambda example: OUTPUTS.get(example.input, lambda: "x")(), always)
    assert result["passedItems"] == len(OUTPUTS) + 1


def test_whatever_a_task_raises_or_measures_is_an_error_of_its_item(run: Callable[..., Mapping[str, Any]]) -> None:
    """Numbers that cannot be stored, errors without a text and with a very long one are those of one item."""
    result = run(ERRORS, lambda example: ERRORS.get(example.input, lambda: "x")(), always)
    assert (result["errorItems"], result["passedItems"]) == (len(ERRORS), 1)


def test_a_score_that_is_none_is_a_failed_evaluation(run: Callable[..., Mapping[str, Any]]) -> None:
    """A threshold, a direction, a verdict or a number that is none fails its evaluation, and loses no item."""
    result = run(SCORES, lambda _: "x", lambda example, _: SCORES.get(example.input, 1.0))
    assert (result["notEvaluatedItems"], result["passedItems"]) == (len(SCORES), 1)


def test_what_an_evaluator_says_of_a_score_is_stored_as_text(run: Callable[..., Mapping[str, Any]]) -> None:
    """Names, reasons and labels are cut to what a server takes, and are texts."""
    result = run(GOOD_SCORES, lambda _: "x", lambda example, _: GOOD_SCORES.get(example.input, 1.0))
    assert result["passedItems"] == len(GOOD_SCORES) + 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_task_that_hangs_delays_no_other(parallelism: int) -> None:
    """A function that is late costs its item, and none that is run after it; the run does not wait for it."""
    release, ran = threading.Event(), []

    def task(example: Example) -> Any:
        ran.append(example.input)
        if example.input < parallelism:
            release.wait()
        return example.input

    dataset = Dataset("slow", [Example(id=str(number), inputs={"input": number}) for number in range(12)])
    result = Experiment("slow", dataset, task, [always], timeout_s=0.3, parallelism=parallelism).run()
    release.set()
    assert [item.error_kind for item in result.items[:parallelism]] == ["timeout"] * parallelism
    assert (result.count("passed"), len(ran)) == (12 - parallelism, 12)


def test_threads_of_tasks_are_used_again_and_end(server: Offline) -> None:
    """As many threads run as there are calls at a time, and none is left when the run has ended."""
    del server
    threads = set()

    def task(_example: Example) -> str:
        threads.add(threading.get_ident())
        time.sleep(0.001)
        return "x"

    dataset = Dataset("many", [Example(id=str(number)) for number in range(60)])
    assert Experiment("many", dataset, task, [always], parallelism=3).run().pass_rate == 1
    assert len(threads) <= 3
    assert asyncio.run(Experiment("many", dataset, task, [always]).run_async()).pass_rate == 1
    left = [each for each in threading.enumerate() if each.name == "tracejury-task"]
    for each in left:
        each.join(30)
    assert not any(each.is_alive() for each in left)
