"""The address of the API while the server starts: alive, not ready, and how far the start is."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from storage import sql
from storage.engine import migration
from storage.ingest.spool import Position, Spool
from storage.store import Store, StoreOptions
from storage.work import StartStep
from tests.live import PATIENCE_S, a_client, until
from tests.serving import a_server, run, unused_port
from tests.storing import a_batch, a_store, an_export, commit, rows

STEPS = ((4711, "slow", "SELECT 1"), (4712, "next", "SELECT 1"))


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Yield a directory that two further steps of the schema are new to; none begins until the event is set."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3)))
    gate, steps, apply = threading.Event(), [*sql.migrations(), *STEPS], migration._apply

    def wait_and_apply(*arguments: Any) -> None:
        assert gate.wait(PATIENCE_S)
        apply(*arguments)

    monkeypatch.setattr(sql, "migrations", lambda: steps)
    monkeypatch.setattr(migration, "_apply", wait_and_apply)
    yield gate
    gate.set()


@contextmanager
def a_starting_server(data: Path) -> Iterator[Callable[[str], httpx.Response]]:
    """Start a server that may take time to start; yield a function that sends a GET request once it listens."""
    port, end = unused_port(), threading.Event()

    def serve() -> None:
        with a_server(data, http=f"127.0.0.1:{port}"):
            assert end.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as threads, a_client() as client:
        served = threads.submit(serve)

        def get(path: str) -> httpx.Response:
            def attempt() -> httpx.Response | None:
                try:
                    return client.get(f"http://127.0.0.1:{port}{path}")
                except httpx.TransportError:  # it does not listen yet, or the listener is replaced
                    return None

            answer = until(attempt, lambda answer: answer is not None)
            assert answer is not None
            return answer

        yield get
        end.set()
        served.result(PATIENCE_S)


def test_an_upgrade_answers_health_and_shows_its_progress(tmp_path: Path, held: threading.Event) -> None:
    """During a step of the schema `/health` is 200, `/ready` is 503 with the step, and all else is 503."""
    with a_starting_server(tmp_path) as get:
        steps = until(lambda: get("/ready").json(), lambda document: document.get("total") is not None)
        assert {**steps, "seconds": 0} == {
            "status": "starting",
            "step": "schema step 4711 (slow)",
            "done": 0,
            "total": 2,
            "seconds": 0,
        }
        assert (get("/ready").status_code, get("/health").status_code) == (503, 200)
        other = get("/api/v1/traces")
        assert (other.status_code, other.headers["retry-after"]) == (503, "5")
        assert "GET /ready shows the progress" in other.json()["detail"]
        assert run("health", "--data", tmp_path).exit_code == 0
        assert "schema step 4711" in run("health", "--ready", "--data", tmp_path).output
        held.set()
        until(lambda: get("/ready").json(), lambda document: document == {"status": "ready"})
        assert len(get("/api/v1/traces").json()["content"]) == 1


def test_the_steps_of_opening_a_directory_are_reported(tmp_path: Path) -> None:
    """Each step is reported as it begins, that of the spool with how many of its bytes are committed."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3)))
    spool = Spool(tmp_path / "spool", after=Position(sequence=1))
    spool.append([a_batch(an_export(2, first=3))])
    spool.close()
    steps: list[StartStep] = []
    with Store.open(tmp_path, StoreOptions(report=steps.append)) as store:
        assert [step.name for step in steps] == [
            "opening the database, with 0 MiB in its log",
            "reading the spool",
            "reading the keys of the latest spans",
            "committing the spool, in bytes",
        ]
        assert rows(store, "SELECT count(*) FROM spans") == [(5,)]
        assert until(steps[-1].done, lambda done: done == steps[-1].total) > 0
