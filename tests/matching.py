"""A store whose spans are read and matched: helpers for tests of active rules."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb

from collector.conventions.own_keys import NO_KEYS
from collector.live.active import ActiveRule
from collector.live.matching.matcher import Matcher, MatcherEnvironment
from collector.reading.spans import ConventionsReader
from collector.reading.updater import TraceUpdater
from rules.settling import Settling
from storage import sql
from storage.ingest.meaning import Reads
from storage.judging.backfills import Backfill
from storage.store import Store
from tests.ruling import a_rule
from tests.storing import START_NS, WAIT_S


@dataclass(slots=True)
class Clock:
    """A clock that stands still until a test moves it."""

    now_ns: int = START_NS

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ns += round(seconds * 1e9)


@dataclass(slots=True)
class InForce:
    """The active rules, which a test may replace."""

    rules: tuple[ActiveRule, ...] = ()
    enqueued: int = 0
    clock: Clock = field(default_factory=Clock)

    def revision(self, number: int) -> ActiveRule | None:
        """Return the revision of that number, if it is active."""
        return next((active for active in self.rules if active.revision == number), None)

    def note(self) -> None:
        """Count that there are new jobs."""
        self.enqueued += 1


def active(revision: int, *, tenant: str = "", **keys: object) -> ActiveRule:
    """Return an active rule."""
    rule = a_rule(**keys)
    return ActiveRule(tenant=tenant, rule_id=f"rule-{revision}", revision=revision, rule=rule, executor_kind="check")


@contextmanager
def reading_and_matching(
    store: Store, in_force: InForce, settling: Settling | None = None
) -> Iterator[Callable[[], bool]]:
    """Run trace updater and matcher on the store; yield a function that waits for both."""
    with matching(store, in_force, settling) as matcher, adding_up(store) as traces:
        yield lambda: traces.wait_idle(WAIT_S) and matcher.wait_matched(WAIT_S)


@contextmanager
def adding_up(store: Store, *, reads: Reads | None = None) -> Iterator[TraceUpdater]:
    """Run the trace updater on the store."""
    reads = reads or ConventionsReader(NO_KEYS)
    traces = TraceUpdater(store.trace_meanings, reads, ingest_is_behind=lambda: False)
    traces.start()
    try:
        yield traces
    finally:
        traces.close()


@contextmanager
def matching(store: Store, in_force: InForce, settling: Settling | None = None) -> Iterator[Matcher]:
    """Open a matcher at work on the store."""
    matcher = Matcher(
        store.matching,
        lambda: in_force.rules,
        settling or Settling(),
        enqueued=in_force.note,
        revision=in_force.revision,
        surroundings=MatcherEnvironment(clock=in_force.clock),
    )
    matcher.start()
    try:
        yield matcher
    finally:
        matcher.close()


def write(store: Store, statement: str, values: Mapping[str, object] | None = None) -> None:
    """Execute a statement as a worker would."""

    def execute(cursor: duckdb.DuckDBPyConnection) -> None:
        cursor.execute(statement, dict(values or {}))

    store.matching._writer.store(execute, 1)


def remember(store: Store, *rules: ActiveRule) -> None:
    """Store the rules as the active ones, as their owner would."""
    for one in rules:
        clauses = [str(clause) for clause in one.rule.clauses]
        values = {"name": one.rule.name, "rule": one.rule_id, "revision": one.revision, "tenant": one.tenant}
        more = {"target": one.rule.target, "clauses": clauses, "document": json.dumps(one.rule.document())}
        write(store, _RULE, values)
        write(store, _REVISION, values | more)


_RULE = """
INSERT INTO rule BY NAME SELECT $tenant AS tenant, $rule AS rule_id, $name AS name, 'API' AS origin, '' AS text,
    true AS enabled, $revision AS revision, 1 AS version, now()::TIMESTAMP AS created_at, now()::TIMESTAMP AS updated_at
"""
_REVISION = """
INSERT INTO rule_revision BY NAME SELECT $revision AS revision, $rule AS rule_id, $tenant AS tenant, '' AS digest,
    $name AS rule, $target AS target, '' AS evaluator, $document AS document, $clauses AS clauses,
    now()::TIMESTAMP AS created_at
"""


def every_backfill(live: Matcher) -> list[Backfill]:
    """Return all backfills, oldest first, also those that have ended."""
    select = sql.query("running_backfills").replace("""WHERE "state" = 'running'""", "")
    return live._matching.backfills._found(select)
