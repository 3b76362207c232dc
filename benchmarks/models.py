"""Waiting times of a model that queries many spans: `python -m benchmarks.models --spans 10000000`.

The server runs with its default settings; each tool that reads is called over `/mcp`, by the official client, once and
then a few times more. An answer counts from the call of the tool until it is there; the CPU is the server's.
`looked back` says that the time was over before everything was looked through, and which share of the time that spans
cover was.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from benchmarks.analyst import fill_views
from benchmarks.machine import describe
from benchmarks.server import Server, tracejury
from collector.mcp.server import TOOLS
from storage.alerting.alerts import AlertFinding, ComparedSide
from storage.store import Store

TIMES: Final = 5
TIMEOUT_S: Final = 120.0
KNOWN: Final = """
    SELECT trace_id, span_id, session_id, project, model, service_version AS release
    FROM spans
    WHERE session_id IS NOT NULL AND model IS NOT NULL AND start_time >= now()::TIMESTAMP - INTERVAL 1 DAY
    ORDER BY start_time DESC
    LIMIT 1
"""
TIMES_OF_SPANS: Final = "SELECT epoch_ns(min(start_time)) / 1e9, epoch_ns(max(start_time)) / 1e9 FROM spans"
RULE: Final = "tidy"
ITEMS: Final = 200  # of each run
WRITES: Final = {tool.name for tool in TOOLS if tool.writes}


class Call(NamedTuple):
    """A tool and its arguments."""

    tool: str
    arguments: dict[str, Any]


class Took(NamedTuple):
    """Duration of a call in milliseconds, and its result: its characters, or the reason of a refusal."""

    call: Call
    first_ms: float
    median_ms: float
    cpu_ms: float  # of the server, a call, the first left out
    characters: int
    refusal: str
    looked_back: str


def main() -> None:
    """Fill, ask, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=10_000_000)
    parser.add_argument("--directory", type=Path, help="where the files are made, and removed again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracejury-models-", dir=options.directory) as folder:
        data = Path(folder) / "data"
        print(f"{fill_views(data, options.spans):,} spans", flush=True)
        _raise_alert(data)
        with Server(tracejury(data), data) as server:
            known = _known(server.api) | _kept(server.api)
            calls = _calls(known)
            print("| tool | first, ms | median, ms | CPU, ms | characters | refused | looked back |")
            print("|---|--:|--:|--:|--:|---|---|")
            for took in asyncio.run(_ask(server, calls, known["extent"])):
                what = f"{took.call.tool} {str(took.call.arguments or '')[:90]}"
                print(
                    f"| {what} | {took.first_ms:,.0f} | {took.median_ms:,.0f} | {took.cpu_ms:,.0f} "
                    f"| {took.characters:,} | {took.refusal} | {took.looked_back} |"
                )
        missing = {tool.name for tool in TOOLS} - WRITES - {call.tool for call in calls}
        print(describe(Path(folder)))
        if missing:
            raise SystemExit(f"not measured: {', '.join(sorted(missing))}")


def _raise_alert(data: Path) -> None:
    """Open an alert about the rule, as a monitor would."""
    before = ComparedSide(release="1.2.2", rate=0.92, low=0.89, high=0.94, count=500)
    finding = AlertFinding(
        tenant="",
        episode="models",
        project="default",
        rule_id="rule-of-spans",
        rule=RULE,
        revision=900002,
        kind="release",
        evaluator="Length",
        fingerprint="fingerprint",
        measure="passed",
        baseline=before,
        candidate=ComparedSide(release="1.2.3", rate=0.78, low=0.68, high=0.86, count=91),
        regressed_count=20,
        evidence=24.3,
        evidence_threshold=20.0,
        document={"examples": [], "sql": "SELECT 1"},
    )
    with closing(Store.open(data)) as store:
        assert store.alerts.open(finding, time.time_ns())


def _known(api: str) -> dict[str, Any]:
    names = ("trace_id", "span_id", "session_id", "project", "model", "release")
    (row,) = _asked(api, "POST", "sql", {"sql": KNOWN})["rows"]
    (extent,) = _asked(api, "POST", "sql", {"sql": TIMES_OF_SPANS})["rows"]
    return dict(zip(names, row, strict=True)) | {"extent": tuple(extent)}


