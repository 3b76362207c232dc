"""The load process: reads a job from each line of standard input and answers with a line that holds its result."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Final, Protocol

import click
import numpy as np

from benchmarks.generator import Job, Kind, Latencies, Result
from benchmarks.recorded import RecordedRequests
from benchmarks.senders import Acknowledged, Answer, Failed, Refused, Sender, connect
from benchmarks.spans import Request, Requests

FIRST_BACKOFF_S = 0.05  # guess; doubles at each refusal that names no delay
LAST_BACKOFF_S = 5.0
FAILURE_PAUSE_S = 0.1  # so that a server that is gone is not asked in a tight loop
TRACE_IDS = 40


class Supply(Protocol):
    """Source of requests."""

    def next(self) -> Request:
        """Return the next one."""
        ...

    def check(self) -> None:
        """Raise `AssertionError` unless the requests are as expected."""
        ...


SUPPLIES: Final[dict[Kind, Callable[..., Supply]]] = {"benchmark": Requests, "recorded": RecordedRequests}


class Schedule(Protocol):
    """Schedule of requests."""

    def next(self) -> float | None:
        """Return the time at which the next request is due, on the monotonic clock; None if there is no other."""
        ...


class ClosedLoop:
    """A request is due as soon as a sender is free."""

    def __init__(self, job: Job, start_s: float) -> None:
        self._end_s = start_s + job.seconds
        self._left = -(-job.limit_spans // job.spans) if job.limit_spans else sys.maxsize

    def next(self) -> float | None:
        """Return the present, until time or spans are used up."""
        now = time.monotonic()
        if now >= self._end_s or self._left == 0:
            return None
        self._left -= 1
        return now


class OpenLoop:
    """Requests are due at random times of a constant mean rate, whether or not a sender is free."""

    def __init__(self, job: Job, start_s: float, rate: float) -> None:
        self._due_s = start_s
        self._end_s = start_s + job.seconds
        self._requests_per_s = rate / job.spans
        self._random = random.Random(2)

    def next(self) -> float | None:
        """Draw the next time."""
        self._due_s += self._random.expovariate(self._requests_per_s)
        return self._due_s if self._due_s < self._end_s else None


@dataclass(slots=True)
class Tally:
    """Counts of the answers so far."""

    acknowledgements_s: list[float] = field(default_factory=list)
    refusals_s: list[float] = field(default_factory=list)
    rejected_spans: int = 0
    abandoned: int = 0
    failed: int = 0
    first_failure: str = ""
    trace_ids: list[str] = field(default_factory=list)

    def count(self, answer: Answer, took_s: float, request: Request) -> None:
        """Note one answer."""
        match answer:
            case Acknowledged(rejected_spans=rejected):
                self.acknowledgements_s.append(took_s)
                self.rejected_spans += rejected
                self._sample(request.trace_id)
            case Refused():
                self.refusals_s.append(took_s)
            case Failed(reason=reason):
                self.failed += 1
                self.first_failure = self.first_failure or reason

    def _sample(self, trace_id: str) -> None:
        # Reservoir sampling: each trace id is kept with the same probability.
        if len(self.trace_ids) < TRACE_IDS:
            self.trace_ids.append(trace_id)
        elif (place := random.randrange(len(self.acknowledgements_s))) < TRACE_IDS:
            self.trace_ids[place] = trace_id


class Load:
    """A running job."""

    def __init__(self, job: Job, requests: Supply) -> None:
        self._job = job
        self._requests = requests
        self._tally = Tally()
        self._end_s = 0.0

    async def run(self) -> Result:
        """Connect all senders, then let them send until the schedule ends."""
        job = self._job
        senders = await asyncio.gather(*(connect(job.door, job.target, job.key) for _ in range(job.senders)))
        cpu_s, start_s = time.process_time(), time.monotonic()
        self._end_s = start_s + job.seconds
        schedule = ClosedLoop(job, start_s) if job.rate is None else OpenLoop(job, start_s, job.rate)
        async with asyncio.TaskGroup() as group:
            for sender in senders:
                group.create_task(self._follow(schedule, sender))
        result = self._result(start_s, time.monotonic(), time.process_time() - cpu_s)
        for sender in senders:
            await sender.close()
        return result

    async def _follow(self, schedule: Schedule, sender: Sender) -> None:
        while (due_s := schedule.next()) is not None:
            if (early_s := due_s - time.monotonic()) > 0:
                await asyncio.sleep(early_s)
            await self._deliver(self._requests.next(), due_s, sender)

    async def _deliver(self, request: Request, due_s: float, sender: Sender) -> None:
        """Send until there is a final answer, or the next attempt would come after the end of the job."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            answer = await sender.send(request.body)
            self._tally.count(answer, time.monotonic() - due_s, request)
            if isinstance(answer, Failed):
                await asyncio.sleep(FAILURE_PAUSE_S)
            if not isinstance(answer, Refused):
                return
            pause_s = (backoff_s if answer.retry_s is None else answer.retry_s) * random.uniform(1, 1.2)
            backoff_s = min(2 * backoff_s, LAST_BACKOFF_S)
            if time.monotonic() + pause_s > self._end_s:
                self._tally.abandoned += 1
                return
            await asyncio.sleep(pause_s)
            due_s = time.monotonic()

    def _result(self, started_s: float, ended_s: float, cpu_s: float) -> Result:
        tally = self._tally
        acknowledged = len(tally.acknowledgements_s)
        return Result(
            acknowledged_spans=acknowledged * self._job.spans - tally.rejected_spans,
            rejected_spans=tally.rejected_spans,
            acknowledged=acknowledged,
            abandoned=tally.abandoned,
            failed=tally.failed,
            refusals=len(tally.refusals_s),
            started_s=started_s,
            ended_s=ended_s,
            cpu_s=cpu_s,
            acknowledgement_ms=_latencies(tally.acknowledgements_s),
            refusal_ms=_latencies(tally.refusals_s),
            trace_ids=tally.trace_ids,
            first_failure=tally.first_failure,
        )


def _latencies(seconds: list[float]) -> Latencies | None:
    if not seconds:
        return None
    p50, p99, slowest = np.percentile(np.array(seconds) * 1e3, (50, 99, 100))
    return Latencies(p50=float(p50), p99=float(p99), max=float(slowest))


@click.command()
@click.option("--pool-spans", default=16_384, show_default=True, help="Different texts to build before the first job.")
def main(pool_spans: int) -> None:
    """Run one job for each line of standard input."""
    prepared: dict[tuple[str, int], Supply] = {}
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            job = Job(**json.loads(line))
            supply = job.kind, job.spans
            if supply not in prepared:
                prepared[supply] = SUPPLIES[job.kind](job.spans, pool_spans=pool_spans)
                prepared[supply].check()
            result = runner.run(Load(job, prepared[supply]).run())
            print(json.dumps(asdict(result)), flush=True)


if __name__ == "__main__":
    main()
