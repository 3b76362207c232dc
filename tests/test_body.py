"""Request bodies: read and decompressed within their limits, every byte counted while it is held."""

import asyncio
import contextlib
import gzip
import random
import time
import zlib
from collections.abc import Callable, MutableMapping
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.ingest import ByteBudget
from collector.listeners.body import BodyLimits, Disconnected, HeldBody, read_body
from collector.listeners.status import BodyTooLarge, TooSlow, UnknownType
from collector.otlp.faults import Malformed
from storage.errors import Overloaded
from tests.limits import a_limit

ENCODINGS = ("gzip", "x-gzip", "deflate", "zstd")
WIDE = BodyLimits(received=1 << 26, decompressed=1 << 26)
TEXT = b"a span of an agent, again and again; " * 2000
NOISE = random.Random(1).randbytes(100_000)
MANY = 1 << 30


def raw_deflate(data: bytes) -> bytes:
    """Deflate without the zlib wrapper, as some senders mean it."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def zstd_without_size(data: bytes) -> bytes:
    """Return a frame without its size, as a streaming sender makes it."""
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return packer.compress(data) + packer.flush()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    "identity": lambda data: data,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP ": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
}


def read(
    data: bytes, encoding: str = "", *, limits: BodyLimits = WIDE, budget: ByteBudget | None = None, step: int = 1 << 16
) -> bytes:
    """Run `read_body` on a body that arrives in steps; check that the budget is restored."""
    budget = budget or ByteBudget(a_limit(MANY))
    parts = [data[start : start + step] for start in range(0, len(data), step)] or [b""]
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages[-1]["more_body"] = False
    before = budget.held
    body = HeldBody(budget)
    try:
        asyncio.run(read_body(_receiver(messages), encoding, limits, body))
        assert budget.held - before >= len(body.data)
        return body.data
    finally:
        body.let_go()
        assert budget.held == before
        assert body.data == b""


def _receiver(messages: list[dict[str, Any]]) -> Any:
    left = iter(messages)

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.sleep(0)
        return next(left)

    return receive


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, NOISE, TEXT * 100])
def test_a_body_is_read_as_it_was_before_it_was_packed(encoding: str, data: bytes) -> None:
    """Every encoding gives the data back, whether it is empty, short, long, or does not pack at all."""
    assert read(PACKED[encoding](data), encoding) == data


@given(st.lists(st.binary(max_size=200) | st.just(TEXT), min_size=1, max_size=4), st.integers(1, 5000))
@settings(max_examples=50)
def test_several_members_are_one_body(members: list[bytes], step: int) -> None:
    """Gzip members and zstd frames one after the other are joined, in whatever steps the bytes arrive."""
    whole = b"".join(members)
    assert read(b"".join(map(gzip.compress, members)), "gzip", step=step) == whole
    assert read(b"".join(map(zstandard.compress, members)), "zstd", step=step) == whole
    assert read(b"".join(map(zstd_without_size, members)), "zstd", step=step) == whole


def test_padding_after_gzip_is_ignored() -> None:
    """Zero bytes behind a member, which some senders add, are not a member."""
    for padding in (1, 511, 100_000):
        assert read(gzip.compress(TEXT) + bytes(padding), "gzip") == TEXT
    assert read(gzip.compress(TEXT) + bytes(9) + gzip.compress(b"more"), "gzip") == TEXT + b"more"


@given(st.binary(max_size=300))
def test_deflate_is_read_with_and_without_its_wrapper(data: bytes) -> None:
    """HTTP's deflate is the zlib format; the raw format is recognized and read too."""
    assert read(zlib.compress(data), "deflate") == data
    assert read(raw_deflate(data), "deflate") == data


