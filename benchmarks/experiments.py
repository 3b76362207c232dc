"""Throughput of 100,000 items: imported, run with an empty task, scored by three evaluators, and shown.

PYTHONPATH=sdk/python/src python -m benchmarks.experiments --directory /var/tmp
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx

from benchmarks.server import Server, tracejury
from evaluators.case import parse_case
from evaluators.evaluator import run
from evaluators.registry import build
from tracejury import Builtin, Client, Dataset, Example, Experiment

ITEMS: Final = 100_000
TIMES: Final = 11
EVALUATORS: Final[Sequence[tuple[str, dict[str, Any]]]] = (
    ("exact_match", {}),
    ("regex", {"pattern": "order [0-9]+"}),
    ("length", {"maximumOutputLength": 400}),
)
PROGRAM: Final = Path(sysconfig.get_path("scripts"), "tracejury")


def a_file(folder: Path, items: int) -> Path:
    """Cases of some 300 bytes."""
    path = folder / "cases.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for at in range(items):
            answer = f"Your order {at} is on its way, and comes within {at % 9} days. " * 2
            item = {"id": f"case-{at}", "input": f"Where is order {at}?", "expectedOutput": answer}
            file.write(f"{json.dumps(item | {'metadata': {'topic': f'topic {at % 8}'}})}\n")
    return path


@contextmanager
def timed(what: str, server: Server, items: int) -> Iterator[None]:
    """Print the duration of the block, and the CPU time of server, client and the client's children."""
    began_s, server_s, own_s, child_s = time.monotonic(), server.all_cpu_s(), time.process_time(), _children_s()
    yield
    took_s = time.monotonic() - began_s
    print(
        f"{what:<34} {took_s:7.1f} s  {items / took_s:8,.0f} items/s   CPU of server "
        f"{server.all_cpu_s() - server_s:6.1f}, client {time.process_time() - own_s:6.1f}, "
        f"its children {_children_s() - child_s:6.1f} s",
        flush=True,
    )


def _children_s() -> float:
    """Return the CPU seconds of children that have ended, and of those that run."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = ended.ru_utime + ended.ru_stime
    for task in Path("/proc/self/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            command = Path(f"/proc/{child}/cmdline").read_bytes()
            if b"serve" not in command:
                used_s += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used_s


def bare(dataset: Dataset) -> float:
    """Measure the seconds of the three evaluators over all cases, called one after the other in this process."""
    evaluators = [build(name, config, None) for name, config in EVALUATORS]
    cases = [
        {
            "inputs": dict(example.inputs),
            "actualOutputs": dict(example.expected_outputs),
            "expectedOutputs": dict(example.expected_outputs),
            "metadata": dict(example.metadata),
        }
        for example in dataset
    ]

    async def judge() -> None:
        for case in cases:
            parsed = parse_case(case)
            for each in evaluators:
                await run(each, parsed)

    began_s = time.monotonic()
    asyncio.run(judge())
    return time.monotonic() - began_s


def python_evaluators() -> Sequence[Callable[[Example, dict[str, Any]], bool]]:
    """Return three functions of an application as evaluators."""

    def exact(example: Example, outputs: dict[str, Any]) -> bool:
        return bool(outputs["output"] == example.expected_output)

    def named(_: Example, outputs: dict[str, Any]) -> bool:
        return "order" in outputs["output"]

    def short(_: Example, outputs: dict[str, Any]) -> bool:
        return len(outputs["output"]) <= 400

    return exact, named, short


def echo(example: Example) -> Any:  # noqa: ANN401 - JSON
    """Return the task, which does nothing."""
    return example.expected_output


def look(server: Server, run_id: str) -> None:
    """Print the response times of a run's page and API."""
    with httpx.Client(base_url=server.api, timeout=120, headers={"accept": "text/html"}) as client:
        for name, path in (
            ("page", f"/runs/{run_id}"),
            ("page, what did not pass", f"/runs/{run_id}?outcome=not_passed"),
            ("page, lowest score first", f"/runs/{run_id}?sort=score&evaluator=Exact+Match"),
            ("page 1,000", f"/runs/{run_id}?page=1000"),
            ("experiments", "/experiments"),
            ("API", f"/api/v1/runs/{run_id}"),
        ):
            took_ms, cpu_s = [], server.cpu_s()
            for _ in range(TIMES):
                began_s = time.monotonic()
                client.get(path).raise_for_status()
                took_ms.append((time.monotonic() - began_s) * 1e3)
            used_ms = (server.cpu_s() - cpu_s) * 1e3 / TIMES
            rest = took_ms[1:]
            print(
                f"{name:<34} first {took_ms[0]:5.0f} ms, p50 {median(rest):5.0f}, max {max(rest):5.0f} ms "
                f"(CPU {used_ms:.0f} ms)",
                flush=True,
            )


def measure(folder: Path, items: int) -> None:
    """Import, run three ways, and look."""
    file = a_file(folder, items)
    with Server(tracejury(folder / "data"), folder / "data") as server:
        client = Client(server.api)
        client.send("POST", "/datasets", {"name": "large"})
        with timed("import of JSONL", server, items), file.open("rb") as content:
            place = f"{server.api}/api/v1/datasets/large/import?format=jsonl"
            httpx.post(place, content=content, timeout=600).raise_for_status()
        with timed("Dataset.load", server, items):
            dataset = Dataset.load("dataset://large@1", client=client, cache=folder / "cache")
        bare_s = bare(dataset)
        print(f"{'evaluators alone, in one process':<34} {bare_s:7.1f} s  {items / bare_s:8,.0f} items/s", flush=True)
        builtin = [
            Builtin(name, config, command=(str(PROGRAM), "evaluate", "--batch", "-")) for name, config in EVALUATORS
        ]
        last = ""
        for what, evaluators in (
            ("run, three Python functions", python_evaluators()),
            ("run, three built-in ones", builtin),
        ):
            began_s = time.monotonic()
            with timed(what, server, items):
                experiment = Experiment(
                    "large", dataset, echo, list(evaluators), client=client, parallelism=8, progress=lambda *_: None
                )
                result = experiment.run()
            assert (len(result.items), result.lost_items, result.pass_rate) == (items, 0, 1.0)
            print(f"{'':<34} {(time.monotonic() - began_s) / bare_s:7.1f} times the evaluators alone", flush=True)
            last = str(result.run_id)
        again(server, items, bare_s)
        look(server, last)
        server.stop()


def again(server: Server, items: int, bare_s: float) -> None:
    """Run the server's evaluators over a run that has ended, without an application."""
    client = Client(server.api)
    (experiment,) = client.get("/projects/default/experiments")
    run_id = experiment["latestRun"]["runId"]
    began_s = time.monotonic()
    with timed("one more evaluator on the server", server, items):
        client.send("POST", f"/runs/{run_id}/evaluations", {"evaluator": "exact_match", "name": "again"})
        while client.get(f"/runs/{run_id}/evaluations")[0]["status"] in {"WAITING", "RUNNING"}:
            time.sleep(0.2)
    print(f"{'':<34} {(time.monotonic() - began_s) / (bare_s / 3):7.1f} times that evaluator alone", flush=True)


def main() -> None:
    """Measure in a new directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--directory", type=Path)
    chosen = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(dir=chosen.directory) as directory:
        measure(Path(directory), chosen.items)
    print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
