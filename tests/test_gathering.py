"""Requests that share a decode and a sync: those that are in flight together; a single one does not wait."""

import asyncio
from pathlib import Path

import pytest

from collector import ingest
from collector.ingest import Ingest
from collector.otlp.decode import Receipt, Request
from collector.self_tracing import FinishedWork
from storage.store import Store
from tests.serving import an_export
from tests.storing import a_store, rows

LONG_S = 600.0
"""A wait that a test does not survive."""


def a_request(number: int, *, nbytes: int = 0) -> Request:
    """Return one span, in a request of `nbytes` bytes or a few more."""
    return Request(body=an_export(f"{number + 1:032x}", "step" + "x" * nbytes).SerializeToString())


def groups_of(store: Store, *clients: list[Request], monkeypatch: pytest.MonkeyPatch, gather_s: float) -> list[int]:
    """Send requests of concurrent clients; return the number of requests in each group."""
    monkeypatch.setattr(ingest, "_GATHER_S", gather_s)
    groups: list[FinishedWork] = []

    async def client(way_in: Ingest, requests: list[Request]) -> None:
        for request in requests:
            receipt: Receipt = await way_in.offer(request)
            assert receipt.accepted == 1

    async def all_clients() -> None:
        way_in = Ingest(store, queue_bytes=1 << 24, watch=groups.append)
        way_in.start()
        try:
            await asyncio.gather(*(client(way_in, requests) for requests in clients))
        finally:
            await asyncio.to_thread(way_in.close)

    asyncio.run(all_clients())
    return [int(str(group.attributes["tracejury.requests"])) for group in groups]


def test_whoever_sends_alone_is_answered_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request after the other, each of which no other could share a group with."""
    with a_store(tmp_path) as store:
        requests = [a_request(number) for number in range(20)]
        assert groups_of(store, requests, monkeypatch=monkeypatch, gather_s=LONG_S) == [1] * 20


def test_small_requests_that_are_under_way_together_share_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of eight clients that send again and again most come together, and none waits for one that has gone for long."""
    with a_store(tmp_path) as store:
        clients = [[a_request(100 * client + number) for number in range(10 + client)] for client in range(8)]
        groups = groups_of(store, *clients, monkeypatch=monkeypatch, gather_s=0.2)
        sent = sum(map(len, clients))
        assert sum(groups) == sent
        assert len(groups) <= sent / 3
        assert store.wait_committed(30)
        assert rows(store, "SELECT count(*) FROM spans") == [(sent,)]


def test_large_requests_wait_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is worth a group of its own is not held up by another one that is under way."""
    with a_store(tmp_path) as store:
        clients = [[a_request(10 * client + number, nbytes=300_000) for number in range(3)] for client in range(2)]
        assert sum(groups_of(store, *clients, monkeypatch=monkeypatch, gather_s=LONG_S)) == 6


def test_what_waits_when_the_server_stops_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that gathers ends with the server, and its requests are stored."""

    async def stopped(store: Store) -> Receipt:
        way_in = Ingest(store, queue_bytes=1 << 24)
        way_in.start()
        together = [way_in.offer(a_request(number)) for number in range(3)]
        monkeypatch.setattr(ingest, "_GATHER_S", LONG_S)
        last = way_in.offer(a_request(10))
        await asyncio.to_thread(way_in.close)
        await asyncio.gather(*together)
        return await last

    with a_store(tmp_path) as store:
        assert asyncio.run(stopped(store)).accepted == 1
