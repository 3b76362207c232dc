"""`make soak`: an hour of mixed load on a server at default settings, with restarts and kills, and its report.

The load is half of what the machine takes: of the rate at which spans are stored, read and matched, which is measured
first with each kind of request that the load has. In the first quarter the server is stopped and killed in turn; the
rest is one life, over the second half of which memory and lag are judged. At the end it is killed once more, starts
again, and every acknowledged span has to be in its file.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import httpx

from benchmarks.generator import ROOT, Generator, Job
from benchmarks.server import Server, tracejury_at
from benchmarks.soak_clients import Asked, Asking, Traces, clients
from benchmarks.soak_load import DOORS
from benchmarks.soak_report import Sample, judge, look, tables
from tests.model_server import Says, a_model

VERDICT: Final = Says({"score": 0.9, "reason": "good"})
SAMPLE_S: Final = 5.0
CALIBRATION_S: Final = 60.0  # in eight seconds the queues take much of what then lasts no longer
DRAIN_S: Final = 900.0
RESTARTS: Final = ((0.05, "stop"), (0.1, "kill"), (0.15, "stop"), (0.2, "kill"), (0.25, "stop"))
"""At which part of the time, and how."""

RULES: Final = {
    "tool-errors.yaml": "name: tool errors\ntarget: TRACE\nevaluator: tool_error\n"
    "conditions: [{field: span_type, op: '=', value: tool}]\n",
    "helpful.yaml": "name: helpful\ncriteria: It helps.\nsampleRate: 0.02\nconnectionId: local\n"
    "conditions: [{field: span_type, op: '=', value: llm}]\nbudget: {callsPerDay: 100000}\n",
}


@dataclass(slots=True)
class Soak:
    """A soak while it runs."""

    data: Path
    command: list[str]
    minutes: float
    samples: list[Sample] = field(default_factory=list)
    seconds: list[dict[str, Any]] = field(default_factory=list)  # lines of the load, with the time of each
    traces: Traces = field(default_factory=Traces)
    lives: int = 0
    began_s: float = 0.0

    def now_s(self) -> float:
        """Return the time since the load began."""
        return time.monotonic() - self.began_s


def run(soak: Soak, rate: float) -> dict[str, Asked]:
    """Load a server, and restart it now and then, until the time is over and all is answered."""
    server = Server(soak.command, soak.data).__enter__()
    soak.began_s = time.monotonic()
    try:
        with _load(soak, server, rate), Asking(server.api, clients(soak.traces, soak.minutes)) as asking:
            due = list(RESTARTS)
            while soak.now_s() < soak.minutes * 60:
                time.sleep(SAMPLE_S)
                if due and soak.now_s() > due[0][0] * soak.minutes * 60:
                    server = _again(soak, server, due.pop(0)[1])
                else:
                    _sample(soak, server)
        server = _again(soak, server, "kill")
        _drain(server)
        _end(server, "stop")
        return asking.results
    finally:
        server.__exit__(None, None, None)


def _again(soak: Soak, server: Server, how: str) -> Server:
    """Stop the server, and start another one on its data."""
    click.echo(f"{soak.now_s():6.0f} s: {how}", err=True)
    _end(server, how)
    server.__exit__(None, None, None)
    soak.lives += 1
    start_s = time.monotonic()
    again = Server(soak.command, soak.data).__enter__()
    click.echo(f"{soak.now_s():6.0f} s: ready after {time.monotonic() - start_s:.1f} s", err=True)
    return again


def _end(server: Server, how: str) -> None:
    if how == "kill":
        server.kill()
    else:
        server.stop()


@contextmanager
def _load(soak: Soak, server: Server, rate: float) -> Iterator[None]:
    """Run the sending process during the block, and end it with its children."""
    command = [sys.executable, "-m", "benchmarks.soak_load", "--rate", str(rate), "--output", str(soak.data.parent)]
    command += ["--grpc", server.target("grpc"), "--http", server.target("http")]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None

    def follow() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            sample = json.loads(line)
            soak.seconds.append(sample | {"at_s": soak.now_s()})
            if sample["trace"]:
                soak.traces.add(sample["trace"])

    following = threading.Thread(target=follow)
    following.start()
    try:
        yield
        process.stdin.close()
        assert process.wait(DRAIN_S) == 0
    finally:
        process.kill()
        process.wait()
        following.join()


def _sample(soak: Soak, server: Server) -> None:
    with suppress(httpx.HTTPError):
        numbers = _numbers(server)
        soak.samples.append(
            Sample(
                at_s=soak.now_s(),
                life=soak.lives,
                rss_bytes=server.rss_bytes(),
                own_bytes=int(numbers["process_resident_memory_bytes"]),
                file_bytes=int(numbers["tracejury_database_bytes"]),
                disk_bytes=int(sum(value for name, value in numbers.items() if "disk_bytes{" in name)),
                lag_s=numbers["tracejury_matching_lag_seconds"],
                jobs=int(sum(value for name, value in numbers.items() if name.startswith("tracejury_jobs"))),
                backlog_bytes=int(numbers["tracejury_backlog_bytes"]),
            )
        )


def _numbers(server: Server) -> dict[str, float]:
    text = httpx.get(f"{server.api}/metrics", timeout=30).raise_for_status().text
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def _drain(server: Server) -> None:
    until_s = time.monotonic() + DRAIN_S
    while (numbers := _numbers(server))["tracejury_backlog_bytes"] or numbers["tracejury_unmatched_spans"]:
        assert time.monotonic() < until_s, "what was acknowledged is not committed and matched"
        time.sleep(1)


def calibrate(command: list[str], data: Path) -> float:
    """Measure how many spans a second of the load's requests are stored, read and matched."""
    seconds_a_span = 0.0
    with Generator(pool_spans=8_192) as generator, Server(command, data) as server:
        for door, spans, senders, share in DOORS:
            job = Job(door=door, target=server.target(door), spans=spans, senders=senders, seconds=CALIBRATION_S)
            result = generator.run(job)
            _drain(server)
            took_s = time.monotonic() - result.started_s
            seconds_a_span += share * took_s / result.acknowledged_spans
        server.stop()
    return 1 / seconds_a_span