def _kept(api: str) -> dict[str, Any]:
    """Store a dataset, two runs of an experiment, and the alert."""
    dataset = _asked(api, "POST", "datasets", {"name": "questions"})["id"]
    items = [
        {"id": f"item {n}", "inputs": {"input": f"{n}"}, "expectedOutputs": {"output": f"{n}"}} for n in range(ITEMS)
    ]
    _asked(api, "POST", f"datasets/{dataset}/versions", {"items": items})
    alerts = _asked(api, "GET", "alerts")["content"]
    return {"runs": [_run(api, passes) for passes in (ITEMS - 10, ITEMS // 2)], "alert": alerts[0]["alertId"]}


def _run(api: str, passes: int) -> str:
    """Store a run of which `passes` items pass."""
    run = _asked(api, "POST", "projects/default/runs", {"experimentName": "questions"})["runId"]
    items = [
        {
            "itemKey": f"item {number}",
            "inputs": {"input": f"{number}"},
            "expectedOutputs": {"output": f"{number}"},
            "actualOutputs": {"output": f"{number}"},
            "evalResults": [{"name": "exact", "score": float(number < passes), "threshold": 0.5, "fingerprint": "f"}],
        }
        for number in range(ITEMS)
    ]
    _asked(api, "POST", f"runs/{run}/items", {"items": items})
    _asked(api, "PATCH", f"runs/{run}", {"status": "SUCCESS"})
    return str(run)


def _asked(api: str, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    """Send a request to the HTTP API and return its answer."""
    where = f"{api}/api/v1/{path}"
    answer = httpx.request(method, where, json=body, timeout=TIMEOUT_S, trust_env=False)
    if not answer.is_success:
        raise RuntimeError(f"{method} {where}: {answer.status_code} {answer.text[:500]}")
    return answer.json()


def _calls(known: dict[str, Any]) -> list[Call]:
    """Return calls of each tool that reads spans' data, with the most expensive filters."""
    trace = {"trace_id": known["trace_id"]}
    before, after = known["runs"]
    tried = {
        "name": "tried",
        "evaluator": "tool_error",
        "conditions": [{"field": "model", "op": "=", "value": known["model"]}],
    }
    return [
        Call("find_traces", {}),
        Call("find_traces", {"project": known["project"]}),
        Call("find_traces", {"status": "error"}),
        Call("find_traces", {"model": known["model"]}),
        Call("find_traces", {"model": "nobody asked this one"}),
        Call("find_traces", {"session": known["session_id"]}),
        Call("find_traces", {"name": "agent"}),
        Call("find_traces", {"text": "weather"}),
        Call("find_traces", {"text": "said by nobody"}),
        Call("find_traces", {"attribute": "service.name=nobody"}),
        Call("find_traces", {"attribute": f"service.version={known['release']}"}),
        Call("find_traces", {"rule": RULE, "passed": False}),
        Call("find_traces", {"rule": RULE, "outcome": "failed"}),
        Call("get_trace", trace),
        Call("get_span", trace | {"span_id": known["span_id"]}),
        Call("explain_decisions", trace),
        Call("find_sessions", {}),
        Call("find_sessions", {"project": known["project"]}),
        Call("find_sessions", {"user": "nobody"}),
        Call("find_sessions", {"text": "said by nobody"}),
        Call("get_session", {"session_id": known["session_id"]}),
        Call("list_alerts", {}),
        Call("get_alert", {"alert_id": known["alert"]}),
        Call("list_rules", {}),
        Call("test_rule", {"project": known["project"], "rule": tried, "last_seconds": 3_600}),
        Call("test_rule", {"project": known["project"], "rule": tried, **trace}),
        Call("quality_of_rule", {"rule": RULE}),
        Call("quality_of_rule", {"rule": RULE, "by": "release"}),
        Call("compare_releases", {"rule": RULE, "baseline": known["release"], "candidate": known["release"]}),
        Call("list_datasets", {}),
        Call("get_dataset", {"name": "questions"}),
        Call("list_experiments", {}),
        Call("compare_runs", {"run_id_a": before, "run_id_b": after}),
        Call("get_failing_queries", {"run_id": after}),
        Call("list_run_evaluations", {"run_id": after}),
        Call("list_views", {}),
        Call("query_sql", {"sql": "SELECT project, count(*) FROM spans GROUP BY ALL ORDER BY ALL"}),
    ]


async def _ask(server: Server, calls: list[Call], extent: tuple[float, float]) -> list[Took]:
    """Time each call a few times, one after the other."""
    measurements = []
    async with (
        httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as http,
        Client(streamable_http_client(f"{server.api}/mcp", http_client=http)) as client,
    ):
        for call in calls:
            took_ms, results, cpu_s = [], [], []
            for _ in range(TIMES):
                began_s = time.perf_counter()
                results.append(await client.call_tool(call.tool, call.arguments))
                took_ms.append(1000 * (time.perf_counter() - began_s))
                cpu_s.append(server.cpu_s())
            result = results[-1]
            cpu_ms = 1000 * (cpu_s[-1] - cpu_s[0]) / (TIMES - 1)
            text = "".join(getattr(content, "text", "") for content in result.content)
            refusal = text[:120] if result.is_error else ""
            looked_back = _share(result.structured_content or {}, extent)
            measurements.append(Took(call, took_ms[0], median(took_ms[1:]), cpu_ms, len(text), refusal, looked_back))
    return measurements


def _share(answer: dict[str, Any], extent: tuple[float, float]) -> str:
    """Return how far back was searched, as a share of the time that spans cover; empty if all was."""
    searched_to = answer.get("searched_to")
    if searched_to is None:
        return ""
    first_s, last_s = extent
    reached_s = dt.datetime.fromisoformat(f"{searched_to[:26]}+00:00").timestamp()
    return f"{(last_s - reached_s) / (last_s - first_s):.0%}"


if __name__ == "__main__":
    main()
