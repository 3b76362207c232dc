"""Load a server with one hostile client of each kind, and measure the effect on its well-behaved clients.

`python -m benchmarks.hostile_soak --minutes 120`. The server has its default settings, keys, four connections to models
that misbehave, a rule that checks the arguments of tool calls, and the usual 1,024 open files.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import httpx
import numpy as np

from benchmarks.hostile_clients import JUDGES, Target, hostile, well_behaved
from benchmarks.server import Server, tracejury
from benchmarks.soak_clients import Asked, Asking
from benchmarks.soak_report import MIB, Judgement, by_client, growth
from tests.model_server import Hangs, Sends, Status, Streams, a_model

SAMPLE_S: Final = 5.0
LARGEST_P99_MS: Final = 1_000.0
LOG_BYTES: Final = 10_000_000
LOG_MINUTES: Final = 120.0  # the time that LOG_BYTES are for
STOP_S: Final = 10.0
GROWTH_BYTES: Final = 64 << 20  # over the second half; DuckDB frees its memory of row groups late
OPEN_FILES: Final = 1_024
ROLES: Final = ("viewer", "ingest", "hostile viewer", "hostile ingest", "hostile editor")
RULE: Final = """\
name: arguments
target: TRACE
conditions: [{field: span_type, op: "=", value: tool}]
evaluator: tool_argument_schema
"""
STEPS: Final = {
    "pausing": Status(429, headers={"Retry-After": "3600"}),
    "dripping": Streams(chunk=b" ", pause_s=1.0),
    "hanging": Hangs(),
    "large": Sends(b'{"choices": "' + b"a" * (30 << 20) + b'"}'),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Resource usage of the server at one moment."""

    at_s: float
    rss_bytes: int  # of all its processes


def run(server: Server, target: Target, minutes: float) -> tuple[list[Sample], dict[str, Asked], dict[str, Asked]]:
    """Start all clients on the server; return samples, and the responses to well-behaved and hostile clients."""
    samples: list[Sample] = []
    start_s = time.monotonic()
    with Asking(target.api, hostile(target)) as bad:
        with Asking(target.api, well_behaved(target)) as good:
            while (at_s := time.monotonic() - start_s) < minutes * 60 and server.is_running:
                samples.append(Sample(at_s=at_s, rss_bytes=server.rss_bytes()))
                time.sleep(SAMPLE_S)
        took_s = _stop(server)
    click.echo(f"SIGTERM ended the server after {took_s:.1f} s", err=True)
    good.results["stop"] = Asked(took_ms=[1e3 * took_s])
    return samples, good.results, bad.results


def _stop(server: Server) -> float:
    start_s = time.monotonic()
    with suppress(RuntimeError):
        server.stop()
    return time.monotonic() - start_s


def judge(samples: Sequence[Sample], good: Mapping[str, Asked], log_bytes: int, minutes: float) -> Iterator[Judgement]:
    """Compare the measurements with the promises."""
    for name, answers in good.items():
        if name == "stop":
            yield Judgement(
                promise="SIGTERM ends the server while hostile clients ask",
                holds=answers.took_ms[0] < STOP_S * 1e3,
                measured=f"after {answers.took_ms[0] / 1e3:.1f} s",
            )
            continue
        p99_ms = float(np.percentile(answers.took_ms, 99)) if answers.took_ms else np.inf
        yield Judgement(
            promise=f"{name}: p99 below {LARGEST_P99_MS:,.0f} ms, each request answered",
            holds=p99_ms < LARGEST_P99_MS and not answers.statuses,
            measured=f"{p99_ms:,.0f} ms of {len(answers.took_ms):,}; {answers.statuses or 'no failures'}",
        )
    half = [sample for sample in samples if sample.at_s > minutes * 30]
    grew, scatter = growth([(sample.at_s, sample.rss_bytes) for sample in half])
    yield Judgement(
        promise="memory is flat",
        holds=grew < max(scatter, GROWTH_BYTES),
        measured=f"{grew / MIB:+,.0f} MiB in the second half, scattered by {scatter / MIB:,.0f} about "
        f"{np.mean([sample.rss_bytes for sample in half]) / MIB:,.0f}; at most "
        f"{max(sample.rss_bytes for sample in samples) / MIB:,.0f}",
    )
    limit = LOG_BYTES * minutes / LOG_MINUTES
    yield Judgement(
        promise=f"the log stays below {LOG_BYTES / 1e6:.0f} MB in {LOG_MINUTES:.0f} minutes",
        holds=log_bytes < limit,
        measured=f"{log_bytes / 1e6:.2f} MB in {minutes:g} minutes",
    )


@contextmanager
def a_target(directory: Path) -> Iterator[tuple[Server, Target]]:
    """Start a server with keys and with connections to models that misbehave."""
    data, rules, admin = directory / "data", directory / "rules", "a" * 64
    rules.mkdir()
    (rules / "arguments.yaml").write_text(RULE)
    with ExitStack() as stack:
        models = {name: stack.enter_context(a_model(STEPS[name])) for name in JUDGES}
        price = {"inputUsdPerMillion": 1, "outputUsdPerMillion": 1}
        connections = {
            name: {"baseUrl": model.base_url, "model": "scripted", "price": price} for name, model in models.items()
        }
        configuration = directory / "config.yaml"
        configuration.write_text(
            json.dumps({"quack": "127.0.0.1:0", "rules": str(rules), "llm_connections": connections})
        )
        command = [*tracejury(data), "--config", str(configuration)]
        server = stack.enter_context(Server(command, data, key=admin))
        yield server, _target(server, admin)


def _target(server: Server, admin: str) -> Target:
    keys = {}
    with httpx.Client(base_url=server.api, headers={"authorization": f"Bearer {admin}"}, trust_env=False) as client:
        for name in ROLES:
            body = {"name": name, "role": name.removeprefix("hostile ").upper()}
            keys[name] = client.post("/api/v1/api-keys", json=body).raise_for_status().json()["key"]
    return Target(
        api=server.api,
        otlp_http=server.target("http"),
        grpc=server.target("grpc"),
        quack=server.quack,
        keys=keys,
    )


@click.command()
@click.option("--minutes", type=click.FloatRange(min=1), default=120.0, show_default=True)
@click.option("--directory", type=click.Path(exists=True, file_okay=False, path_type=Path), help="The disk to use.")
def main(minutes: float, directory: Path | None) -> None:
    """Run the soak, print the measurements, and exit with 1 if a promise was not kept."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with tempfile.TemporaryDirectory(prefix="tracejury-hostile-", dir=directory) as name:
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))  # what the server inherits
        with a_target(Path(name)) as (server, target):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            samples, good, bad = run(server, target, minutes)
        log = Path(name, "data.log")
        judgements = list(judge(samples, good, log.stat().st_size, minutes))
        print("\n".join([*by_client(good), "", *by_client(bad), "", *map(str, judgements)]))
        if not all(each.holds for each in judgements):
            click.echo(log.read_text(errors="replace")[-5_000:], err=True)
            raise SystemExit(1)


if __name__ == "__main__":
    main()