def _command(data: Path, model: str) -> list[str]:
    """Return a server at default settings but for its rules and their judge, at addresses that stay the same."""
    folder = data.with_suffix(".rules")
    folder.mkdir()
    for name, text in RULES.items():
        (folder / name).write_text(text)
    connection = {"baseUrl": model, "model": "scripted", "price": {"inputUsdPerMillion": 1, "outputUsdPerMillion": 1}}
    configuration = data.with_suffix(".yaml")
    configuration.write_text(json.dumps({"rules": str(folder), "llm_connections": {"local": connection}}))
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    return [*tracejury_at(data, addresses), "--config", str(configuration)]


@click.command()
@click.option("--minutes", type=click.FloatRange(min=2), default=60.0, show_default=True)
@click.option("--rate", type=float, help="Spans a second. [default: half of what the machine takes]")
@click.option("--directory", type=click.Path(exists=True, file_okay=False, path_type=Path), help="The disk to use.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write every sample to this file.")
def main(minutes: float, rate: float | None, directory: Path | None, json_file: Path | None) -> None:
    """Soak a server, print the measurements, and exit with 1 if a promise was not kept."""
    with tempfile.TemporaryDirectory(prefix="tracejury-soak-", dir=directory) as matcher_db, a_model(VERDICT) as model:
        if rate is None:
            first = Path(matcher_db, "calibration")
            rate = calibrate(_command(first, model.base_url), first) / 2
        click.echo(f"{rate:,.0f} spans/s for {minutes:g} minutes", err=True)
        data = Path(matcher_db, "data")
        soak = Soak(data=data, command=_command(data, model.base_url), minutes=minutes)
        answers = run(soak, rate)
        kept = look(data, soak.traces)
        judgements = judge(soak.samples, minutes * 60, kept, answers)
        if json_file is not None:
            samples = [asdict(sample) for sample in soak.samples]
            json_file.write_text(json.dumps({"samples": samples, "seconds": soak.seconds, "kept": asdict(kept)}))
        print(tables(soak.samples, soak.seconds, answers, minutes * 60))
        print("\n".join(map(str, judgements)))
        if not all(each.holds for each in judgements):
            log = data.with_suffix(".log").read_text(errors="replace").splitlines()
            click.echo("\n".join(line for line in log if "INFO" not in line)[-5_000:], err=True)
            raise SystemExit(1)


if __name__ == "__main__":
    main()
