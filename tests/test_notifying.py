"""Notifications to a service manager, by the real server as systemd would start it."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.program import _lives
from tests.live import Live, a_live_server, until
from tests.storing import a_store


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """Listen as systemd does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(30)
        yield listening


def states_until(manager: socket.socket, expected: str) -> list[str]:
    """Read states up to and including `expected`."""
    heard = [manager.recv(100).decode()]
    while heard[-1] != expected:
        heard.append(manager.recv(100).decode())
    return heard


def falls_silent(manager: socket.socket) -> None:
    """Check that nothing more is sent for a second."""
    manager.settimeout(1)
    for _ in range(1000):
        try:
            manager.recv(100)
        except TimeoutError:
            return
    raise AssertionError("it goes on")


def test_a_service_manager_hears_when_the_server_is_ready_lives_and_stops(
    tmp_path: Path, manager: socket.socket
) -> None:
    """READY once the doors are open, signs of life three times in the time that it waits for one, and STOPPING."""
    env = {"NOTIFY_SOCKET": tmp_path / "notify", "WATCHDOG_USEC": 1_500_000}
    with a_live_server(tmp_path / "data", env=env) as server:
        states_until(manager, "READY=1")
        began_s = time.monotonic()
        for _ in range(4):
            states_until(manager, "WATCHDOG=1")
        assert time.monotonic() - began_s > 1
        assert server.stop() == 0
        heard = states_until(manager, "STOPPING=1")
        assert set(heard[:-1]) <= {"WATCHDOG=1"}


def test_a_paused_server_gives_no_sign_of_life(tmp_path: Path, manager: socket.socket) -> None:
    """A process that does nothing any more says nothing, so that another one takes its place."""
    env = {"NOTIFY_SOCKET": tmp_path / "notify", "WATCHDOG_USEC": 300_000}
    with a_live_server(tmp_path / "data", env=env) as server:
        states_until(manager, "WATCHDOG=1")
        with server.paused():
            falls_silent(manager)


def test_the_watchdog_of_another_process_is_not_fed(tmp_path: Path, manager: socket.socket) -> None:
    """A value for another process, or not in microseconds, is passed over; a missing listener is not an error."""
    env = {"NOTIFY_SOCKET": tmp_path / "notify", "WATCHDOG_USEC": 300_000, "WATCHDOG_PID": 1}
    with a_live_server(tmp_path / "data", env=env) as server:
        assert states_until(manager, "READY=1") == ["READY=1"]
        falls_silent(manager)
        assert server.stop() == 0
    with Live(tmp_path / "data", env={"NOTIFY_SOCKET": "@nobody", "WATCHDOG_USEC": "soon"}) as server:
        server.wait_ready()
        until(lambda: server.log, lambda log: "cannot notify the service manager of READY=1" in log)
        assert server.stop() == 0


def test_a_writer_that_has_ended_does_not_live(tmp_path: Path) -> None:
    """The server says that it lives while the writer waits or writes, and no longer once its thread is gone."""
    with a_store(tmp_path) as store:
        assert _lives(store)
        slow = store._writer.ask(lambda _: time.sleep(0.5), 0)
        until(lambda: store.writing_s, lambda seconds: seconds is not None)
        assert _lives(store)
        slow.result(10)
        store._writer.close(10)
        assert not _lives(store)
