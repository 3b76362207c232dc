"""Request bodies: compressed, damaged, too large, in chunks, and slow, against the running server."""

import asyncio
import gc
import gzip
import random
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import grpc
import pytest
import zstandard
from google.rpc.status_pb2 import Status

from collector.listeners.otlp_grpc import _Turns
from collector.listeners.status import TooSlow
from tests.access import a_closed_server
from tests.live import PATIENCE_S, Live, a_client, a_live_server, until
from tests.serving import PROTOBUF, a_server
from tests.storing import files_no_larger_than
from tests.traffic import EXPORT_TRACES, Answer, Send, a_batch, export_on, over_grpc, over_http, status_of
from tests.wire import JSON, Connection, as_json, post

pytestmark = pytest.mark.costly("collector/listeners", "collector/ingest.py", "collector/otlp")

RECEIVED, DECOMPRESSED = 64 << 10, 256 << 10
"""The limits of the `tight` server, far below the defaults."""

TURNS = 24
"""Messages of one sender that a server reads over gRPC at the same time, of 32."""

LARGE = 1 << 20
"""Bytes of a message that would be missed."""

SOON = {"TRACEJURY_COMMIT_INTERVAL_MS": 10}


def bare_deflate(body: bytes) -> bytes:
    """Compress as raw deflate, without header and checksum, which some senders send."""
    return zlib.compress(body, wbits=-zlib.MAX_WBITS)


def gzip_members(body: bytes) -> bytes:
    """Return one gzip file in two members."""
    return gzip.compress(body[:100]) + gzip.compress(body[100:])


def zstd_frames(body: bytes) -> bytes:
    """Return one zstd body in two frames."""
    return zstandard.compress(body[:100]) + zstandard.compress(body[100:])


def zstd_stream(body: bytes) -> bytes:
    """Return a zstd frame without its size."""
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return compressor.compress(body) + compressor.flush()


