"""The real `tracejury serve` as a process: started, asked, paused, stopped, killed, and started again."""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Self, TypeVar

import httpx

from storage.engine.database import Database
from tests import forking
from tests.prepared import prepare

T = TypeVar("T")

TRACEJURY = forking.TRACEJURY
ANY_PORTS = ("--grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0", "--http", "127.0.0.1:0")
PATIENCE_S = 60.0
"""How long a test waits for what usually takes a moment: a guess, for machines that do much else besides."""


NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Nothing here speaks TLS, and httpx would read all certificates of the system for each client: 15 ms."""


def a_client() -> httpx.Client:
    """Build an HTTP client for servers on this machine."""
    return httpx.Client(timeout=PATIENCE_S, trust_env=False, verify=NO_TLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The counts of committed spans that the server reports."""

    stored: int
    already_present: int

    @property
    def committed(self) -> int:
        """Return all that came out of the spool."""
        return self.stored + self.already_present


def environment(extra: Mapping[str, object] | None = None) -> dict[str, str]:
    """Return the environment of the tests without settings of the server or of exporters, and with `extra`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TRACEJURY_", "OTEL_"))}
    return clean | {name: str(value) for name, value in (extra or {}).items()}


class Live:
    """One process of the server. It runs from the call of `start` on, and is killed at the end of the `with` block."""

    def __init__(
        self,
        data: Path,
        *,
        flags: Sequence[str] = ANY_PORTS,
        env: Mapping[str, object] | None = None,
        before: Sequence[str] = (),
        forked: bool = True,
        new: bool = False,
        program: str = TRACEJURY,
    ) -> None:
        """Start the server. `before` is a command that runs it; unless `forked`, it has an interpreter of its own.

        Another `program` is one that is installed elsewhere.

        Where it is `new`, its first start makes the database; else one is there, without a row.
        """
        self.data = data
        if not (new or before):  # `before` may make the directory appear elsewhere
            prepare(data)
        self._log = TemporaryFile()  # noqa: SIM115 - closed with the server; not beside the data, where a disk may be full
        command = [*before, program, "serve", "--data", str(data), *flags]
        start = forking.start if forked else subprocess.Popen
        self.process: subprocess.Popen[bytes] = start(
            command, env=environment(env), stdout=subprocess.PIPE, stderr=self._log
        )
        self.ready: dict[str, str] = {}
        self.client = a_client()

    def wait_ready(self) -> Self:
        """Read the ready line."""
        line = self._output.readline()
        assert line, f"the server ended before it was ready:\n{self.log}"
        self.ready = json.loads(line)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None = None, *_: object) -> None:
        if failure:  # pytest shows it with the failure
            sys.stderr.write(f"the server's exit code: {self.process.poll()}; its log:\n{self.log[-10_000:]}\n")
        self.client.close()
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self._output.close()
        self._log.close()

    @property
    def _output(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def grpc(self) -> str:
        """Return the OTLP/gRPC address as host:port."""
        return self.ready["grpc"]

    @property
    def otlp_http(self) -> str:
        """Return the URL for OTLP over HTTP, without a path."""
        return f"http://{self.ready['otlp_http']}"

    @property
    def http(self) -> str:
        """Return the URL of the API, without a path."""
        return f"http://{self.ready['http']}"

    @property
    def log(self) -> str:
        """Return its standard error so far."""
        return os.pread(self._log.fileno(), 1 << 24, 0).decode(errors="replace")

    def sql(self, statement: str) -> list[list[object]]:
        """Query the server; return the rows."""
        answer = self.client.post(f"{self.http}/api/v1/sql", json={"sql": statement})
        assert answer.status_code == httpx.codes.OK, answer.text
        rows: list[list[object]] = answer.json()["rows"]
        return rows

    def tally(self) -> Tally:
        """Read the counts of committed spans."""
        ((stored, already_present),) = self.sql("SELECT stored, already_present FROM ingest_state")
        assert isinstance(stored, int)
        assert isinstance(already_present, int)
        return Tally(stored=stored, already_present=already_present)

    def committed(self, spans: int) -> Tally:
        """Wait until at least `spans` spans are committed; return the tally."""
        return until(self.tally, lambda tally: tally.committed >= spans)

    def stop(self, number: signal.Signals = signal.SIGTERM, *, within_s: float = PATIENCE_S) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(within_s)

    def end(self, *, within_s: float = PATIENCE_S) -> int:
        """Wait until it has ended by itself; its exit code."""
        return self.process.wait(within_s)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.process.kill()
        self.process.wait()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep it from running for the time of the block."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


@contextmanager
def a_live_server(
    data: Path,
    *,
    flags: Sequence[str] = ANY_PORTS,
    env: Mapping[str, object] | None = None,
    before: Sequence[str] = (),
    forked: bool = True,
) -> Iterator[Live]:
    """Start a server. `env` holds settings as TRACEJURY_* variables; `before` is a command that runs it."""
    with Live(data, flags=flags, env=env, before=before, forked=forked) as server:
        yield server.wait_ready()


def held_cursors(database: Database) -> int:
    """Count the cursors of a database that are held for a while; the server's own threads hold none."""
    before = set(database._cursors._open)
    time.sleep(0.15)
    return len(before & set(database._cursors._open))


def until(look: Callable[[], T], good: Callable[[T], bool], *, within_s: float = PATIENCE_S) -> T:
    """Poll `look` until its value is good; fail the test after `within_s`."""
    deadline = time.monotonic() + within_s
    while True:
        began_s = time.monotonic()
        if good(seen := look()):
            return seen
        ended_s = time.monotonic()
        assert ended_s < deadline, f"still {seen!r} after {within_s:g} s"
        # Poll for a quarter of the time at most, and leave the rest to the awaited work.
        time.sleep(max(0.02, 3 * (ended_s - began_s)))
