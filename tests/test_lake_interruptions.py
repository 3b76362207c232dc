"""The lake has each row once after servers, the store or the network between them stood still for a while."""

import random
import shutil
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal, Self

import pytest

from tests.lake import Place, a_place, compare, lake_status, publish_all
from tests.live import Live, a_live_server, until
from tests.storing import a_store
from tests.test_lake import RULE, settings
from tests.traffic import Load

Fault = Literal["holds", "resets", "loses responses"]
Interruption = Callable[[], AbstractContextManager[None]]
TABLES = ("span", "log_record", "trace_part", "decision", "evaluation")


class Relay:
    """TCP connections to a port of this machine through another one, which fail as a network does."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._fault: Fault | None = None
        self._flows = threading.Event()
        self._flows.set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.lost = 0  # responses

    @property
    def url(self) -> str:
        """Return the URL that leads to the port."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for pair in self._pairs:
            _reset(*pair)

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        """Hold all bytes back, reset all connections, or reset each before its next response, during the block."""
        self._fault = fault
        if fault == "holds":
            self._flows.clear()
        if fault == "resets":
            for pair in list(self._pairs):
                _reset(*pair)
        try:
            yield
        finally:
            self._fault = None
            self._flows.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._fault == "resets":
                _reset(near)
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                _reset(near)
                continue
            self._pairs.append((near, far))
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, target, source is far), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, are_responses: bool) -> None:  # noqa: FBT001 - for a thread
        with suppress(OSError):
            while some := source.recv(1 << 16):
                self._flows.wait()
                if are_responses and self._fault == "loses responses":
                    self.lost += 1
                    break
                target.sendall(some)
        _reset(source, target)


def _reset(*connections: socket.socket) -> None:
    for connection in connections:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.shutdown(socket.SHUT_RDWR)  # which wakes the thread that reads from it
        connection.close()


@pytest.mark.timeout(900)
@pytest.mark.kill("storage/lake", "collector/live/upkeep", "storage/ingest")
@pytest.mark.parametrize("kind", ["file", "s3"])
def test_a_server_that_stood_still_publishes_each_row_once(kind: str, tmp_path: Path, seed: int, kills: int) -> None:
    """After pauses at any moment, and a long one, the lake has the rows of the database, none twice."""
    with a_place(kind, tmp_path / "place") as place:
        with a_publishing_server(tmp_path, place) as server:
            interrupt(server, server.paused, random.Random(seed), times=kills, longest_s=3 * kills, is_alive=False)
        check(tmp_path, place)


@pytest.mark.timeout(900)
@pytest.mark.kill("storage/lake", "collector/live/upkeep", "storage/ingest")
@pytest.mark.parametrize("fault", ["pauses", "holds", "resets", "loses responses"])
def test_a_store_that_stood_still_gets_each_row_once(
    fault: Fault | Literal["pauses"], tmp_path: Path, seed: int, kills: int
) -> None:
    """While the store or its network fails, spans are stored and judged; then the lake has each row, none twice."""
    with a_place("s3", tmp_path / "place") as place:
        assert place.store is not None
        with (
            Relay(place.store.port) as relay,
            a_publishing_server(tmp_path, place, AWS_ENDPOINT_URL=relay.url) as server,
        ):
            failing = place.store.paused if fault == "pauses" else partial(relay.failing, fault)
            longest_s = 3 * kills if fault == "pauses" else kills
            interrupt(server, failing, random.Random(seed), times=kills, longest_s=longest_s, is_alive=True)
            assert (relay.lost > 0) == (fault == "loses responses")
        check(tmp_path, place)


def test_a_server_on_a_copy_publishes_nothing(tmp_path: Path) -> None:
    """Beside the server of its original it stores spans and reports the copy; the lake has the original's rows."""
    with a_place("file", tmp_path / "place") as place:
        with a_publishing_server(tmp_path, place) as server:
            load(server, 1)
            wait_published(server)
        shutil.copytree(tmp_path / "data", tmp_path / "copy" / "data")
        with a_publishing_server(tmp_path, place) as server:
            load(server, 2)
            wait_published(server)
            with a_publishing_server(tmp_path / "copy", place) as other:
                load(other, 3)
                until(
                    lambda: str(lake_status(other)["waiting"]),
                    lambda why: "a copy of the directory publishes too" in why,
                )
                load(server, 4)
                wait_published(server)
        check(tmp_path, place)


@contextmanager
def a_publishing_server(folder: Path, place: Place, **env: str) -> Iterator[Live]:
    """Start a server that judges and publishes; stop it in the end."""
    (rules := folder / "rules").mkdir(parents=True, exist_ok=True)
    (rules / "judged.yaml").write_text(RULE, encoding="utf-8")
    with a_live_server(folder / "data", env=settings(place, rules) | env) as server:
        yield server
        assert server.stop() == 0


def interrupt(
    server: Live,
    failing: Interruption,
    source: random.Random,
    *,
    times: int,
    longest_s: float,
    is_alive: bool,
) -> None:
    """Interrupt while spans come and are published, at any moment, the last time for long; wait until all is there."""
    for number in range(times):
        is_last = number == times - 1
        load(server, source.randrange(1 << 32), for_s=source.uniform(0.1, 0.4))
        with failing():
            time.sleep(longest_s if is_last else source.uniform(0.05, 1.0))
            if is_alive and is_last:
                load(server, source.randrange(1 << 32))
                wait_judged(server)
    wait_published(server)


def load(server: Live, seed: int, *, for_s: float = 0.1) -> None:
    """Send spans and log records, all of which the server takes."""
    with (
        Load(server, seed, senders=1, spans=2) as spans,
        Load(server, seed, senders=1, logs=True) as logs,
    ):
        time.sleep(for_s)
        until(lambda: min(spans.sent.counts["taken"], logs.sent.counts["taken"]), bool)
        for sent in (spans.stop(), logs.stop()):
            assert set(sent.counts) <= {"taken", "rejected"}


def wait_judged(server: Live) -> None:
    """Wait until each span that was taken is stored and has its result."""
    spans = server.sql("SELECT count(*) FROM spans")
    until(lambda: server.sql("SELECT count(*) FROM evaluations"), lambda rows: rows >= spans)


def wait_published(server: Live) -> None:
    """Wait until the server has published what is stored and judged by now."""
    wait_judged(server)
    since_s = time.monotonic()
    until(lambda: lake_status(server)["lagSeconds"], lambda lag_s: lag_s < time.monotonic() - since_s, within_s=120)


def check(folder: Path, place: Place) -> None:
    """Compare all tables of the lake with those of the database."""
    with a_store(folder / "data") as store:
        publish_all(store.lake(place.uri))  # what the server wrote while it stopped
        counts = compare(store, place)
    assert min(counts[name] for name in TABLES) > 0
