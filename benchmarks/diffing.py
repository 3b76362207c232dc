"""Response times of the comparison of two runs of 10,000 items with 5 trials and 5 evaluators: page, route and gate.

python -m benchmarks.diffing --directory /var/tmp
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final

import httpx

from benchmarks.filling import as_served
from benchmarks.server import Server, tracejury
from storage.ingest.writer import WriterOptions
from storage.offline.run_items import NewRunItem, NewScore
from storage.offline.runs import NewRun
from storage.store import Store, StoreOptions

ITEMS, TRIALS, EVALUATORS = 10_000, 5, 5
AT_ONCE: Final = 5_000
TIMES: Final = 11
BUSY_S: Final = 0.3  # of two seconds: it does more than a server that waits


def fill(data: Path, items: int) -> tuple[str, str, str]:
    """Store two runs of an experiment; return the ids of the experiment, the baseline and the candidate."""
    with closing(Store.open(data, StoreOptions(writer=WriterOptions(reads=as_served())))) as store:
        runs = []
        for seed in (1, 2):
            now_us = time.time_ns() // 1_000
            new = NewRun(tenant="", project="shop", experiment="large", trials=TRIALS, idle_s=3_600)
            run, _ = store.runs.begin(new, now_us=now_us)
            items_with_scores = list(_told(random.Random(seed), items))
            for first in range(0, len(items_with_scores), AT_ONCE):
                part = items_with_scores[first : first + AT_ONCE]
                store.run_items.add(run, [item for item, _ in part], [scores for _, scores in part], now_us=now_us)
            store.runs.end(run, "SUCCESS", now_us=time.time_ns() // 1_000)
            runs.append(run)
        return runs[0].experiment_id, runs[0].run_id, runs[1].run_id


def _told(source: random.Random, items: int) -> Iterator[tuple[NewRunItem, list[NewScore]]]:
    for at in range(items):
        for trial in range(1, TRIALS + 1):
            answer = " ".join(source.choices(("the", "order", "is", "on", "its", "way", "refund", "days"), k=60))
            item = NewRunItem(
                item_key=f"case-{at}",
                is_keyed=True,
                dataset_item_id=None,
                trial=trial,
                digest=f"{at}/{trial}",
                inputs=json.dumps({"question": f"Where is order {at}, and when does it come?"}),
                expected_outputs="{}",
                actual_outputs=json.dumps({"output": answer}),
                metadata=json.dumps({"topic": f"topic {at % 8}"}),
                cost_usd=source.random() / 100,
                latency_ms=1_000 * source.random(),
            )
            scores = (source.random() for _ in range(EVALUATORS))
            yield (
                item,
                [
                    NewScore(name=f"evaluator-{n}", outcome="scored", score=each, passed=each >= 0.1, threshold=0.1)
                    for n, each in enumerate(scores)
                ],
            )


def ask(data: Path, experiment: str, baseline: str, candidate: str) -> None:
    """Send each request several times, and print the durations of the first and the median of the others.

    The first server compares the candidate as it does with each run that has just ended, the second has nothing kept.
    """
    page = f"/runs/{candidate}/diff?baseline={baseline}"
    route = f"/api/v1/experiments/{experiment}/runs/{candidate}/diff?baselineRunId={baseline}"
    body = {"candidateRunId": candidate, "baselineRunId": baseline}
    gate = f"/api/v1/experiments/{experiment}/gate"
    questions: list[tuple[str, str, str, object]] = [
        ("page", "GET", page, None),
        ("page, what is worse", "GET", f"{page}&show=worse&page=3", None),
        ("page, by topic", "GET", f"{page}&slices=topic", None),
        ("route", "GET", route, None),
        ("gate", "POST", gate, body),
        ("gate, another margin", "POST", gate, body | {"margin": 0.01}),
    ]
    with Server(tracejury(data), data) as server:
        while _cpu_of(server, 2.0) > BUSY_S:  # it compares
            pass
        with httpx.Client(base_url=server.api, timeout=120, headers={"accept": "text/html"}) as client:
            for question in questions:
                _tell(server, client, *question)
        server.stop()
    with Server(tracejury(data), data) as server:
        _cpu_of(server, 5.0)
        with httpx.Client(base_url=server.api, timeout=120, headers={"accept": "text/html"}) as client:
            _tell(server, client, "page after a restart", "GET", page, None)
        server.stop()


def _cpu_of(server: Server, seconds: float) -> float:
    before_s = server.cpu_s()
    time.sleep(seconds)
    return server.cpu_s() - before_s


def _tell(server: Server, client: httpx.Client, name: str, method: str, path: str, body: object) -> None:
    first_cpu_s = server.cpu_s()
    first_ms = _timed(client, method, path, body)
    later_cpu_s = server.cpu_s()
    later_ms = [_timed(client, method, path, body) for _ in range(TIMES)]
    cpu_ms = (server.cpu_s() - later_cpu_s) * 1e3 / TIMES
    print(
        f"{name:<22} first {first_ms:6.0f} ms (CPU {(later_cpu_s - first_cpu_s) * 1e3:5.0f} ms)  "
        f"later p50 {median(later_ms):4.0f} ms  max {max(later_ms):4.0f} ms (CPU {cpu_ms:4.0f} ms)",
        flush=True,
    )


def _timed(client: httpx.Client, method: str, path: str, body: object = None) -> float:
    start_s = time.monotonic()
    client.request(method, path, json=body).raise_for_status()
    return (time.monotonic() - start_s) * 1e3


def main() -> None:
    """Fill a store in a new directory, and measure a server over it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--directory", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as directory:
        data = Path(directory) / "data"
        start_s = time.monotonic()
        runs = fill(data, chosen.items)
        print(
            f"{chosen.items:,} items x {TRIALS} x {EVALUATORS} twice, in {time.monotonic() - start_s:.0f} s", flush=True
        )
        ask(data, *runs)


if __name__ == "__main__":
    main()
