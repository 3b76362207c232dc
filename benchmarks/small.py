"""Cost of a small server: idle, with some hundred spans a second, and with some judged each second."""

from __future__ import annotations

import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.generator import Job
from benchmarks.scenarios import Bench
from benchmarks.server import Server, tracejury
from tests.model_server import Says, a_model
from tests.serving import PROTOBUF, an_export

IDLE_S: Final = 30.0
LOAD_S: Final = 30.0
SETTLE_S: Final = 5.0  # some threads begin to look seconds after the start
MODEL_S: Final = 0.3  # that the model takes for an answer
SPANS: Final = 8  # in a request
SENDERS: Final = 4
LOOKS: Final = 10  # some seconds, less than the load that they are made beside
LOOK_S: Final = 0.02
LATEST_S: Final = 30.0

REGEX: Final[dict[str, Any]] = {
    "conditions": [{"field": "name", "op": "contains", "value": "a"}],
    "evaluator": "regex",
    "config": {"pattern": "x"},
    "sampleRate": 0,
}
JUDGE: Final[dict[str, Any]] = {
    "name": "judged",
    "criteria": "Is it good?",
    "connectionId": "model",
    "budget": {"callsPerDay": 1_000_000},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallLoad:
    """A load, and its cost for all processes of the server."""

    rate: float  # spans/s
    rules: int
    is_judged: bool
    acknowledged: int  # spans
    cpu_s: float
    seconds: float  # duration, with the work in the seconds afterwards
    memory_mib: float  # PSS of all processes at the end
    visible_s: float | None  # median of the time from an answer until SQL has its spans, during such a load

    @property
    def processors(self) -> float:
        """Return the processors that it kept busy."""
        return self.cpu_s / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """A small server: its start, without work, and with little."""

    start_cpu_s: float  # until it is ready, on an empty directory
    idle_processors: float
    idle_memory_mib: float  # PSS of all processes; the API was not asked for
    loads: list[SmallLoad]


def measure_small(bench: Bench, seconds: float) -> Small:
    """Measure an idle server, and then each load with a server of its own."""
    data = bench.directory / "small-idle"
    with Server(tracejury(data), data) as server:
        start_s = server.all_cpu_s()
        time.sleep(min(SETTLE_S, seconds))
        before_s, began_s = server.all_cpu_s(), time.monotonic()
        time.sleep(min(IDLE_S, seconds))
        idle = (server.all_cpu_s() - before_s) / (time.monotonic() - began_s)
        memory = server.pss_bytes() / (1 << 20)
        server.stop()
    loads = [_measure(bench, seconds, rate, rules) for rate, rules in ((104, 0), (104, 20), (1_000, 0), (1_000, 20))]
    with a_model(_answer_later) as model:
        judged = _measure(bench, seconds, 3, 1, model.base_url)
    return Small(start_cpu_s=start_s, idle_processors=idle, idle_memory_mib=memory, loads=[*loads, judged])


def _answer_later(_: object) -> Says:
    time.sleep(MODEL_S)
    return Says({"score": 1})


def _measure(bench: Bench, seconds: float, rate: float, rules: int, model: str | None = None) -> SmallLoad:
    folder = bench.directory / f"small-{rate:g}-{rules}"
    data = folder / "data"
    command = [*tracejury(data), "--rules", str(_write_rules(folder, rules, model)), "--config", str(folder / "c.json")]
    spans = SPANS if model is None else 1
    with Server(command, data) as server:
        job = Job(door="http", target=server.target("http"), spans=spans, senders=SENDERS, seconds=seconds, rate=rate)
        bench.generator.run(_shorter(job, seconds / 4))  # what the first work loads
        time.sleep(min(SETTLE_S, seconds))
        before_s = server.all_cpu_s()
        result = bench.generator.run(job)
        time.sleep(min(SETTLE_S, seconds))
        cpu_s = server.all_cpu_s() - before_s
        memory = server.pss_bytes() / (1 << 20)
        visible_s = None if model else _visible_s(bench, server, _shorter(job, seconds / 2))
        server.stop()
    return SmallLoad(
        rate=rate,
        rules=rules,
        is_judged=model is not None,
        acknowledged=result.acknowledged_spans,
        cpu_s=cpu_s,
        seconds=result.elapsed_s,
        memory_mib=memory,
        visible_s=visible_s,
    )


def _write_rules(folder: Path, number: int, model: str | None) -> Path:
    """Write the settings, and `number` rules; those without a model match everything and sample nothing."""
    rules = folder / "rules"
    rules.mkdir(parents=True)
    for place in range(number):
        rule = JUDGE if model else REGEX | {"name": f"rule {place}"}
        (rules / f"{place}.yaml").write_text(json.dumps(rule), encoding="utf-8")
    connection = {"baseUrl": model, "model": "scripted", "protocol": "CHAT_COMPLETIONS"}
    settings = {"llm_connections": {"model": connection}} if model else {}
    (folder / "c.json").write_text(json.dumps(settings), encoding="utf-8")
    return rules


def _shorter(job: Job, seconds: float) -> Job:
    return Job(door=job.door, target=job.target, spans=job.spans, senders=job.senders, seconds=seconds, rate=job.rate)


def _visible_s(bench: Bench, server: Server, job: Job) -> float:
    """Measure how long spans take to be visible while others come: the median."""
    with ThreadPoolExecutor(1) as loading, httpx.Client(timeout=60, trust_env=False) as client:
        _look(client, server, f"{LOOKS:032x}")  # loads the API
        load = loading.submit(bench.generator.run, job)
        times = [_look(client, server, f"{number:032x}") for number in range(1, LOOKS)]
        load.result()
    return statistics.median(times)


def _look(client: httpx.Client, server: Server, trace_id: str) -> float:
    """Send a span, and ask until it is visible."""
    export = an_export(trace_id, "probe").SerializeToString()
    address = f"http://{server.target('http')}/v1/traces"
    client.post(address, content=export, headers={"content-type": PROTOBUF}).raise_for_status()
    began_s = time.monotonic()
    question = {"sql": f"SELECT count(*) FROM spans WHERE trace_id = '{trace_id}'"}
    while time.monotonic() < began_s + LATEST_S:
        answer = client.post(f"{server.api}/api/v1/sql", json=question).raise_for_status()
        if answer.json()["rows"][0][0]:
            return time.monotonic() - began_s
        time.sleep(LOOK_S)
    return LATEST_S
