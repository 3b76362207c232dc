"""The process that sends spans during a soak: at a constant rate, each request until it is answered, over restarts.

Each second it prints a line about the answered requests; when its input ends it writes which traces were sent and which
were acknowledged, and prints a last line.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click
import numpy as np

from benchmarks.generator import Door
from benchmarks.senders import Acknowledged, Refused, Sender, connect
from benchmarks.spans import SPANS_PER_TRACE, Requests

DOORS: Final[tuple[tuple[Door, int, int, float], ...]] = (("grpc", 512, 4, 0.8), ("http", 10, 8, 0.2))
"""Spans a request, connections, and the share of all spans."""

PAUSE_S: Final = 0.5  # before an unanswered request is sent again


@dataclass(slots=True)
class Tally:
    """Requests that were sent, and their outcomes; answers since the last line."""

    sent: bytearray = field(default_factory=bytearray)  # trace ids
    acknowledged: bytearray = field(default_factory=bytearray)
    acknowledged_spans: bytearray = field(default_factory=bytearray)  # of each of these
    answers_s: list[float] = field(default_factory=list)
    spans: int = 0
    refusals: int = 0
    failures: int = 0
    rejected: int = 0
    last: str = ""  # a trace that was acknowledged

    def line(self) -> str:
        """Return the answers since the last line, as JSON."""
        milliseconds = np.array(self.answers_s or [0.0]) * 1e3
        document = {
            "spans": self.spans,
            "refusals": self.refusals,
            "failures": self.failures,
            "rejected": self.rejected,
            "p50": float(np.percentile(milliseconds, 50)),
            "max": float(milliseconds.max()),
            "trace": self.last,
        }
        self.answers_s, self.spans, self.refusals, self.failures = [], 0, 0, 0
        return json.dumps(document)


class Load:
    """Senders over both doors."""

    def __init__(self, targets: dict[Door, str], rate: float) -> None:
        self._targets = targets
        self._rate = rate
        self._stopping = asyncio.Event()
        self.tally = Tally()

    async def run(self) -> None:
        """Send until standard input ends, then until all requests are answered."""
        reading = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        reading.add_done_callback(lambda _: self._stopping.set())
        telling = asyncio.create_task(self._tell())
        async with asyncio.TaskGroup() as group:
            for door, spans, senders, share in DOORS:
                requests = Requests(spans, pool_spans=8_192)
                for _ in range(senders):
                    group.create_task(self._follow(door, requests, self._rate * share / senders / spans))
        telling.cancel()

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(1)
            print(self.tally.line(), flush=True)

    async def _follow(self, door: Door, requests: Requests, per_s: float) -> None:
        """Send at random times of a constant mean rate, catching up if late."""
        sender = await self._connected(door)
        source, due_s = random.Random(), time.monotonic()
        while not self._stopping.is_set():
            due_s += source.expovariate(per_s)
            if (early_s := due_s - time.monotonic()) > 0:
                await asyncio.sleep(early_s)
            await self._deliver(requests, sender)
        await sender.close()

    async def _connected(self, door: Door) -> Sender:
        while True:
            try:
                return await connect(door, self._targets[door])
            except OSError:  # the server is between two lives; a TimeoutError is one, too
                await asyncio.sleep(PAUSE_S)

    async def _deliver(self, requests: Requests, sender: Sender) -> None:
        request, tally = requests.next(), self.tally
        tally.sent += request.trace_ids
        while True:
            start_s = time.monotonic()
            match await sender.send(request.body):
                case Acknowledged(rejected_spans=rejected):
                    tally.answers_s.append(time.monotonic() - start_s)
                    tally.acknowledged += request.trace_ids
                    tally.acknowledged_spans += _spans_of_traces(requests.spans)
                    tally.spans += requests.spans
                    tally.rejected += rejected
                    tally.last = request.trace_id
                    return
                case Refused(retry_s=retry_s):
                    tally.refusals += 1
                    await asyncio.sleep(PAUSE_S if retry_s is None else retry_s)
                case _:
                    tally.failures += 1
                    await asyncio.sleep(PAUSE_S)


def _spans_of_traces(spans: int) -> bytes:
    whole, rest = divmod(spans, SPANS_PER_TRACE)
    return bytes([SPANS_PER_TRACE] * whole + [rest] * bool(rest))


@click.command()
@click.option("--grpc", required=True)
@click.option("--http", required=True)
@click.option("--rate", type=float, required=True, help="Spans a second.")
@click.option("--output", type=click.Path(path_type=Path), required=True)
def main(grpc: str, http: str, rate: float, output: Path) -> None:
    """Send until standard input ends."""
    load = Load({"grpc": grpc, "http": http}, rate)
    asyncio.run(load.run())
    (output / "sent").write_bytes(load.tally.sent)
    (output / "acknowledged").write_bytes(load.tally.acknowledged)
    (output / "acknowledged_spans").write_bytes(load.tally.acknowledged_spans)
    print(load.tally.line(), flush=True)


if __name__ == "__main__":
    main()
