"""A server under test: start, resource usage, queries, stop."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import duckdb
import httpx

from benchmarks.generator import ROOT, Door

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 300.0  # a checkpoint of a large file takes its time
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# The server's own tally is one row, so asking it often costs little; its number is checked against the spans.
TALLY: Final = "SELECT stored FROM ingest_state"
# Whether commits changed traces whose sums are not updated yet.
STALE: Final = "SELECT (SELECT batch FROM ingest_state) > (SELECT batch FROM trace_state)"
COMMITTED: Final = "tracejury_stored_total{"
STORED: Final = "SELECT count(*) FROM spans WHERE start_time >= make_timestamp_ns({since_ns})"

start_process: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
"""The function that starts a server; tests fork it."""


def tracejury(data: Path) -> list[str]:
    """Start Tracejury as an operator does, on free ports."""
    return tracejury_at(data, ["127.0.0.1:0"] * 3)


def tracejury_at(data: Path, addresses: Sequence[str]) -> list[str]:
    """Start it at these addresses: OTLP over gRPC, OTLP over HTTP, API."""
    program = Path(sysconfig.get_path("scripts"), "tracejury")
    doors = zip(("--grpc", "--otlp-http", "--http"), addresses, strict=True)
    return [str(program), "serve", "--data", str(data), *(part for door in doors for part in door)]


def baseline(data: Path) -> list[str]:
    """Start the receiver of `benchmarks/baseline.py`."""
    return [sys.executable, "-m", "benchmarks.baseline", "--data", str(data)]


class Server:
    """A process that prints a ready line with its addresses and ends on SIGTERM. It runs from entering to `stop`."""

    def __init__(
        self, command: list[str], data: Path, *, key: str | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """`settings` are variables of its environment."""
        self._data = data
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        environment = os.environ | ({"TRACEJURY_API_KEY": key} if key else {}) | dict(settings or {})
        self._log = data.with_suffix(".log")
        with self._log.open("ab") as log:  # of each start on the same data
            self._process = start_process(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, env=environment)
        self._addresses: dict[str, str] = {}

    def __enter__(self) -> Self:
        try:
            self._addresses = json.loads(self._ready_line())
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def _ready_line(self) -> bytes:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], START_TIMEOUT_S)
        line = self._process.stdout.readline() if readable else b""
        if not line:
            raise RuntimeError(f"the server did not become ready:\n{self.log_tail()}")
        return line

    def stop(self) -> None:
        """End the server as an operator does, so that the file is complete."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_TIMEOUT_S)
        if code != 0:
            raise RuntimeError(f"the server ended with exit code {code}:\n{self.log_tail()}")

    def kill(self) -> None:
        """End the server as a crash does."""
        self._process.kill()
        self._process.wait()

    def rss_bytes(self) -> int:
        """Return the memory that is resident now, of the server and the processes that it started together."""
        return sum(map(_rss_bytes, [self._process.pid, *self._children()]))

    def pss_bytes(self) -> int:
        """Return the memory of the server and its children; shared memory counts in part."""
        return sum(map(_pss_bytes, [self._process.pid, *self._children()]))

    def log_tail(self) -> str:
        """Return the last lines of the log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

    def target(self, door: Door) -> str:
        """Return the address for spans: host:port."""
        return self._addresses["grpc" if door == "grpc" else "otlp_http"]

    @property
    def quack(self) -> str:
        """Return the address for DuckDB: host:port."""
        return self._addresses["quack"]

    @property
    def api(self) -> str:
        """Return the URL of the API."""
        return f"http://{self._addresses['http']}"

    @property
    def is_running(self) -> bool:
        """Return True if the process has not ended."""
        return self._process.poll() is None

    def cpu_s(self) -> float:
        """Return the processor time used so far by the server, by all threads, in user and kernel mode."""
        return _cpu_s(self._process.pid)

    def all_cpu_s(self) -> float:
        """Return the processor time used so far by the server and the processes that it started."""
        return sum(map(_cpu_s, [self._process.pid, *self._children()]))

    def peak_rss_bytes(self) -> int:
        """Return the most memory that was resident at once, of the server and the process that reads together."""
        return sum(map(_peak_rss_bytes, [self._process.pid, *self._children()]))

    def _children(self) -> list[int]:
        """Processes that any of its threads started; a thread may end meanwhile."""
        children: list[int] = []
        for task in Path(f"/proc/{self._process.pid}/task").iterdir():
            with suppress(FileNotFoundError):
                children += map(int, (task / "children").read_text().split())
        return children

    def disk_bytes(self) -> int:
        """Return the size of all files in the data directory."""
        return sum(path.stat().st_size for path in self._data.rglob("*") if path.is_file())

    @property
    def answers_sql(self) -> bool:
        """Return True if it can count its commits; the baseline cannot, and answers after its commit instead."""
        return "http" in self._addresses

    def has_stale(self) -> bool:
        """Return True if traces have outdated sums."""
        return bool(self._ask(STALE))

    def tally(self) -> int:
        """Return the number of spans committed so far, at little cost."""
        return self._ask(TALLY)

    def committed(self) -> int:
        """Return the number of spans committed so far, as the server's own metrics have it."""
        return sum(int(float(line.split()[-1])) for line in self.metrics().splitlines() if line.startswith(COMMITTED))

    def metrics(self) -> str:
        """Return the server's own numbers, as a monitoring system reads them."""
        return httpx.get(f"{self.api}/metrics", headers=self._headers, timeout=60).raise_for_status().text

    def stored(self, since_ns: int) -> int:
        """Count the committed spans that started since."""
        return self._ask(STORED.format(since_ns=since_ns))

    def _ask(self, question: str) -> int:
        answer = httpx.post(f"{self.api}/api/v1/sql", json={"sql": question}, headers=self._headers, timeout=60)
        answer.raise_for_status()
        return int(answer.json()["rows"][0][0])

    def stored_in_file(self) -> int:
        """Count all spans once the server has ended."""
        (path,) = self._data.glob("*.duckdb")
        with duckdb.connect(str(path), read_only=True) as connection:
            row = connection.execute("SELECT count(*) FROM spans").fetchone()
        assert row is not None
        return int(row[0])


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _rss_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return 0


def _pss_bytes(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return 0
    line = next(line for line in rollup.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) * 1024


def _peak_rss_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
