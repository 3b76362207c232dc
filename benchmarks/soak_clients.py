"""Clients of a server during a soak: dashboards, Jaeger, people, deletions, sweeps and backups."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

import httpx

from benchmarks.panels import documented_queries

TIMEOUT_S: Final = 300.0
SETTLE_S: Final = 5.0  # after its acknowledgement a trace is visible
MICROSECONDS: Final = 1_000_000
_SHOWN_CHARACTERS: Final = 400  # of a response, and of its request


@dataclass(slots=True)
class Asked:
    """Responses to one kind of client."""

    took_ms: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)  # statuses other than success, and missing answers
    texts: dict[str, str] = field(default_factory=dict)  # by the first answer with each status

    def count(self, status: str, text: str = "") -> None:
        """Note an answer that was not a success."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.texts.setdefault(status, text)


class Traces:
    """Traces that were acknowledged, some of which are deleted."""

    def __init__(self) -> None:
        self._known: deque[tuple[float, str]] = deque(maxlen=10_000)
        self.deleted: set[str] = set()
        self.maybe_deleted: set[str] = set()

    def add(self, trace_id: str) -> None:
        """Know of one more."""
        self._known.append((time.monotonic(), trace_id))

    def some(self) -> str | None:
        """Return one that is visible, and was not deleted."""
        old_s = time.monotonic() - SETTLE_S
        known = [each for at_s, each in self._known.copy() if at_s < old_s and each not in self.maybe_deleted]
        return random.choice(known) if known else None


@dataclass(frozen=True, slots=True)
class Client:
    """A kind of client: its requests, and their interval."""

    name: str
    every_s: float
    requests: Iterator[Callable[[httpx.Client], httpx.Response | None]]


def clients(traces: Traces, minutes: float) -> list[Client]:
    """Return all kinds. In a soak shorter than an hour, intervals of rare requests are shortened in proportion."""
    share = min(minutes / 60, 1.0)
    return [
        Client("dashboards", 2.0, (_sql(query) for query in itertools.cycle(documented_queries()))),
        Client("Jaeger", 2.0, _jaeger(traces)),
        Client("pages", 3.0, (_get(path) for path in itertools.cycle(("/traces", "/rules", "/status", "/quality")))),
        Client("deletions", 5.0, (_deletion(traces, by_session=number % 4 == 3) for number in itertools.count())),
        Client("sweeps", 600 * share, (_sweep for _ in itertools.count())),
        Client("backups", 900 * share, (_backup for _ in itertools.count())),
        Client("metrics", 15.0, (_get("/metrics") for _ in itertools.count())),
    ]


class Asking:
    """Clients, each in a thread of its own, from entering the block to its end. They wait while there is no server."""

    def __init__(self, api: str, kinds: list[Client]) -> None:
        self._api = api
        self._stopping = threading.Event()
        self.results = {kind.name: Asked() for kind in kinds}
        self._threads = [threading.Thread(target=self._run, args=(kind,), daemon=True) for kind in kinds]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)

    def _run(self, kind: Client) -> None:
        result = self.results[kind.name]
        with httpx.Client(base_url=self._api, timeout=TIMEOUT_S, trust_env=False) as client:
            while not self._stopping.wait(kind.every_s):
                start_s = time.perf_counter()
                try:
                    answer = next(kind.requests)(client)
                except (httpx.TransportError, OSError):
                    result.count("no answer")
                    continue
                if answer is None:
                    continue
                if answer.is_success:
                    result.took_ms.append(1e3 * (time.perf_counter() - start_s))
                else:
                    result.count(
                        str(answer.status_code), f"{answer.text[:_SHOWN_CHARACTERS]}, of {_asked_for(answer.request)}"
                    )


def _asked_for(request: httpx.Request) -> str:
    return " ".join((request.method, request.url.path, request.content.decode(errors="replace")[:_SHOWN_CHARACTERS]))


def _sql(query: str) -> Callable[[httpx.Client], httpx.Response]:
    return lambda client: client.post("/api/v1/sql", json={"sql": query})


def _get(path: str) -> Callable[[httpx.Client], httpx.Response]:
    return lambda client: client.get(path)


def _jaeger(traces: Traces) -> Iterator[Callable[[httpx.Client], httpx.Response | None]]:
    while True:
        yield _get("/jaeger/api/services")
        yield _get("/jaeger/api/services/bench-agent/operations")
        end_us = time.time_ns() // 1000
        window = f"start={end_us - 600 * MICROSECONDS}&end={end_us}"
        yield _get(f"/jaeger/api/traces?service=bench-agent&limit=20&{window}")
        trace_id = traces.some()
        if trace_id is not None:
            yield _get(f"/jaeger/api/traces/{trace_id}")


def _deletion(traces: Traces, *, by_session: bool) -> Callable[[httpx.Client], httpx.Response | None]:
    def delete(client: httpx.Client) -> httpx.Response | None:
        trace_id = traces.some()
        if trace_id is None:
            return None
        traces.maybe_deleted.add(trace_id)
        path = f"?sessionId=conv_{trace_id[:16]}" if by_session else f"/{trace_id}"
        answer = client.delete(f"/api/v1/traces{path}")
        if answer.is_success and answer.json()["deletedTraces"]:
            traces.deleted.add(trace_id)
        return answer

    return delete


def _sweep(client: httpx.Client) -> httpx.Response:
    return client.post("/api/v1/sweep")


def _backup(client: httpx.Client) -> httpx.Response:
    with client.stream("POST", "/api/v1/backup") as answer:
        for _ in answer.iter_bytes(1 << 20):
            pass
        return answer
