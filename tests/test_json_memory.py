"""JSON bodies and memory: what a server takes to read them, whatever they hold."""

import asyncio
import gzip
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf import json_format
from google.rpc.status_pb2 import Status

from collector.listeners.otlp_http import JsonReader
from collector.otlp.json_request import memory_needed
from tests.live import Live, a_live_server
from tests.traffic import a_batch
from tests.wire import JSON, as_json, post

pytestmark = pytest.mark.costly("collector/listeners", "collector/ingest.py", "collector/memory.py", "collector/otlp")

ABOVE_IDLE_BYTES = 550_000_000
LARGEST = 64 << 20
TAKEN_BYTES = 360 << 20
"""What reading may take by the server's own count."""

SPANS = b'{"resourceSpans":[{"scopeSpans":[{"spans":[%s]}]}]}'
ATTRIBUTES = SPANS % b'{"attributes":[%s]}'
VALUES = ATTRIBUTES % b'{"key":"k","value":{"arrayValue":{"values":[%s]}}}'
BODIES = {
    "empty spans": (SPANS, b"{}"),
    "spans that are null": (SPANS, b"null"),
    "integers": (VALUES, b'{"intValue":1}'),
    "unknown strings": (b'{"x":[%s]}', b'"ab"'),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Yield a server that has read some JSON."""
    with a_live_server(tmp_path_factory.mktemp("json") / "data") as server:
        assert post(server, as_json(a_batch(random.Random(), 50).body), kind=JSON).status_code == 200
        yield server


def filled(outer: bytes, item: bytes, size: int) -> bytes:
    """Return a body with as many items as fit into a size."""
    return outer % b",".join([item] * (size // (len(item) + 1)))


def largest_taken(outer: bytes, item: bytes) -> bytes:
    """Return the largest body of this kind that is not refused for its memory."""
    sample = filled(outer, item, 1 << 20)
    return filled(
        outer, item, min(LARGEST - 1000, int(len(sample) * (TAKEN_BYTES - (1 << 16)) / memory_needed(sample)))
    )


def memory_bytes(server: Live, name: str) -> int:
    """Read the process's memory from the system: VmRSS now, VmHWM the peak since `forget_peak`."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def forget_peak(server: Live) -> None:
    """Reset VmHWM to the current resident memory."""
    Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("outer, item", BODIES.values(), ids=BODIES)
def test_json_takes_bounded_memory(tmp_path: Path, outer: bytes, item: bytes) -> None:
    """A body of 64 MiB is refused for good with the reason; the largest that is read stays below 550 MB."""
    with a_live_server(tmp_path / "data") as server:
        assert post(server, as_json(a_batch(random.Random(), 50).body), kind=JSON).status_code == 200
        forget_peak(server)
        idle = memory_bytes(server, "VmRSS")
        refused = post(server, gzip.compress(filled(outer, item, LARGEST - 1000), 1), kind=JSON, encoding="gzip")
        assert (refused.status_code, "retry-after" in refused.headers) == (413, False)
        assert "more memory than 360 MiB" in json_format.Parse(refused.content, Status()).message
        taken = post(server, gzip.compress(largest_taken(outer, item), 1), kind=JSON, encoding="gzip")
        assert taken.status_code in {200, 400}, taken.text
        above = memory_bytes(server, "VmHWM") - idle
        assert above < ABOVE_IDLE_BYTES


def test_text_in_json_takes_bounded_memory(server: Live) -> None:
    """A long text is read in full if it fits, and one whose characters take more bytes each is refused for good."""
    forget_peak(server)
    idle = memory_bytes(server, "VmRSS")
    for text, status in ((b"a" * (LARGEST - 100), 200), (b"a" * (LARGEST - 100) + "🙂".encode(), 413)):
        assert post(server, b'{"x":"%s"}' % text, kind=JSON).status_code == status
    assert memory_bytes(server, "VmHWM") - idle < ABOVE_IDLE_BYTES


def test_bodies_are_bounded_together(server: Live) -> None:
    """Of several large JSON bodies at once, those that do not fit are refused with a delay."""
    outer, item = BODIES["integers"]
    body = gzip.compress(largest_taken(outer, item), 1)
    forget_peak(server)
    idle = memory_bytes(server, "VmRSS")
    statuses = []

    def send() -> None:
        statuses.append(post(server, body, kind=JSON, encoding="gzip").status_code)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 503 in statuses
    assert set(statuses) <= {200, 400, 503}
    assert memory_bytes(server, "VmHWM") - idle < ABOVE_IDLE_BYTES


@pytest.mark.parametrize("path, status", [("/v1/metrics", 200), ("/v1/logs", 413)])
def test_json_of_other_signals_is_bounded_too(server: Live, path: str, status: int) -> None:
    """Log records, and metrics, which nothing reads, take no more memory than spans."""
    forget_peak(server)
    idle = memory_bytes(server, "VmRSS")
    body = filled(b'{"resourceMetrics":[%s]}' if path == "/v1/metrics" else b'{"resourceLogs":[%s]}', b"{}", 32 << 20)
    assert post(server, gzip.compress(body, 1), kind=JSON, encoding="gzip", path=path).status_code == status
    assert memory_bytes(server, "VmHWM") - idle < ABOVE_IDLE_BYTES


def test_json_is_read_in_turns_of_senders() -> None:
    """Of each sender one body at a time goes to the thread, so another sender's comes next."""
    order: list[bytes] = []

    def parse(body: bytes) -> bytes:
        order.append(body)
        return body

    async def read() -> None:
        reader = JsonReader()
        flood = [asyncio.create_task(reader.read(b"[%d]" % number, parse, "flood")) for number in range(20)]
        await asyncio.gather(*flood, asyncio.create_task(reader.read(b"{}", parse, "other")))

    asyncio.run(read())
    assert sorted(order[:2]) == [b"[0]", b"{}"]
    assert order[2:] == [b"[%d]" % number for number in range(1, 20)]
