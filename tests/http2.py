"""Frames of HTTP/2 for clients that libraries of gRPC would not be."""

from tests.access import TRACE_EXPORT

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"
"""With empty settings: a connection that gRPC's core takes for one of a client."""


def headers(stream: int, *, key: str, timeout: str | None = None) -> bytes:
    """Begin a call in HTTP/2, as a client does that sends its message later."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": TRACE_EXPORT,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
        "authorization": f"Bearer {key}",
        **({} if timeout is None else {"grpc-timeout": timeout}),
    }
    block = bytearray()
    for name, value in fields.items():
        assert len(value) < 127  # a longer one has a length of its own kind
        block += b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
    return len(block).to_bytes(3) + b"\x01\x04" + stream.to_bytes(4) + block


def reset(stream: int) -> bytes:
    """Leave a call."""
    return b"\0\0\x04\x03\0" + stream.to_bytes(4) + b"\0\0\0\x08"
