"""Messages between the server and a child process: a JSON header and Arrow tables, each prefixed by its length."""

import json
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from storage.ingest.batch import ipc_stream

_COUNT, _LENGTH = struct.Struct("<I"), struct.Struct("<Q")

Header = dict[str, Any]


def send(file: BinaryIO, header: Header, tables: Sequence[pa.Table]) -> None:
    """Write one message.

    Raises:
        OSError: the other side is gone.
    """
    parts: list[pa.Buffer | bytes] = [json.dumps(header).encode(), *map(ipc_stream, tables)]
    file.write(_COUNT.pack(len(parts)))
    for part in parts:
        file.write(_LENGTH.pack(len(memoryview(part))))
        file.write(memoryview(part))
    file.flush()


def receive(file: BinaryIO) -> tuple[Header, list[pa.Table]] | None:
    """Read one message; None when the other side has closed.

    Raises:
        EOFError: the message is cut off.
    """
    start = file.read(_COUNT.size)
    if not start:
        return None
    (count,) = _COUNT.unpack(_exactly(start, _COUNT.size))
    parts = []
    for _ in range(count):
        (length,) = _LENGTH.unpack(_exactly(file.read(_LENGTH.size), _LENGTH.size))
        parts.append(_exactly(file.read(length), length))
    return json.loads(parts[0]), [pa.ipc.open_stream(part).read_all() for part in parts[1:]]


def _exactly(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise EOFError("the message is cut off")
    return data
