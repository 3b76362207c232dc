"""Write the data directory of a release, the fixture of the upgrade test: `python -m tests.release_fixture`.

It has rows in every table of the database, and work that is open: spans in the spool, spans that were never matched,
traces that have not settled, jobs that wait, a deletion that has not begun.
"""

import json
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.conventions.own_keys import OwnKeys
from collector.live.matching.matcher import Matcher, MatcherEnvironment
from collector.live.rules.active_rules import ActiveRules
from collector.reading.spans import ConventionsReader
from rules.settling import Settling
from storage.engine.database import CATALOG
from storage.ingest.spool import Spool
from storage.ingest.state import read_state
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions
from storage.upkeep.deletions import DeletionCriteria
from tests.access import request
from tests.live import until
from tests.model_server import Says, a_model
from tests.serving import PROTOBUF
from tests.storing import START_NS, WAIT_S, a_batch, commit, rows
from tests.tenancy import PROJECT, TRACE, Tenancy, two_tenants

RELEASES = Path(__file__).parent / "releases"
DATA, EXPECTED = "data", "expected.json"
"""The members of a fixture: the data directory, and which jobs the upgrade has to leave judged."""

_FOREVER_DAYS = 36_500
_DAY_US = 86_400_000_000
_JUDGED, _BRIEF, _DELETED, _SETTLING = (digit * 32 for digit in "bcde")  # traces that the server receives
_WAITING, _UNMATCHED, _SPOOLED = (digit * 32 for digit in "123")  # traces whose jobs are open in the fixture

_TABLES = f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{CATALOG}' AND NOT internal"


def unpack(fixture: Path, directory: Path) -> None:
    """Extract a fixture."""
    with tarfile.open(fixture) as archive:
        # In place of the argument `filter`, which Python has from 3.11.4 on only.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(directory)  # noqa: S202 - an archive of ours


def write_fixture(file: Path) -> None:
    """Write a fixture of the code as it is.

    Raises:
        ValueError: a table of the database has no rows.
    """
    with tempfile.TemporaryDirectory() as folder:
        data, copy = Path(folder, "made"), Path(folder, DATA)
        with _served(data) as tenancy:
            _fill(tenancy)
        _leave_work(data, copy)
        expected = Path(folder, EXPECTED)
        judged = [{"tenant": "", "trace_id": trace, "rule": "slow"} for trace in (_WAITING, _UNMATCHED, _SPOOLED)]
        expected.write_text(json.dumps({"judged": judged, "deleted": [_DELETED]}, indent=2))
        with tarfile.open(file, "w:xz") as archive:
            archive.add(copy, DATA)
            archive.add(expected, EXPECTED)


@contextmanager
def _served(data: Path) -> Iterator[Tenancy]:
    kept: Mapping[str, Any] = {"retention_days": _FOREVER_DAYS, "project_retention_days": {"brief": 1}}
    with two_tenants(data, **kept) as tenancy:
        yield tenancy


