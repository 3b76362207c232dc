"""Jobs and workers for tests: active rules, jobs as matching makes them, and judges over local models."""

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import duckdb

from collector.conventions.own_keys import OwnKeys
from collector.live.active import ActiveRule, ExecutorKind
from collector.live.jobs.work.examiner import PROGRAM
from collector.live.jobs.work.retry_policy import RetryPolicy
from collector.live.jobs.workers import WorkerOptions, Workers
from collector.live.judges.judge_health import JudgeHealth
from collector.live.judges.judging import Fallback, JudgeSource, Juror
from evaluators.chat.client import ChatModel
from evaluators.chat.connection import ModelConnection
from evaluators.chat.judge import ChatJudge
from evaluators.errors import BadConfiguration
from evaluators.judge_interface import Judge
from rules.rule_text import parse_rule
from storage.judging.jobs import Job
from storage.store import Store
from tests.live import until
from tests.storing import rows

T = TypeVar("T")

NOW = dt.datetime(2026, 11, 21, 10)  # noqa: DTZ001 - as the tables have it, in UTC

LONG_S = 100.0
"""How long a test waits for what usually takes a moment: processes of low priority have little of a busy machine."""

QUICK = RetryPolicy(
    first_wait_s=0.02,
    longest_wait_s=0.1,
    longest_requested_s=0.5,
    lease_s=5.0,
    look_s=0.05,
    job_s=60.0,
    check_cpu_s=3.0,
    child_s=60.0,
)
"""Waits that a test can wait for."""

_REVISION = (
    "INSERT INTO rule_revision VALUES ($revision, $rule_id, '', $digest, $rule, NULL, $target, $kind, '{}', [], $now)"
)
_JOB = """
INSERT INTO job BY NAME SELECT
    (SELECT last_job FROM matching_state) + row_number() OVER (ORDER BY t.number) AS job_id,
    $revision AS revision,
    coalesce(s.seq, -1) AS seq,
    '' AS tenant,
    'shop' AS project,
    t.trace_id,
    t.span_id,
    'v1' AS release,
    0 AS round,
    'ready' AS state,
    0 AS attempts,
    $now AS created_at
FROM (
    SELECT unnest(range(len($trace_ids))) AS number, unnest($trace_ids) AS trace_id, unnest($span_ids) AS span_id
) AS t
LEFT JOIN span AS s ON s.trace_id = t.trace_id AND s.span_id = t.span_id
"""


def in_force(number: int, executor_kind: ExecutorKind, keys: Mapping[str, object]) -> ActiveRule:
    """Return a revision of a rule."""
    rule = parse_rule(json.dumps({"name": f"rule {number}", **keys})).rule
    return ActiveRule(tenant="", rule_id=f"id-{number}", revision=number, rule=rule, executor_kind=executor_kind)


@dataclass(slots=True)
class Book:
    """Revisions of rules, by their numbers."""

    store: Store
    revisions: dict[int, ActiveRule] = field(default_factory=dict)

    def rule(self, executor_kind: ExecutorKind = "check", **keys: object) -> ActiveRule:
        """Store a new active rule, and return it."""
        number = len(self.revisions) + 1
        active = self.revisions[number] = in_force(number, executor_kind, keys)
        rule = active.rule
        values = {
            "revision": number,
            "rule_id": active.rule_id,
            "digest": rule.revision,
            "rule": rule.name,
            "target": rule.target,
            "kind": rule.evaluator,
            "now": NOW,
        }
        self.store._writer.store(lambda cursor: _none(cursor.execute(_REVISION, values)), 1)
        return active

    def edit(self, active: ActiveRule, **rule: Any) -> None:
        """Replace values of the rule, in this revision too."""
        self.revisions[active.revision] = replace(active, rule=replace(active.rule, **rule))

    def delete(self, active: ActiveRule) -> None:
        """Delete the rule."""
        self.revisions[active.revision] = replace(active, deleted=True)

    def enqueue(self, active: ActiveRule, targets: Sequence[tuple[str, str | None]]) -> None:
        """Make a job of each target, a trace id and perhaps a span id, under the next numbers."""
        values: dict[str, Any] = {
            "revision": active.revision,
            "trace_ids": [trace_id for trace_id, _ in targets],
            "span_ids": [span_id for _, span_id in targets],
            "now": NOW,
        }

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(_JOB, values)
            cursor.execute("UPDATE matching_state SET last_job = last_job + $count", {"count": len(targets)})

        self.store._writer.store(write, len(targets))

    def supersede(self, job_id: int) -> None:
        """Let the job's target be evaluated again, as matching does of a trace that gets a late span."""

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute("UPDATE matching_state SET last_job = last_job + 1")
            cursor.execute(
                "INSERT INTO superseded (job_id, superseded_at) VALUES ($job_id, $now)", {"job_id": job_id, "now": NOW}
            )
            successor = (
                "INSERT INTO job BY NAME SELECT * REPLACE ((SELECT last_job FROM matching_state) AS job_id, "
                "round + 1 AS round, 'ready' AS state, 0 AS attempts, NULL AS claimed_until) "
                "FROM job WHERE job_id = $job_id"
            )
            cursor.execute(successor, {"job_id": job_id})

        self.store._writer.store(write, 1)