@pytest.mark.parametrize("encoding", ["br", "snappy", "gzip, zstd", "gzip;q=1", "*"])
def test_an_unknown_encoding_is_named(encoding: str) -> None:
    """The refusal says which encodings are read."""
    with pytest.raises(UnknownType, match=r"is not supported; use one of: deflate, gzip, x-gzip, zstd"):
        read(TEXT, encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_truncated_body_is_malformed(encoding: str) -> None:
    """A packed body cut off at any byte is refused, even where what there is of it could be unpacked."""
    for data in (b"x", TEXT, NOISE):
        packed = PACKED[encoding](data)
        for end in {0, 1, 2, 5, 10, len(packed) // 3, len(packed) // 2, len(packed) - 5, len(packed) - 1}:
            if 0 <= end < len(packed):
                with pytest.raises(Malformed, match="the compressed body is damaged: "):
                    read(packed[:end], encoding)


def test_every_truncation_of_several_frames_is_malformed() -> None:
    """If one of several members is cut off, the earlier ones are not taken for the body."""
    for encoding in ("gzip", "zstd"):
        first, second = PACKED[encoding](b"first"), PACKED[encoding](b"second")
        for end in range(len(first) + 1, len(first + second)):
            with pytest.raises(Malformed):
                read((first + second)[:end], encoding)


def assert_read_or_malformed(data: bytes, encoding: str) -> None:
    """Check that the body is read, or refused as damaged."""
    message = ""
    try:
        read(data, encoding)
    except Malformed as error:
        message = str(error)
    assert message == "" or message.startswith("the compressed body is damaged: ")


@given(st.sampled_from(ENCODINGS), st.binary(max_size=100))
def test_rubbish_is_malformed_or_read(encoding: str, data: bytes) -> None:
    """Bytes that were never packed are refused, or happen to be a body; nothing else happens."""
    assert_read_or_malformed(data, encoding)


@given(st.sampled_from(ENCODINGS), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_damage_is_malformed_or_harmless(encoding: str, place: float, bits: int) -> None:
    """A packed body with a byte gone wrong is refused, or unpacked; nothing else happens."""
    packed = bytearray(PACKED[encoding](TEXT))
    packed[int(place * len(packed))] ^= bits
    assert_read_or_malformed(bytes(packed), encoding)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_rubbish_after_the_end_is_malformed(encoding: str) -> None:
    """What follows a complete member and is none itself refuses the body."""
    with pytest.raises(Malformed):
        read(PACKED[encoding](TEXT) + b"rubbish", encoding)


@pytest.mark.parametrize("encoding", PACKED)
def test_a_body_may_be_as_large_as_the_limits_and_no_larger(encoding: str) -> None:
    """At exactly the limit a body is read, one byte over it is refused, before and after unpacking."""
    packed = PACKED[encoding](TEXT)
    exact = BodyLimits(received=len(packed), decompressed=len(TEXT))
    assert read(packed, encoding, limits=exact) == TEXT
    with pytest.raises(
        BodyTooLarge, match=f"larger as it was sent than {len(packed) - 1:,} bytes .setting max_body_bytes.: send"
    ):
        read(packed, encoding, limits=BodyLimits(received=len(packed) - 1, decompressed=len(TEXT)))
    with pytest.raises(
        BodyTooLarge,
        match=f"larger (un|de)compressed than {len(TEXT) - 1:,} bytes .setting max_decompressed_bytes.: send",
    ):
        read(packed, encoding, limits=BodyLimits(received=len(packed), decompressed=len(TEXT) - 1))


@pytest.mark.costly("collector/listeners")
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_bomb_is_refused_after_the_limit(encoding: str) -> None:
    """A small body that unpacks to 256 MiB is refused as soon as it is over the limit."""
    bomb = BOMBS[encoding]()
    assert len(bomb) < 300_000
    budget = ByteBudget(a_limit(MANY))
    started = time.monotonic()
    with pytest.raises(BodyTooLarge):
        read(bomb, encoding, limits=BodyLimits(received=1 << 21, decompressed=1 << 20), budget=budget)
    assert time.monotonic() - started < 60


def _gzip_bomb() -> bytes:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return b"".join(packer.compress(bytes(1 << 24)) for _ in range(16)) + packer.flush()


def _deflate_bomb() -> bytes:
    packer = zlib.compressobj()
    return b"".join(packer.compress(bytes(1 << 24)) for _ in range(16)) + packer.flush()


BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip": _gzip_bomb,
    "x-gzip": _gzip_bomb,
    "deflate": _deflate_bomb,
    "zstd": lambda: zstandard.compress(bytes(1 << 28)),
}


def test_a_zstd_frame_that_asks_for_too_much_memory_is_refused() -> None:
    """A frame whose window is larger than eight mebibytes is refused: the sender does not choose what we hold."""
    params = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    packer = zstandard.ZstdCompressor(compression_params=params).compressobj()
    with pytest.raises(Malformed, match="memory"):
        read(packer.compress(TEXT) + packer.flush(), "zstd")


@pytest.mark.costly("collector/listeners")
@pytest.mark.parametrize(
    "encoding, member",
    [("gzip", gzip.compress(b"", mtime=0)), ("zstd", zstandard.compress(b"")), ("deflate", zlib.compress(b""))],
    ids=["gzip", "zstd", "deflate"],
)
def test_a_million_empty_members_are_no_trouble(encoding: str, member: bytes) -> None:
    """A body of nothing but empty members is read or refused within seconds."""
    started = time.monotonic()
    with contextlib.suppress(Malformed):
        assert read(member * ((8 << 20) // len(member)), encoding) == b""
    assert time.monotonic() - started < 60


def test_the_budget_counts_what_is_held() -> None:
    """While a body is read its bytes are in the budget, packed and unpacked, and none are after it was let go."""
    budget = ByteBudget(a_limit(1000))
    assert read(gzip.compress(bytes(500)), "gzip", budget=budget) == bytes(500)
    assert budget.held == 0
    with pytest.raises(BodyTooLarge):
        read(gzip.compress(bytes(5000)), "gzip", budget=budget, limits=BodyLimits(received=1000, decompressed=2000))
    assert budget.held == 0


@pytest.mark.parametrize("encoding", ["", "gzip", "zstd"])
def test_a_body_is_refused_while_others_hold_the_budget(encoding: str) -> None:
    """A body that exceeds the budget beside those in progress is refused, and does not wait."""
    budget = ByteBudget(a_limit(1000))
    other = HeldBody(budget)
    other.hold(900)
    with pytest.raises(Overloaded):
        read(PACKED[encoding](TEXT), encoding, budget=budget)
    assert budget.held == 900
    other.let_go()


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate", "zstd"])
def test_a_body_alone_may_have_all_it_needs(encoding: str) -> None:
    """When nothing else is held, a body within its limits is read even if it is larger than the whole budget."""
    assert read(PACKED[encoding](NOISE), encoding, budget=ByteBudget(a_limit(150_000)), step=1000) == NOISE
    assert read(PACKED[encoding](NOISE), encoding, budget=ByteBudget(a_limit(1)), step=1000) == NOISE


def test_a_client_that_leaves_is_told_apart() -> None:
    """A connection that ends before its body is not a malformed body, and the received part is freed."""
    budget = ByteBudget(a_limit(MANY))
    body = HeldBody(budget)
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": b"abc", "more_body": True}]
    messages.append({"type": "http.disconnect"})
    with pytest.raises(Disconnected):
        asyncio.run(read_body(_receiver(messages), "", WIDE, body))
    assert budget.held == 3
    body.let_go()
    assert budget.held == 0


def test_a_body_that_does_not_arrive_in_time_is_given_up() -> None:
    """A client that sends nothing for longer than the limit does not hold its connection for ever."""

    async def never() -> MutableMapping[str, Any]:
        await asyncio.sleep(60)
        return {}

    started = time.monotonic()
    limits = BodyLimits(received=10, decompressed=10, seconds=0.05)
    with pytest.raises(TooSlow, match=r"longer to arrive than 0\.05 s"):
        asyncio.run(read_body(never, "", limits, HeldBody(ByteBudget(a_limit(MANY)))))
    assert time.monotonic() - started < 60
