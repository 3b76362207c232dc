"""A picture for tests, byte by byte."""

import struct
import zlib


def a_png(wide: int = 2, high: int = 2) -> bytes:
    """Build a whole picture, or with great numbers the beginning of one that says so."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\xff\0\0" * wide for _ in range(high)) if wide * high < 10_000 else b"\0"
    head = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