def _fill(tenancy: Tenancy) -> None:
    """Let the server write the tables that the tests of tenants leave empty."""
    key = tenancy.key("")

    def ask(method: str, path: str, body: object = None) -> Any:
        answer = tenancy.server.ask(method, path, key=key, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    _score_twice(tenancy, ask)
    of_tools = [{"field": "span_type", "op": "=", "value": "tool"}]
    ask(
        "POST",
        "/api/v1/projects/brief/trace-eval-rules",
        {"name": "brief", "evaluator": "tool_error", "conditions": of_tools},
    )
    session_rule = {"name": "sessions", "target": "SESSION", "settle": 30, "evaluator": "tool_error"}
    ask("POST", f"{PROJECT}/trace-eval-rules", session_rule)
    _judge(tenancy, ask)
    _send(tenancy, a_tool_trace(_BRIEF, project="brief"), a_tool_trace(_DELETED))
    _send(tenancy, a_tool_trace(TRACE, first=7))  # late: the trace is judged again
    scored = f"SELECT count(*) FROM evaluations WHERE trace_id IN ('{_BRIEF}', '{_DELETED}') AND outcome = 'scored'"
    until(partial(tenancy.rows, scored), lambda stored: stored == [(3,)])
    until(partial(tenancy.rows, "SELECT count(*) > 0 FROM superseded"), lambda stored: stored == [(True,)])
    until(partial(tenancy.rows, "SELECT count(*) FROM job"), lambda stored: stored == [(0,)])
    assert tenancy.store.retention.sweep(now_us=time.time_ns() // 1000 + 2 * _DAY_US).traces == 1
    _send(tenancy, a_tool_trace(_SETTLING, session="talk"))
    until(
        partial(tenancy.rows, "SELECT count(*) FROM session_open WHERE session_id = 'talk'"),
        lambda stored: stored == [(1,)],
    )


def _score_twice(tenancy: Tenancy, ask: Any) -> None:
    """Score a run twice with the same evaluator under one name."""
    run = ask("POST", f"{PROJECT}/runs", {"experimentName": "again"})["runId"]
    item = {"itemKey": "1", "expectedOutputs": {"output": "4"}, "actualOutputs": {"output": "4"}}
    ask("POST", f"/api/v1/runs/{run}/items", {"items": [item | {"inputs": {"input": "2+2?"}}]})
    ask("PATCH", f"/api/v1/runs/{run}", {"status": "SUCCESS"})
    done = f"SELECT count(*) FROM run_evaluation WHERE run_id = '{run}' AND state = 'done'"
    for number in (1, 2):
        ask("POST", f"/api/v1/runs/{run}/evaluations", {"evaluator": "exact_match", "name": "exact"})
        until(partial(tenancy.rows, done), [(number,)].__eq__)


def _judge(tenancy: Tenancy, ask: Any) -> None:
    """Send a trace and wait until a model has judged it."""
    with a_model(Says({"reason": "It is.", "score": 1.0})) as model:
        connection = {"name": "local", "baseUrl": model.base_url, "model": "m", "apiKey": "sk-1"}
        made = ask("POST", "/api/v1/llm-connections", connection)
        rule = {
            "name": "polite",
            "evaluator": "llm_judge",
            "config": {"criteria": "Is it polite?", "evaluationParams": ["ACTUAL_OUTPUT"]},
            "conditions": [{"field": "model", "op": "=", "value": "judged"}],
            "connectionId": made["id"],
        }
        ask("POST", f"{PROJECT}/trace-eval-rules", rule)
        _send(tenancy, a_tool_trace(_JUDGED, model="judged", session="talk"))
        judged = "SELECT count(*) FROM evaluations WHERE rule = 'polite' AND outcome = 'scored'"
        until(partial(tenancy.rows, judged), lambda stored: stored == [(1,)])


def _send(tenancy: Tenancy, *exports: ExportTraceServiceRequest) -> None:
    url = f"http://{tenancy.server.running.otlp_http}/v1/traces"
    for export in exports:
        content = export.SerializeToString()
        answer = request(
            url, "POST", key=tenancy.key("", "ingest"), content=content, headers={"content-type": PROTOBUF}
        )
        assert answer.is_success, answer.text


def a_tool_trace(
    trace_id: str, *, project: str = "shop", model: str = "m", session: str | None = None, first: int = 1
) -> ExportTraceServiceRequest:
    """Build a root, a call of a model and a call of a tool, numbered from `first` on."""
    export = ExportTraceServiceRequest()
    resource_spans = export.resource_spans.add()
    _set(resource_spans.resource, {"service.name": "clerk", "service.version": "2", "dokimos.project": project})
    spans = resource_spans.scope_spans.add().spans
    kinds: Sequence[Mapping[str, str]] = (
        {"input.value": "What is 2+2?", "output.value": "4"} | ({"session.id": session} if session else {}),
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": model, "input.value": "2+2", "output.value": "4"},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.call.result": "4"},
    )
    for number, attributes in enumerate(kinds, first):
        span = spans.add(
            trace_id=bytes.fromhex(trace_id),
            span_id=number.to_bytes(8, "big"),
            parent_span_id=first.to_bytes(8, "big") if number > first else b"",
            name=f"step {number}",
            start_time_unix_nano=START_NS + number,
            end_time_unix_nano=START_NS + 5_000_000,
        )
        _set(span, attributes)
    return export


def _set(owner: Any, attributes: Mapping[str, str]) -> None:
    for key, value in attributes.items():
        owner.attributes.add(key=key).value.string_value = value


def _leave_work(data: Path, copy: Path) -> None:
    """Leave work open in the directory, and copy it as a kill would leave it."""
    older = OwnKeys({"*": {"tool_name": ["tool"]}})  # so that its rows are of another edition
    reads = ConventionsReader(older)
    writer = WriterOptions(commit_interval_s=0.001, reads=reads, retention_days=_FOREVER_DAYS)
    with Store.open(data, StoreOptions(writer=writer)) as store:
        with _matching(store) as matcher:
            commit(store, a_batch(a_tool_trace(_WAITING)))
            assert matcher.wait_matched(WAIT_S)
        commit(store, a_batch(a_tool_trace(_UNMATCHED)))
        store.deletions.request(DeletionCriteria(trace_id=_DELETED), now_us=START_NS // 1000)
        published = "INSERT INTO lake_position VALUES ('span', 'fixture', 1, [2])"
        store._writer.store(lambda cursor: cursor.execute(published), 1)
        moved = "INSERT INTO lake_boundary VALUES ('fixture', '2026-01-02', 0, 0, 0, 0)"
        store._writer.store(lambda cursor: cursor.execute(moved), 1)
        removed = f"INSERT INTO lake_removal VALUES ('', '{_DELETED}', 0, 0, 0, 0)"
        store._writer.store(lambda cursor: cursor.execute(removed), 1)
        names = [str(name) for (name,) in rows(store, _TABLES) if name != "backfill_result"]  # jobs fill it in the lake
        empty = [name for name in names if rows(store, f'SELECT count(*) FROM "{name}"') == [(0,)]]
        if empty:
            msg = f"tables without rows: {', '.join(empty)}; let tests/release_fixture.py fill them"
            raise ValueError(msg)
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("tmp", "*.lock"))
        spool = Spool(copy / "spool", after=read_state(store._database).position)
        spool.append([a_batch(a_tool_trace(_SPOOLED))])
        spool.close()


@contextmanager
def _matching(store: Store) -> Iterator[Matcher]:
    """Yield a matcher without workers: its jobs wait."""
    in_force = ActiveRules(store.rulebook)
    in_force.refresh()
    matcher = Matcher(
        store.matching,
        in_force.active,
        Settling(),
        enqueued=lambda: None,
        revision=in_force.revision,
        surroundings=MatcherEnvironment(),
    )
    matcher.start()
    try:
        yield matcher
    finally:
        matcher.close()


if __name__ == "__main__":
    RELEASES.mkdir(exist_ok=True)
    write_fixture(made := RELEASES / f"{version('tracejury')}.tar.xz")
    sys.stdout.write(f"{made}: {made.stat().st_size} bytes\n")
