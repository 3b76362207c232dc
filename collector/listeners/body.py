"""Request bodies over HTTP: read and decompressed within limits, every byte counted while it is held."""

import asyncio
import io
import zlib
from collections.abc import Awaitable, Callable, Generator, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import zstandard

from collector.ingest import ByteBudget, SpansFailed, SpansRefused
from collector.listeners.status import BodyTooLarge, TooSlow, UnknownType, failure_of
from collector.meters import Traffic
from collector.otlp.faults import Malformed
from storage.limit import Limit

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_STEP = 1 << 20
_ON_LOOP_BYTES = 32 << 10
"""A compressed body that is larger is decompressed in a thread; of a smaller one, what exceeds sixteen times this size
decompressed. A guess: 32 KiB take about as long as the switch to a thread under load."""

_FEED = 4 << 10
"""Compressed bytes passed to zlib at a time, which copies their rest at the end of each gzip member: very many tiny
members in one call would cost quadratic time."""

_ZSTD_FEED = 256
"""Compressed bytes passed to zstd at a time: a block of four bytes can become 128 KiB, so that one call returns up to
8 MiB."""

_CUT_OFF = "it ends too early"

_ZSTD_WINDOW_BYTES = 8 << 20
"""Largest window that RFC 8878 requires of decoders; more would let a sender choose our memory use."""


_SMALLER = "send fewer spans or log records at once"