@dataclass(slots=True)
class LocalJudges:
    """A `JudgeSource` over local model servers, which rules name as their connection."""

    connections: Mapping[str, ModelConnection] = field(default_factory=dict)
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    health: JudgeHealth = field(default_factory=JudgeHealth)
    _models: dict[str, ChatModel] = field(default_factory=dict)

    def connection_of(self, active: ActiveRule) -> str:
        """Return the connection that the rule names."""
        named = active.rule.connection
        if named is None or named not in self.connections:
            raise BadConfiguration(f"there is no connection {named}; make one")
        return named

    def jurors(self, active: ActiveRule) -> Sequence[Juror]:
        """Return the connections that the rule names."""
        named = (self.connection_of(active), *active.rule.jury) if active.rule.jury else ()
        return [Juror(connection_id=each, name=each) for each in named]

    def in_flight(self, connection_id: str) -> int:
        """Return its limit."""
        return self.connections[connection_id].in_flight

    def fallback(self, connection_id: str) -> Fallback | None:
        """Return the fallback of a connection."""
        name = self.fallbacks.get(connection_id)
        return None if name is None else Fallback(connection_id=name, name=name)

    def judge(
        self, active: ActiveRule, job: Job, *, current: Callable[[], ActiveRule], over: str | None = None
    ) -> Judge:
        """Return a judge over its model."""
        assert job.attempts > 0, "it was claimed"
        assert current().rule_id == active.rule_id
        key = over or self.connection_of(active)
        if key not in self.connections:
            raise BadConfiguration(f"there is no connection {key}")
        if key not in self._models:
            self._models[key] = ChatModel(self.connections[key])
        return ChatJudge(self._models[key])

    async def close(self) -> None:
        """Close the models."""
        for model in self._models.values():
            await model.close()


def a_connection(base_url: str, **more: Any) -> ModelConnection:
    """Build a connection that is asked once a job, and not waited for long."""
    limits: dict[str, Any] = {"attempts": 1, "timeout_s": 0.5, "in_flight": 4}
    return ModelConnection(base_url=base_url, model="judge-1", protocol="CHAT_COMPLETIONS", **limits | more)


@contextmanager
def working(
    book: Book,
    connections: Mapping[str, ModelConnection] | None = None,
    *,
    judges: JudgeSource | None = None,
    retry_policy: RetryPolicy = QUICK,
    program: str = PROGRAM,
    checking: int = 2,
) -> Iterator[Workers]:
    """Yield workers at work on the store, with judges over these connections, or with other ones."""
    workers = Workers(
        book.store.jobs,
        book.store.windows,
        book.revisions.get,
        judges or LocalJudges(connections or {}),
        WorkerOptions(own=OwnKeys({}), retry_policy=retry_policy, program=program, checking=checking),
    )
    workers.start()
    try:
        yield workers
    finally:
        workers.close()


def eventually(look: Callable[[], T], good: Callable[[T], bool]) -> T:
    """Poll `look` until its value is good; return the value."""
    return until(look, good, within_s=LONG_S)


def evaluated(store: Store, columns: str = "outcome, score, passed") -> list[tuple[object, ...]]:
    """Read the results of the jobs, in their order."""
    return rows(store, f"SELECT {columns} FROM evaluations ORDER BY job_id")


def states(store: Store) -> dict[object, object]:
    """Count the jobs in each state."""
    return {state: count for state, count in rows(store, "SELECT state, count(*) FROM jobs GROUP BY state")}  # noqa: C416 - rows are tuples


def _none(_: object) -> None:
    return None
