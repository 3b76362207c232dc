"""What a model waits for that asks about many spans: `python -m benchmarks.models --spans 10000000`.

The server runs with its default settings; each tool that reads is called over `/mcp`, by the official client, once and
then a few times more. An answer counts from the call of the tool until it is there.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
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

TIMES: Final = 5
TIMEOUT_S: Final = 120.0
KNOWN: Final = """
    SELECT trace_id, span_id, session_id, project, model
    FROM spans WHERE session_id IS NOT NULL AND model IS NOT NULL ORDER BY start_time DESC LIMIT 1
"""


class Call(NamedTuple):
    """A tool, and what it is asked for."""

    tool: str
    arguments: dict[str, Any]


class Took(NamedTuple):
    """How long a call took, in milliseconds, and what came: its characters, or why nothing did."""

    call: Call
    first_ms: float
    median_ms: float
    characters: int
    refusal: str


def main() -> None:
    """Fill, ask, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=10_000_000)
    parser.add_argument("--directory", type=Path, help="where the files are made, and removed again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracejury-models-", dir=options.directory) as folder:
        data = Path(folder) / "data"
        print(f"{fill_views(data, options.spans):,} spans", flush=True)
        with Server(tracejury(data), data) as server:
            calls = _calls(_known(server.api))
            for took in asyncio.run(_ask(f"{server.api}/mcp", calls)):
                what = f"{took.call.tool} {took.call.arguments or ''}"
                print(
                    f"| {what} | {took.first_ms:,.0f} | {took.median_ms:,.0f} | {took.characters:,} | {took.refusal} |"
                )
        print(describe(Path(folder)))


def _known(api: str) -> dict[str, Any]:
    """A span that there is."""
    answer = httpx.post(f"{api}/api/v1/sql", json={"sql": KNOWN}, timeout=TIMEOUT_S, trust_env=False).raise_for_status()
    names = ("trace_id", "span_id", "session_id", "project", "model")
    return dict(zip(names, answer.json()["rows"][0], strict=True))


def _calls(known: dict[str, Any]) -> list[Call]:
    """Each tool that reads what spans made, with the filters that cost most."""
    trace = {"trace_id": known["trace_id"]}
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
        Call("find_traces", {"rule": "rule-of-spans", "passed": False}),
        Call("get_trace", trace),
        Call("get_span", trace | {"span_id": known["span_id"]}),
        Call("explain_decisions", trace),
        Call("find_sessions", {}),
        Call("find_sessions", {"project": known["project"]}),
        Call("get_session", {"session_id": known["session_id"]}),
        Call("list_alerts", {}),
        Call("list_rules", {}),
        Call("list_datasets", {}),
        Call("list_experiments", {}),
        Call("query_sql", {"sql": "SELECT project, count(*) FROM spans GROUP BY ALL ORDER BY ALL"}),
    ]


async def _ask(url: str, calls: list[Call]) -> list[Took]:
    """Each call a few times, one after the other."""
    found = []
    async with (
        httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        for call in calls:
            took_ms, results = [], []
            for _ in range(TIMES):
                began_s = time.perf_counter()
                results.append(await client.call_tool(call.tool, call.arguments))
                took_ms.append(1000 * (time.perf_counter() - began_s))
            result = results[-1]
            text = "".join(getattr(content, "text", "") for content in result.content)
            refusal = text[:120] if result.is_error else ""
            found.append(Took(call, took_ms[0], median(took_ms[1:]), len(text), refusal))
    return found


if __name__ == "__main__":
    main()
