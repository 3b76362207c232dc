"""Cost of small requests of many parts: `python -m benchmarks.crowding` prints CPU and memory for each byte of body.

Each kind of `benchmarks.crowds` is decoded in a process of its own, up to what the spool would write, beside an
ordinary request of the same run. Lines of kinds that cost more than the goal are marked; `--all` prints the others too.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.crowds import Crowd, crowds
from benchmarks.spans import Requests
from collector.memory import keep_freed_memory
from collector.otlp.decode import Receipt, Request, decode
from collector.otlp.signals import TRACES, Signal

COUNT: Final = 100_000
MOST_US, MOST_BYTES, FREE_S, FREE_BYTES = 2.0, 30.0, 0.05, 16 << 20
"""The goal, a byte of body; and what any request may cost. The free memory is a guess: what a process takes anyhow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a request."""

    name: str
    body_bytes: int
    cpu_s: float
    peak_bytes: int  # over what the process held before
    outcome: str

    @property
    def us(self) -> float:
        """Return the microseconds of CPU per byte, beyond what any request may cost."""
        return max(self.cpu_s - FREE_S, 0.0) / self.body_bytes * 1e6

    @property
    def bytes(self) -> float:
        """Return the bytes of memory per byte, beyond what any request may cost."""
        return max(self.peak_bytes - FREE_BYTES, 0) / self.body_bytes

    @property
    def is_within(self) -> bool:
        """Return True if the goal is met."""
        return self.us <= MOST_US and self.bytes <= MOST_BYTES


def measure_crowds(count: int, kinds: Sequence[Crowd]) -> list[Cost]:
    """Measure an ordinary request, and then each kind with its field repeated `count` times."""
    keep_freed_memory()
    ordinary = Requests(512).next().body
    _work(TRACES, ordinary)
    costs = [measured("an ordinary request of 512 spans", TRACES, ordinary)]
    return costs + [measured(f"{kind.signal.noun}: {kind.name}", kind.signal, kind.body(count)) for kind in kinds]


def measured(name: str, signal: Signal, body: bytes) -> Cost:
    """Decode a request in a process of its own."""
    read, write = os.pipe()
    process = os.fork()
    if not process:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # reset the peak
        before_bytes, began_s = _peak_bytes(), time.process_time()
        outcome = _work(signal, body)
        fields = [time.process_time() - began_s, _peak_bytes() - before_bytes, outcome]
        os.write(write, json.dumps(fields).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        fields = json.loads(pipe.read())
    os.waitpid(process, 0)
    return Cost(name=name, body_bytes=len(body), cpu_s=fields[0], peak_bytes=fields[1], outcome=fields[2])


def _work(signal: Signal, body: bytes) -> str:
    decoded = decode([Request(body=body, signal=signal)], received_at_us=1)
    if decoded.batch.num_rows:
        decoded.batch.to_buffers()
    (outcome,) = decoded.outcomes
    if isinstance(outcome, Receipt):
        return f"{outcome.accepted} accepted, {outcome.rejected} rejected"
    return str(outcome)


def _peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    """Measure, and print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="how often the field is repeated")
    parser.add_argument("--only", default="", help="part of the names of the kinds to measure")
    parser.add_argument("--all", action="store_true", help="also print the kinds that meet the goal")
    options = parser.parse_args()
    kinds = [kind for kind in crowds() if options.only in f"{kind.signal.noun}: {kind.name}"]
    ordinary, *costs = measure_crowds(options.count, kinds)
    print("CPU | memory a byte of body | CPU as a multiple of an ordinary byte | what")
    for cost in [ordinary, *costs]:
        if options.all or cost is ordinary or not cost.is_within:
            times = cost.cpu_s / cost.body_bytes / (ordinary.cpu_s / ordinary.body_bytes)
            print(f"{cost.us:6.2f} µs {cost.bytes:6.1f} bytes {times:6.1f} times  {cost.name}: {cost.outcome}")
    print(f"{sum(cost.is_within for cost in costs)} of {len(costs)} kinds meet the goal")


if __name__ == "__main__":
    main()
