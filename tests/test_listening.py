"""HTTP serving at an address: how soon it ends, and what time it reports."""

import asyncio
import socket
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

import httpx
import pytest

from collector import listening
from collector.access.proxies import TrustedProxies
from collector.listeners.acceptor import Acceptor
from collector.listeners.closed_connections import ClosedConnections
from collector.listeners.connection_limits import ConnectionLimits
from collector.listeners.request_starts import RequestStarts
from collector.listening import ListenerOptions, address_of, bind, serving
from tests.live import PATIENCE_S
from tests.serving import ANY_PORT


async def answering(_scope: object, _receive: object, send: Callable[[dict[str, Any]], Any]) -> None:
    """Answer every request with an empty response."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


def never_made(_around: object) -> NoReturn:
    """Fail if a protocol is made."""
    raise AssertionError


def dates(*, pause_s: float) -> list[float]:
    """Return the Date headers of two responses in seconds, with a pause between them."""

    async def run() -> list[float]:
        times = []
        bound = bind(ANY_PORT)
        async with serving(answering, bound, ListenerOptions()), httpx.AsyncClient(trust_env=False) as client:
            for number in range(2):
                await asyncio.sleep(number * pause_s)
                answer = await client.get(f"http://{address_of(bound)}/")
                times.append(parsedate_to_datetime(answer.headers["date"]).timestamp())
        return times

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_it_ends_as_soon_as_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end does not wait for the next time that the server looks up."""
    monkeypatch.setattr(listening, "TICK_S", 3600.0)
    assert len(dates(pause_s=0)) == 2


def test_answers_tell_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The `Date` of an answer goes on while the server is up."""
    monkeypatch.setattr(listening, "TICK_S", 0.05)
    before = int(time.time())
    first, second = dates(pause_s=1.5)
    assert before <= first < second <= time.time()


def test_a_listener_ends_while_a_connection_comes(caplog: pytest.LogCaptureFixture) -> None:
    """A listener that is closed in the pass in which a connection comes logs nothing and leaves it to the next one."""

    async def run(listening: socket.socket) -> None:
        first, closed = listening.dup(), ClosedConnections()
        acceptor = Acceptor(
            never_made, ConnectionLimits(), TrustedProxies(), None, closed.of("http", ConnectionLimits())
        )
        acceptor.start(first)
        await asyncio.sleep(0.01)
        with socket.create_connection(listening.getsockname()):
            await asyncio.sleep(0)  # from here on the loop knows of the connection, and takes it next
            acceptor.close()
            first.close()
            await acceptor.wait_closed()
            await asyncio.sleep(0)
            listening.accept()[0].close()
        assert not any(closed.counts.values())

    with socket.create_server(("127.0.0.1", 0)) as listening:
        asyncio.run(asyncio.wait_for(run(listening), PATIENCE_S))
    assert caplog.text == ""


def test_a_client_begins_before_the_flood_of_another() -> None:
    """A request of a new client waits for a few of a flood, and one that is cancelled takes no turn."""
    begun: list[str] = []

    async def run() -> None:
        starts = RequestStarts()

        async def begin(client: str) -> None:
            await starts.wait(client)
            begun.append(client)

        flood = [asyncio.create_task(begin("flood")) for _ in range(500)]
        await asyncio.sleep(0)  # all of them wait
        flood[400].cancel()
        other = asyncio.create_task(begin("other"))
        await asyncio.gather(other, *flood, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert begun.index("other") < 10
    assert len(begun) == 500
