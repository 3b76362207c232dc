"""Experiments during an outage or a restart of the server, and tasks that end the program: nothing is lost."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.live import ANY_PORTS, PATIENCE_S, Live, a_live_server
from tests.serving import unused_port
from tracejury import Client, Dataset, Example, Experiment, LostItems, Score, replay
from tracejury.reporter import default_spool

ITEMS = 30


@pytest.fixture(autouse=True)
def a_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep spools out of the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def exact(example: Example, outputs: dict[str, Any]) -> bool:
    """Score whether the output is right."""
    return bool(outputs["output"] == example.input)


def dataset() -> Dataset:
    """Return examples that are to be repeated."""
    return Dataset("echo", [Example(id=str(number), inputs={"input": number}) for number in range(ITEMS)])


@pytest.fixture(name="client_of")
def clients() -> Iterator[Callable[..., Client]]:
    """Return what makes clients, which are closed after the test."""
    with ExitStack() as stack:
        yield lambda url, **more: stack.enter_context(closing(Client(url, **more)))


class Restarting:
    """A server that is stopped and started again at one address."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = unused_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def serve(self) -> Any:
        """Start it."""
        return a_live_server(self.data, flags=(*ANY_PORTS[:4], "--http", f"127.0.0.1:{self.port}"))


def runs(server: Live) -> Any:
    """Return how the runs are, with their items."""
    return server.sql("SELECT status, items, passed FROM runs ORDER BY started_at")


def test_a_restart_during_a_run_loses_nothing(tmp_path: Path, client_of: Callable[..., Client]) -> None:
    """The server is unavailable for some seconds, and has each item once; the run is a success."""
    where = Restarting(tmp_path / "data")
    is_away, is_back = threading.Event(), threading.Event()

    def restart() -> None:
        with where.serve():
            is_up.set()
            assert in_the_middle.wait(PATIENCE_S)
        is_away.set()
        time.sleep(3)
        with where.serve() as server:
            is_back.set()
            assert is_over.wait(PATIENCE_S)
            items.extend(runs(server))

    def task(example: Example) -> Any:
        if example.input == ITEMS // 3:
            in_the_middle.set()
            assert is_away.wait(PATIENCE_S)
        return example.input

    items: list[Any] = []
    is_up, in_the_middle, is_over = threading.Event(), threading.Event(), threading.Event()
    thread = threading.Thread(target=restart)
    thread.start()
    assert is_up.wait(PATIENCE_S)
    result = Experiment("restarted", dataset(), task, [exact], client=client_of(where.url)).run()
    is_over.set()
    thread.join()
    assert (result.lost_items, is_back.is_set(), items) == (0, True, [["SUCCESS", ITEMS, ITEMS]])


def test_a_run_during_a_longer_outage_is_delivered_before_it_ends(
    tmp_path: Path, client_of: Callable[..., Client]
) -> None:
    """Items that were given up as the server stayed away are sent once it is back, and the run begins late."""
    where = Restarting(tmp_path / "data")
    server: Any = None

    def task(example: Example) -> Any:
        nonlocal server
        if example.input == ITEMS // 2:
            time.sleep(1)  # the first half is given up meanwhile
            server = where.serve()
            server.__enter__()
        return example.input

    try:
        client = client_of(where.url, patience_s=0)
        result = Experiment("late", dataset(), task, [exact], client=client).run()
        assert (result.lost_items, result.run_id is None) == (0, False)
        assert client_of(where.url).get(f"/runs/{result.run_id}")["passedItems"] == ITEMS
    finally:
        with suppress(AttributeError):
            server.__exit__(None, None, None)


def test_a_server_that_stays_away_loses_nothing_silently(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, client_of: Callable[..., Client]
) -> None:
    """Items are counted, logged, handed over and kept; the next run sends them, with their run and how it ended."""
    where = Restarting(tmp_path / "data")
    lost: list[tuple[int, int]] = []
    client = client_of(where.url, patience_s=0)
    experiment = Experiment("away", dataset(), lambda example: example.input, [exact], client=client)
    experiment.on_lost = lambda _run, count, items: lost.append((count, len(items)))
    with caplog.at_level(logging.WARNING):
        result = experiment.run()
    assert (result.run_id, result.lost_items, result.spooled_items) == (None, ITEMS, ITEMS)
    assert [sum(each) for each in zip(*lost, strict=True)] == [ITEMS, ITEMS]
    assert f"{ITEMS} items of the run" in caplog.text
    assert f"are kept in {default_spool(client)}" in caplog.text
    experiment.spool = None
    with pytest.raises(LostItems) as gone:
        experiment.run()
    assert (gone.value.result.lost_items, len(gone.value.result.items)) == (ITEMS, ITEMS)
    with where.serve() as server:
        assert experiment.run().lost_items == 0
        experiment.spool = True
        assert experiment.run().lost_items == 0
        assert runs(server) == [["SUCCESS", ITEMS, ITEMS]] * 3
        assert list(default_spool(client).glob("*.ndjson")) == []
        assert replay(client=client) == 0


@pytest.mark.timeout(60)
@pytest.mark.parametrize("when", ["at the start", "later"])
def test_an_interrupted_run_does_not_wait_for_the_server(
    tmp_path: Path, when: str, client_of: Callable[..., Client]
) -> None:
    """However patient the client is, an interrupted run ends at once, and its finished items are in the spool."""
    where = Restarting(tmp_path / "data")
    client = client_of(where.url, patience_s=3_600)
    reached = asyncio.Event()

    async def task(example: Example) -> Any:
        if example.input == 3:
            reached.set()
            await asyncio.sleep(3_600)
        return example.input

    async def interrupted() -> None:
        experiment = Experiment("stopped", dataset(), task, [exact], client=client)
        with where.serve() if when == "later" else nullcontext():
            running = asyncio.ensure_future(experiment.run_async())
            if when == "later":
                await reached.wait()
        await asyncio.sleep(1.5)  # requests fail meanwhile
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(interrupted())
    kept = [each.read_text() for each in default_spool(client).glob("failed-items.ndjson")]
    assert all('"CANCELLED"' in each for each in kept)
    assert len(kept) == int(when == "later")


class Unprintable(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    "raised",
    [asyncio.CancelledError(), SystemExit(3), Unprintable(), TimeoutError(), GeneratorExit(), StopIteration()],
    ids=lambda raised: type(raised).__name__,
)
def test_what_one_task_or_evaluator_raises_fails_its_item_only(raised: BaseException, kind: str) -> None:
    """Errors that would end a program or the run, and errors that cannot be printed, are those of one item."""

    def task(example: Example) -> Any:
        if example.input == 1:
            raise raised
        return example.input

    async def async_task(example: Example) -> Any:
        return task(example)

    def broken(example: Example, _outputs: Any) -> Score:
        if example.input == 2:
            raise raised
        return Score(value=1)

    result = Experiment("raising", dataset(), async_task if kind == "async" else task, [broken]).run()
    assert (result.count("passed"), result.count("error"), result.count("not_evaluated")) == (ITEMS - 2, 1, 1)
    assert type(raised).__name__ in str(result.items[1].error)
    assert type(raised).__name__ in str(result.items[2].scores[0].error)