class Disconnected(Exception):
    """Signal that the client left before the body was complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """Limits of request bodies: bytes before and after decompression, and the time to arrive."""

    received: int
    decompressed: int
    seconds: float = 60.0

    def received_limit(self) -> Limit:
        """Return the limit of a body as it was sent."""
        return Limit(value=self.received, unit="bytes", setting="max_body_bytes", remedy=_SMALLER)

    def decompressed_limit(self) -> Limit:
        """Return the limit of a body after decompression."""
        return Limit(value=self.decompressed, unit="bytes", setting="max_decompressed_bytes", remedy=_SMALLER)

    def time_limit(self) -> Limit:
        """Return the limit of the time that a body takes to arrive."""
        return Limit(value=self.seconds, unit="s", remedy="send smaller requests, or compress them")


class HeldBody:
    """A body whose bytes count in a budget until it is released."""

    def __init__(self, budget: ByteBudget, sender: str = "") -> None:
        self._budget = budget
        self._sender = sender
        self._held = 0
        self.arrived = 0  # bytes, as they were sent
        self.data = b""

    def receive(self, nbytes: int) -> None:
        """Count bytes that arrived just now, or raise `Overloaded`."""
        self.arrived += nbytes
        self.hold(nbytes)

    def hold(self, nbytes: int) -> None:
        """Count more bytes, or raise `Overloaded`."""
        self._budget.take(nbytes, own=self._held, sender=self._sender)
        self._held += nbytes

    def let_go(self) -> None:
        """Drop the body, and give its bytes back to the budget."""
        self.data = b""
        self._budget.give_back(self._held, sender=self._sender)
        self._held = 0


@contextmanager
def arriving(budget: ByteBudget, traffic: Traffic, protocol: str, sender: str = "") -> Iterator[HeldBody]:
    """Hold the body of an export request while it is processed.

    A request that fails before its spans are counted is counted itself, as not decoded.
    """
    body = HeldBody(budget, sender)
    try:
        yield body
    except (SpansRefused, SpansFailed, Disconnected):
        raise
    except Exception as error:  # raised again: only counted
        traffic.not_decoded(protocol, failure_of(error).reason, body.arrived)
        raise
    finally:
        body.let_go()


async def read_body(receive: Receive, encoding: str, limits: BodyLimits, body: HeldBody) -> None:
    """Read a request body into `body.data`, decompressed.

    Raises:
        BodyTooLarge, TooSlow, UnknownType, Malformed, Overloaded: as in `collector.listeners.status`.
        Disconnected: the client left.
    """
    decompress = _decoder(encoding)
    try:
        async with asyncio.timeout(limits.seconds):
            body.data = await _receive_all(receive, limits, body)
    except TimeoutError:
        raise TooSlow(f"the body took longer to arrive than {limits.time_limit()}") from None
    if decompress is None:
        if len(body.data) > limits.decompressed:
            raise _too_large(limits.decompressed_limit(), "uncompressed")
        return
    work = _Decompression(decompress(body.data), limits.decompressed_limit(), body)
    try:
        if len(body.data) > _ON_LOOP_BYTES or not work.go_on(16 * _ON_LOOP_BYTES):
            await asyncio.to_thread(work.go_on, limits.decompressed)
        body.data = work.result()
    finally:
        work.let_go()


async def _receive_all(receive: Receive, limits: BodyLimits, body: HeldBody) -> bytes:
    parts: list[bytes] = []
    more = True
    try:
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
            del message
            body.receive(len(parts[-1]))
            if body.arrived > limits.received:
                raise _too_large(limits.received_limit(), "as it was sent")
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        parts.clear()  # a failure's traceback keeps this frame until garbage collection


def _too_large(limit: Limit, how: str) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger {how} than {limit}")


_Decompress = Callable[[bytes], Generator[bytes, None, None]]


class _Decompression:
    """Decompression of a body. After `let_go`, tracebacks that outlive a failure keep none of its bytes."""

    def __init__(self, parts: Generator[bytes, None, None], limit: Limit, body: HeldBody) -> None:
        self._parts, self._limit, self._body = parts, limit, body
        self._whole = io.BytesIO()

    def go_on(self, until: int) -> bool:
        """Decompress until more than `until` bytes are there; return True at the end.

        Raises:
            BodyTooLarge, Malformed, Overloaded: as `read_body`.
        """
        try:
            while self._whole.tell() <= until:
                size = self._whole.write(next(self._parts))
                if self._whole.tell() > self._limit.value:
                    raise _too_large(self._limit, "decompressed")
                self._body.hold(size)
        except StopIteration:
            return True
        except (zlib.error, zstandard.ZstdError, EOFError) as error:
            raise Malformed(f"the compressed body is damaged: {error}") from error
        return False

    def result(self) -> bytes:
        """Return all of it."""
        return self._whole.getvalue()  # its own memory, not a copy

    def let_go(self) -> None:
        """Free the decompressed bytes."""
        self._parts.close()
        self._whole.close()


def _decoder(encoding: str) -> _Decompress | None:
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return None
    if name not in _DECODERS:
        msg = f"content-encoding {name!r} is not supported; use one of: {', '.join(sorted(_DECODERS))}"
        raise UnknownType(msg)
    return _DECODERS[name]


def _gzip(raw: bytes) -> Generator[bytes, None, None]:
    return _inflate(raw, zlib.MAX_WBITS | 16)


def _deflate(raw: bytes) -> Generator[bytes, None, None]:
    is_zlib = len(raw) > 1 and raw[0] & 0x0F == zlib.DEFLATED and (raw[0] << 8 | raw[1]) % 31 == 0
    return _inflate(raw, zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


def _inflate(raw: bytes, window_bits: int) -> Generator[bytes, None, None]:
    inflater = zlib.decompressobj(window_bits)
    for start in range(0, len(raw), _FEED):
        rest = raw[start : start + _FEED]
        while rest:
            if inflater.eof:  # gzip allows several members one after the other, and zeros between them
                rest = rest.lstrip(b"\0")
                if not rest:
                    break
                inflater = zlib.decompressobj(window_bits)
            yield inflater.decompress(rest, _STEP)
            rest = inflater.unconsumed_tail or inflater.unused_data
    while not inflater.eof:
        part = inflater.decompress(b"", _STEP)
        if not part:
            raise EOFError(_CUT_OFF)
        yield part


def _zstd(raw: bytes) -> Generator[bytes, None, None]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    frame = decompressor.decompressobj()
    for start in range(0, len(raw), _ZSTD_FEED):
        rest = raw[start : start + _ZSTD_FEED]
        while rest:
            if frame.eof:
                frame = decompressor.decompressobj()
            yield frame.decompress(rest)
            rest = frame.unused_data
    if not frame.eof:  # the reader of `zstandard` would accept a truncated frame
        raise EOFError(_CUT_OFF)


_DECODERS: dict[str, _Decompress] = {"gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate, "zstd": _zstd}