COMPRESSIONS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "GZIP": ("GZIP", gzip.compress),
    "gzip in members": ("gzip", gzip_members),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", bare_deflate),
    "zstd": ("zstd", zstandard.compress),
    "zstd in frames": ("zstd", zstd_frames),
    "zstd stream": ("zstd", zstd_stream),
    "identity": ("identity", bytes),
}
CHECKED = {
    name: COMPRESSIONS[name] for name in ("gzip", "deflate", "gzip in members", "zstd", "zstd stream", "zstd in frames")
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Yield a server with default limits."""
    with a_live_server(tmp_path_factory.mktemp("bodies") / "data", env=SOON) as server:
        yield server


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Yield a server with small limits."""
    env = SOON | {"TRACEJURY_MAX_BODY_BYTES": RECEIVED, "TRACEJURY_MAX_DECOMPRESSED_BYTES": DECOMPRESSED}
    with a_live_server(tmp_path_factory.mktemp("tight") / "data", env=env) as server:
        yield server


def stored(server: Live, trace_id: str) -> int:
    """Count the stored spans of a trace once all is committed."""
    with over_http(server) as send:  # earlier requests are committed before this one
        last = a_batch(random.Random(), 1)
        assert send(last.body).kind == "taken"
    until(lambda: server.sql(f"SELECT count(*) FROM spans WHERE trace_id = '{last.trace_id}'"), lambda n: n == [[1]])
    ((count,),) = server.sql(f"SELECT count(*) FROM spans WHERE trace_id = '{trace_id}'")
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("encoding, compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_compressed_bodies_are_read(server: Live, encoding: str, compress: Callable[[bytes], bytes]) -> None:
    """Every compression is undone for protobuf and JSON, small and large bodies, on both HTTP addresses."""
    small, large, text = (a_batch(random.Random(), spans) for spans in (2, 600, 2))
    assert post(server, compress(small.body), encoding=encoding).status_code == 200
    assert post(server, compress(as_json(text.body)), kind=JSON, encoding=encoding).status_code == 200
    headers = {"content-type": PROTOBUF, "content-encoding": encoding}
    reply = server.client.post(f"{server.http}/api/v1/traces", content=compress(large.body), headers=headers)
    assert reply.json() == {"acceptedSpans": 600, "rejectedSpans": 0, "traces": 1}
    assert [stored(server, batch.trace_id) for batch in (small, large, text)] == [2, 600, 2]


@pytest.mark.parametrize("encoding, compress", CHECKED.values(), ids=CHECKED)
def test_a_body_that_is_cut_off_is_no_success(server: Live, encoding: str, compress: Callable[[bytes], bytes]) -> None:
    """A compressed body that ends too early is 400, wherever it ends, and none of it is stored."""
    batch = a_batch(random.Random(), 40)
    whole = compress(batch.body)
    cuts = sorted({1, 2, 5, 12, *random.sample(range(1, len(whole)), 12), len(whole) - 4, len(whole) - 1})
    # A cut between two frames or members leaves a body that is whole in itself.
    statuses = {cut: post(server, whole[:cut], encoding=encoding).status_code for cut in cuts if not ends(whole, cut)}
    assert statuses == dict.fromkeys(statuses, 400)
    assert stored(server, batch.trace_id) == 0


def ends(whole: bytes, cut: int) -> bool:
    """Return whether another frame or member begins here."""
    return whole[cut:].startswith((b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"))


@pytest.mark.parametrize("encoding, compress", CHECKED.values(), ids=CHECKED)
def test_a_damaged_body_is_never_half_a_success(
    server: Live, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    """A compressed body with a changed byte is 400 or, if the change has no effect, read whole: no span gets lost."""
    source = random.Random()
    for _ in range(25):
        batch = a_batch(source, 30)
        damaged = bytearray(compress(batch.body))
        damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
        status = post(server, bytes(damaged), encoding=encoding).status_code
        if status == 200 and encoding != "zstd":  # gzip and zlib carry a checksum, zstd need not
            assert stored(server, batch.trace_id) == 30
        else:
            assert status in {200, 400, 413}
    assert "Traceback" not in server.log


def test_bodies_up_to_the_limit_are_taken(tight: Live) -> None:
    """A body of exactly the limit is read; one byte more is 413 or RESOURCE_EXHAUSTED, for good."""
    batch = a_batch(random.Random(), 100)
    padding = RECEIVED - len(batch.body)
    field = b"\xfa\x3f" + varint(padding - 2 - 3)  # field 1023, which is unknown; its length takes three bytes
    full = (batch.body + field).ljust(RECEIVED, b"x")
    with over_http(tight) as http, over_grpc(tight) as call:
        assert http(full).kind == call(full).kind == "taken"
    reply = post(tight, full + b"x")
    assert (reply.status_code, "retry-after" in reply.headers) == (413, False)
    assert f"{RECEIVED:,} bytes (setting max_body_bytes)" in Status.FromString(reply.content).message
    check_too_large_for_grpc(tight, full + b"x", grpc.Compression.NoCompression)
    assert stored(tight, batch.trace_id) == 100


def varint(number: int) -> bytes:
    """Return a number as protobuf writes it."""
    return bytes([number & 0x7F]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)


def check_too_large_for_grpc(server: Live, body: bytes, compression: grpc.Compression) -> None:
    """Check that the call fails with RESOURCE_EXHAUSTED and without RetryInfo."""
    with (
        grpc.insecure_channel(server.grpc) as channel,
        pytest.raises(grpc.RpcError) as failure,
    ):
        export_on(channel)(body, timeout=PATIENCE_S, compression=compression)
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    status = status_of(failure.value)
    assert status is None or not status.details


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_bombs_are_stopped_at_the_limit(tight: Live, encoding: str) -> None:
    """A body that grows beyond the limit is 413, however much it would grow, and is not unpacked to its end."""
    _, compress = COMPRESSIONS[encoding]
    for size in (DECOMPRESSED + 1, 32 << 20):
        bomb = compress(bytes(size))
        assert len(bomb) < RECEIVED
        reply = post(tight, bomb, encoding=encoding)
        assert (reply.status_code, "retry-after" in reply.headers) == (413, False)
        assert f"{DECOMPRESSED:,} bytes (setting max_decompressed_bytes)" in Status.FromString(reply.content).message


def test_a_bomb_over_grpc_is_stopped(tight: Live) -> None:
    """A gRPC message that grows beyond the limit is RESOURCE_EXHAUSTED."""
    for compression in (grpc.Compression.Gzip, grpc.Compression.Deflate):
        check_too_large_for_grpc(tight, bytes(8 << 20), compression)


def test_tiny_gzip_members_cost_no_more_than_their_bytes(server: Live) -> None:
    """A body of very many empty gzip members does not keep the server busy."""
    members = gzip.compress(b"") * 200_000  # 4 MB: the time for it must not grow with its square
    started = time.monotonic()
    assert post(server, members, encoding="gzip").status_code in {200, 400}
    assert time.monotonic() - started < 60


@pytest.mark.timeout(600)
def test_the_default_limit_is_64_mib(server: Live) -> None:
    """By default a body may have 64 MiB, before and after decompression, over both protocols."""
    batch = a_batch(random.Random(), 1)
    too_large = batch.body + b"\xfa\x3f" + varint(64 << 20) + bytes(64 << 20)
    replies = [post(server, too_large), post(server, gzip.compress(too_large, 1), encoding="gzip")]
    assert [reply.status_code for reply in replies] == [413, 413]
    check_too_large_for_grpc(server, too_large, grpc.Compression.NoCompression)
    check_too_large_for_grpc(server, too_large, grpc.Compression.Gzip)
    size = (64 << 20) - len(batch.body) - 16
    spaces = b" " * size
    allowed = batch.body + b"\xfa\x3f" + varint(size) + bytes(size)
    with over_http(server) as http, over_grpc(server) as call:
        answers = [http(allowed), call(allowed)]
    assert [answer.kind for answer in answers] == ["taken", "taken"]
    replies = [post(server, gzip.compress(allowed, 1), encoding="gzip"), post(server, b"{%s}" % spaces, kind=JSON)]
    assert [reply.status_code for reply in replies] == [200, 200]
    assert stored(server, batch.trace_id) == 1


def test_a_body_may_come_in_chunks(server: Live) -> None:
    """Without Content-Length, as the JavaScript exporter sends it, a body is read chunk by chunk."""
    batch = a_batch(random.Random(), 20)
    with Connection(server.ready["otlp_http"]) as connection:
        connection.begin("transfer-encoding: chunked")
        for start in range(0, len(batch.body), 100):
            part = batch.body[start : start + 100]
            connection.send(b"%x\r\n%s\r\n" % (len(part), part))
        connection.send(b"0\r\n\r\n")
        assert connection.reply().status == 200
        connection.request(b"")  # and the connection is as good as before
        assert connection.reply().status == 200
    assert stored(server, batch.trace_id) == 20


def test_chunks_without_end_are_stopped(tight: Live) -> None:
    """A chunked body is cut off at the limit, although its size was not declared."""
    with Connection(tight.ready["otlp_http"]) as connection:
        connection.begin("transfer-encoding: chunked")
        for _ in range(RECEIVED // 4096 + 1):
            connection.send(b"1000\r\n%s\r\n" % bytes(4096))
        assert connection.reply().status == 413


def test_a_size_that_is_announced_too_large_is_refused(tight: Live) -> None:
    """A sender that waits for `100 Continue`, or just sends on, learns that its body is too large."""
    with Connection(tight.ready["otlp_http"]) as connection:
        connection.begin(f"content-length: {1 << 40}")
        connection.send(bytes(RECEIVED + 1))
        assert connection.reply().status == 413


def test_a_slow_sender_is_waited_for(server: Live) -> None:
    """A body that comes byte by byte is read to its end, and no other request waits for it."""
    slow, other = a_batch(random.Random(), 1), a_batch(random.Random(), 5)
    with ExitStack() as stack:
        stalled = [stack.enter_context(Connection(server.ready["otlp_http"])) for _ in range(50)]
        for connection in stalled:
            connection.send_part(slow.body, 1)
        for position in range(1, 6):
            stalled[0].send(slow.body[position : position + 1])
            started = time.monotonic()
            with over_http(server) as http, over_grpc(server) as call:
                assert http(other.body).kind == call(other.body).kind == "taken"
            assert time.monotonic() - started < 30  # half of the time that a stalled body has
        stalled[0].send(slow.body[6:])
        assert stalled[0].reply().status == 200
    assert stored(server, slow.trace_id) == 1


def test_stalled_grpc_senders_keep_nobody_waiting(tmp_path: Path) -> None:
    """While senders that do not send their message hold all turns, others hear UNAVAILABLE within seconds."""
    batch = a_batch(random.Random(), 3)
    go_on = threading.Event()
    with (
        a_live_server(tmp_path / "data", env=SOON) as server,
        grpc.insecure_channel(server.grpc) as channel,
        over_grpc(server) as send,
    ):
        export: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(EXPORT_TRACES)
        stalled = [export.future(late(batch.body, go_on), timeout=PATIENCE_S) for _ in range(TURNS)]
        try:
            refusal, took_s = until(lambda: timed(send, batch.body), lambda seen: seen[0].kind == "later")
            assert (refusal.retry_after_s, "still arriving" in refusal.message) == (1, True)
            assert 4 < took_s < 10
        finally:
            go_on.set()
        assert [call.code() for call in stalled] == [grpc.StatusCode.OK] * TURNS
        assert send(batch.body).kind == "taken"
        assert stored(server, batch.trace_id) == 3
        assert "Traceback" not in server.log


def test_stalled_grpc_calls_of_a_key_hold_up_no_other(tmp_path: Path) -> None:
    """A key that ends calls without a message, and then sends none, leaves turns to another key."""
    batch = a_batch(random.Random(), 3)
    go_on = threading.Event()
    with a_closed_server(tmp_path / "data") as server, grpc.insecure_channel(server.running.grpc) as channel:
        export: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(EXPORT_TRACES)
        stalling, other = ((("authorization", f"Bearer {server.keys[name]}"),) for name in ("ingest", "editor"))
        try:
            with pytest.raises(grpc.RpcError):
                export(iter(()), metadata=stalling, timeout=PATIENCE_S)
            for _ in range(2 * TURNS):
                export.future(late(batch.body, go_on), metadata=stalling, timeout=PATIENCE_S)
            for _ in range(5):
                export(iter([batch.body]), metadata=other, timeout=4)
        finally:
            go_on.set()


def test_a_stalled_grpc_call_gives_its_turn_to_a_sender_without_any() -> None:
    """With as many senders as turns, all stalled, one more gets a turn, and the oldest of those with most is ended."""

    async def stall(turns: _Turns, sender: str) -> None:
        async with turns.take(sender):
            await asyncio.Event().wait()

    async def trial() -> None:
        turns = _Turns()
        turns.saw(1 << 30)  # so that there are four turns
        stalled = [asyncio.create_task(stall(turns, sender)) for sender in ("a", "a", "b", "c")]
        await asyncio.sleep(0)
        async with turns.take("d"):
            assert [each.done() for each in stalled] == [True, False, False, False]
        assert isinstance(stalled[0].exception(), TooSlow)
        for each in stalled[1:]:
            each.cancel()
        await asyncio.gather(*stalled, return_exceptions=True)

    asyncio.run(trial())


def late(body: bytes, go_on: threading.Event) -> Iterator[bytes]:
    """Yield the one message of a call, which does not come before it may."""
    go_on.wait(PATIENCE_S)
    yield body


def timed(send: Send, body: bytes) -> tuple[Answer, float]:
    """Send a body; return the response and the seconds that it took."""
    started = time.monotonic()
    return send(body), time.monotonic() - started


def test_a_sender_that_goes_away_leaves_nothing(tmp_path: Path) -> None:
    """Half a request is neither stored nor remembered: its bytes are free for others, and the log stays clean."""
    with a_live_server(tmp_path / "data", env={"TRACEJURY_QUEUE_BYTES": 4096}) as server:
        batch = a_batch(random.Random(), 60)
        for _ in range(20):
            with Connection(server.ready["otlp_http"]) as connection:
                connection.send_part(batch.body, len(batch.body) - 1)
            with grpc.insecure_channel(server.grpc) as channel:
                call = export_on(channel).future(batch.body, timeout=PATIENCE_S)
                call.cancel()
        small = a_batch(random.Random(), 1)
        with over_http(server) as http, over_grpc(server) as send:
            until(lambda: http(small.body).kind, lambda kind: kind == "taken")
            until(lambda: send(small.body).kind, lambda kind: kind == "taken")
        assert "Traceback" not in server.log


@pytest.mark.parametrize("reason", ["malformed", "no room"])
def test_a_refused_message_is_let_go_with_its_answer(tmp_path: Path, reason: str) -> None:
    """A message refused over gRPC is freed without Python's cycle collection, at whichever layer it was refused."""
    body = b"\x0a" + bytes(LARGE) if reason == "malformed" else a_batch(random.Random(), 1, text="x" * LARGE).body
    with a_server(tmp_path / "data") as server, grpc.insecure_channel(server.grpc) as channel, ExitStack() as stack:
        stack.enter_context(no_cycles_are_looked_for())
        if reason == "no room":
            stack.enter_context(files_no_larger_than(64 << 10))
        held = []
        for _ in range(12):
            with pytest.raises(grpc.RpcError) as failure:
                export_on(channel)(body, timeout=PATIENCE_S)
            assert failure.value.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAVAILABLE}
            held.append(tracemalloc.get_traced_memory()[0])
        assert held[-1] - held[2] < 4 * LARGE


@pytest.mark.parametrize("reason", ["malformed", "no room", "too large", "JSON"])
def test_a_refused_compressed_body_is_let_go_with_its_answer(tmp_path: Path, reason: str) -> None:
    """A few bytes that decompress to many are freed when they are refused, before Python's cycle collection."""
    limits = {"no room": {"queue_bytes": 8 * LARGE}, "too large": {"max_decompressed_bytes": 15 * LARGE}}
    body = zstandard.compress(b"[" * (16 * LARGE) if reason == "JSON" else bytes(16 * LARGE))
    kind = JSON if reason == "JSON" else PROTOBUF
    with a_server(tmp_path / "data", **limits.get(reason, {})) as server, a_client() as client, ExitStack() as stack:
        stalled = stack.enter_context(Connection(server.otlp_http))
        stalled.send_part(bytes(100), 1)  # so that no other of this sender may be larger than its share
        stack.enter_context(no_cycles_are_looked_for())
        url, headers = f"http://{server.otlp_http}/v1/traces", {"content-type": kind, "content-encoding": "zstd"}
        held = []
        for _ in range(8):
            assert client.post(url, content=body, headers=headers).status_code in {400, 413, 503}
            held.append(tracemalloc.get_traced_memory()[0])
        assert held[-1] - held[1] < 16 * LARGE


@contextmanager
def no_cycles_are_looked_for() -> Iterator[None]:
    """Trace the memory that Python holds, freed only by counting references."""
    gc.disable()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.enable()


def test_a_stopped_reader_does_not_stop_the_server(server: Live) -> None:
    """A client that sends on and on without reading its answers gets no more than its connection."""
    with Connection(server.ready["otlp_http"]) as greedy:
        with suppress(OSError):  # a server may end a connection whose answers are not read
            for _ in range(500):
                greedy.request(b"")
        with a_client() as client:
            assert client.get(f"{server.http}/health").json() == {"status": "ok", "setAside": 0, "dropped": 0}
