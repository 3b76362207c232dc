"""One client cannot hold up the others: long requests are decoded in pieces, and dropped once their client has left."""

import asyncio
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from collector import ingest
from collector.ingest import Ingest
from collector.otlp.decode import Decoded, Request, decode_pieces
from storage.store import Store
from tests.live import PATIENCE_S
from tests.serving import a_server, an_export
from tests.storing import a_store, rows
from tests.traffic import a_batch, export_on
from tests.wire import Connection

LONG = a_batch(random.Random(), 400, text="x" * 10_000).body  # some eight pieces
PIECES = 8


class Pieces:
    """Pieces of long requests that are decoded one by one, and wait after the first until they may go on."""

    def __init__(self) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.decoded = 0

    def decode(self, request: Request, **options: Any) -> Iterator[Decoded]:
        """Decode a request as the server does."""
        for piece in decode_pieces(request, **options):
            self.decoded += 1
            self.begun.set()
            assert self.may_go_on.wait(PATIENCE_S)
            yield piece


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Pieces:
    """Hold a decoding after its first piece."""
    pieces = Pieces()
    monkeypatch.setattr(ingest, "decode_pieces", pieces.decode)
    return pieces


def a_short_request(number: int) -> Request:
    """Return one span."""
    return Request(body=an_export(f"{number + 1:032x}", "step").SerializeToString())


async def _while_a_long_one_is_decoded(store: Store, pieces: Pieces, *, leaves: bool) -> list[str]:
    """Offer a long request, and short ones once its first piece is decoded; the order of the answers."""
    way_in = Ingest(store, queue_bytes=1 << 30)
    way_in.start()
    order: list[str] = []
    try:
        long = way_in.offer(Request(body=LONG))
        long.add_done_callback(lambda _: order.append("long"))
        assert await asyncio.to_thread(pieces.begun.wait, PATIENCE_S)
        waits = way_in.offer(Request(body=LONG))
        short = way_in.offer(a_short_request(1))
        short.add_done_callback(lambda _: order.append("short"))
        for answer in (long, waits) if leaves else (waits,):
            answer.cancel()
        await asyncio.sleep(0)
        pieces.may_go_on.set()
        await asyncio.wait([short, long], timeout=PATIENCE_S)
    finally:
        await asyncio.to_thread(way_in.close)
    return order


def test_a_short_request_passes_a_long_one(tmp_path: Path, held: Pieces) -> None:
    """A short request that arrives while a long one is decoded is answered after its next piece; both are stored."""
    with a_store(tmp_path) as store:
        assert asyncio.run(_while_a_long_one_is_decoded(store, held, leaves=False)) == ["short", "long"]
        assert held.decoded >= PIECES
        assert store.wait_committed(PATIENCE_S)
        assert rows(store, "SELECT count(*) FROM spans") == [(401,)]


def test_a_request_whose_client_left_is_decoded_no_further(tmp_path: Path, held: Pieces) -> None:
    """Neither is the one that waited in the queue; nothing of them is stored, and others are served."""
    with a_store(tmp_path) as store:
        assert asyncio.run(_while_a_long_one_is_decoded(store, held, leaves=True)) == ["long", "short"]
        assert held.decoded == 1
        assert store.wait_committed(PATIENCE_S)
        assert rows(store, "SELECT count(*) FROM spans") == [(1,)]


def test_a_large_request_lets_those_pass_that_come_soon_after(tmp_path: Path) -> None:
    """The queue is in the order of arrival, with some time added for each byte, and a bound on it."""
    with a_store(tmp_path) as store:
        way_in = Ingest(store, queue_bytes=1 << 30)

        async def queued() -> list[int]:
            way_in._loop = asyncio.get_running_loop()
            for size in (1 << 20, 10, 100 << 10, 20):
                way_in.offer(Request(body=bytes(size)))
            return [len(offer.request.body) for offer in way_in._waiting]

        assert asyncio.run(queued()) == [10, 20, 100 << 10, 1 << 20]


@pytest.mark.parametrize("door", ["http", "grpc", "grpc deadline"])
def test_decoding_stops_when_the_client_leaves(
    tmp_path: Path, held: Pieces, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    """A connection that is closed, a call that is cancelled, and a deadline that passes all end the decode."""
    left = threading.Event()
    withdraw = Ingest._withdraw

    def withdrawn(way_in: Ingest, offer: Any, answer: "asyncio.Future[Any]") -> None:
        withdraw(way_in, offer, answer)
        if answer.cancelled():
            left.set()

    monkeypatch.setattr(Ingest, "_withdraw", withdrawn)
    with a_server(tmp_path / "data") as server:
        if door == "http":
            with Connection(server.otlp_http) as connection:
                connection.request(LONG)
                assert held.begun.wait(PATIENCE_S)
        else:
            with grpc.insecure_channel(server.grpc) as channel:
                call = export_on(channel).future(LONG, timeout=PATIENCE_S if door == "grpc" else 2)
                assert held.begun.wait(PATIENCE_S)
                if door == "grpc":
                    call.cancel()
                assert left.wait(PATIENCE_S)
        assert left.wait(PATIENCE_S)
        held.may_go_on.set()
    assert held.decoded == 1
