"""What reading JSON takes in memory, bounded: a value of three bytes takes up to 250 on its way to protobuf."""

from collections.abc import Callable
from typing import TypeVar

from collector.doors.body import HeldBody
from collector.doors.status import BodyTooLarge
from collector.ingest import ByteBudget
from collector.otlp.json_request import memory_needed

T = TypeVar("T")

_JSON_BYTES = 360 << 20
"""For one body and for all that are being read. Of agent spans with plain texts, 24 MiB of JSON take as much."""


class JsonReader:
    """Reads JSON bodies, in worker threads, as far as there is memory for it."""

    def __init__(self) -> None:
        self._budget = ByteBudget(_JSON_BYTES)

    def read(self, data: bytes, parse: Callable[[bytes], T]) -> T:
        """What `parse` makes of the body.

        Raises:
            TooLarge: the body has more parts than can be read at all.
            Overloaded: other bodies are being read.
        """
        needed = memory_needed(data)
        if needed > _JSON_BYTES:
            limit = f"{_JSON_BYTES >> 20} MiB, which is the limit"
            raise BodyTooLarge(
                f"reading this JSON would take more memory than {limit}; send fewer spans at once, or protobuf"
            )
        working = HeldBody(self._budget)
        try:
            working.hold(needed)
            return parse(data)
        finally:
            working.let_go()
