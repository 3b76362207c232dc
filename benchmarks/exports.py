"""Cost of exports: spans in each form, and one trace at a time.

python -m benchmarks.exports --spans 100000 --directory /var/tmp
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Final

import httpx

from benchmarks.server import Server, tracejury
from benchmarks.spans import Requests

SPANS: Final = 512
READ_S: Final = 600.0
RETRY_S: Final = 0.1
TRACES: Final = 500  # that are asked for one after the other
LISTED: Final = "SELECT DISTINCT trace_id FROM spans LIMIT {most}"
UNREAD: Final = "SELECT count(*) FROM spans WHERE span_type IS NULL"


def main() -> None:
    """Fill a server, export from it in each form, and print the CPU time of server and command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=100_000)
    parser.add_argument("--directory", type=Path, help="where the store and the files are made, and removed again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracejury-exports-", dir=options.directory) as folder:
        data = Path(folder) / "data"
        with Server(tracejury(data), data) as server:
            spans = _fill(server, options.spans)
            alone_us = _one_by_one(server)
            for form in ("otlp-json", "parquet"):
                _export(server, Path(folder) / form, form, spans, alone_us)
            server.stop()


def _fill(server: Server, spans: int) -> int:
    """Send at least `spans` spans, and wait until all of them are read; return how many."""
    requests, sent = Requests(SPANS), 0
    kind = {"content-type": "application/x-protobuf"}
    with httpx.Client(timeout=60) as client:
        while sent < spans:
            body = requests.next().body
            while client.post(f"http://{server.target('http')}/v1/traces", content=body, headers=kind).is_error:
                time.sleep(RETRY_S)
            sent += SPANS
        deadline_s = time.monotonic() + READ_S
        while _ask(client, server, UNREAD) != [[0]] or _ask(client, server, "SELECT count(*) FROM spans") != [[sent]]:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"spans are not read:\n{server.log_tail()}")
            time.sleep(1.0)
    return sent


def _ask(client: httpx.Client, server: Server, statement: str) -> list[list[object]]:
    answer = client.post(f"{server.api}/api/v1/sql", json={"sql": statement}).raise_for_status()
    rows: list[list[object]] = answer.json()["rows"]
    return rows


def _one_by_one(server: Server) -> float:
    """Measure CPU microseconds of the server per span, if each trace is requested alone."""
    spans = 0
    with httpx.Client(timeout=60) as client:
        traces = _ask(client, server, LISTED.format(most=TRACES))
        before_s = server.cpu_s()
        for (trace_id,) in traces:
            answer = client.get(f"{server.api}/api/v1/traces/{trace_id}/otlp").raise_for_status()
            spans += answer.content.count(b'"startTimeUnixNano"')
    cost_us = (server.cpu_s() - before_s) / spans * 1e6
    print(
        f"one trace at a time: {cost_us:,.0f} µs of CPU a span in the server, {spans / len(traces):.0f} spans a trace"
    )
    return cost_us


def _export(server: Server, folder: Path, form: str, spans: int, alone_us: float) -> None:
    program = Path(sysconfig.get_path("scripts"), "tracejury")
    start = f"{dt.datetime.now(dt.UTC) - dt.timedelta(days=1):%Y-%m-%d}"
    command = [str(program), "export", str(folder), "--from", start, "--format", form, "--server", server.api]
    start_s, server_s, before = time.monotonic(), server.cpu_s(), os.times()
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    took_s, server_us = time.monotonic() - start_s, (server.cpu_s() - server_s) / spans * 1e6
    after = os.times()
    if f"{spans:,} spans" not in output and output.count(":") < 2:  # at midnight they are of two days
        raise RuntimeError(f"{spans} spans were stored, and exported were {output}")
    command_s = after.children_user + after.children_system - before.children_user - before.children_system
    nbytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(
        f"{form}: {server_us:,.0f} µs of CPU a span in the server, 1/{alone_us / server_us:.0f} of that; "
        f"{command_s:.1f} s in the command, its start included; {spans / took_s:,.0f} spans/s; "
        f"{nbytes / spans:,.0f} bytes a span"
    )


if __name__ == "__main__":
    main()
