"""Stored decisions are those of `rules.matching.decide`, for any rules and spans, in any order."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, Literal

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.live.active import ActiveRule
from collector.live.matching.matcher import Matcher, MatcherEnvironment
from rules.errors import BadRule
from rules.fields import Row
from rules.matching import Decision, decide
from rules.settling import Settling
from storage.ingest.backlog import SEQ_BITS
from storage.store import Store
from tests.matching import Clock, write
from tests.ruling import a_rule, insert_one
from tests.storing import a_store
from tests.test_rule_meaning import clauses, spans

OUTCOMES: Final[tuple[Literal["filtered", "sampled_out", "matched"], ...]] = ("filtered", "sampled_out", "matched")
TABLES = ("span", "trace_part", "decision", "job", "superseded", "trace_open")

_INSERT_PARTS = """
INSERT INTO trace_part BY NAME SELECT
    '' AS tenant, trace_id, ('0x' || trace_id[17:])::UBIGINT AS trace_key, start_time, start_time AS last_start_time,
    1 AS span_count, 0 AS error_count, seq AS batch
FROM span
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store for many examples."""
    with a_store(tmp_path_factory.mktemp("meaning")) as opened:
        yield opened


candidates = st.tuples(
    st.lists(clauses, min_size=1, max_size=3),
    st.sampled_from(("SPAN", "TRACE")),
    st.sampled_from((0.0, 0.3, 1.0)),
    st.none() | st.sampled_from(("a", "ß")),
)


@settings(max_examples=50, deadline=None)
@given(
    made=st.lists(st.tuples(spans, st.integers(0, 2), st.booleans()), min_size=1, max_size=6),
    drafts=st.lists(candidates, min_size=1, max_size=6),
)
def test_decisions_are_those_of_the_meaning(
    store: Store, made: list[tuple[dict[str, Any], int, bool]], drafts: list[tuple[Any, ...]]
) -> None:
    """Of every span and of every trace, whatever batches it comes in."""
    rules = tuple(numbered(drafts))
    clock = Clock()
    surroundings = MatcherEnvironment(clock=clock)
    live = Matcher(store.matching, lambda: rules, Settling(), enqueued=lambda: None, surroundings=surroundings)
    empty(store)
    for batch, ends_batch in put(store, made):
        if ends_batch or batch == len(made) - 1:
            let_be_committed(store, batch)
            while live._match_new(at_once=True):
                pass
    clock.pass_s(3601)
    while live._settle(at_once=True):
        pass
    live._matcher_db.close()
    assert decided(store) == [one for rule in rules for one in meant(store, rule)]


def numbered(drafts: list[tuple[Any, ...]]) -> Iterator[ActiveRule]:
    """Yield the candidates that are rules, with their revisions."""
    for revision, (conditions, target, rate, project) in enumerate(drafts):
        try:
            rule = a_rule(conditions=conditions, target=target, sampleRate=rate, project=project)
        except BadRule:
            continue
        yield ActiveRule(tenant="", rule_id=str(revision), revision=revision, rule=rule, executor_kind="check")


def decided(store: Store) -> list[tuple[int, int, Decision]]:
    """Return the stored decisions: revision, number of the span or of the trace's last span, and decision."""
    with store.matching._database.cursor() as cursor:
        rows = cursor.execute("SELECT revision, seq, outcome, clause FROM decision ORDER BY revision, seq").fetchall()
    return [(number, seq, Decision(outcome=OUTCOMES[outcome], clause=clause)) for number, seq, outcome, clause in rows]


def meant(store: Store, active: ActiveRule) -> list[tuple[int, int, Decision]]:
    """Return the same by the meaning of the rule, from the rows of the view."""
    with store.matching._database.cursor() as cursor:
        answer = cursor.execute("SELECT * FROM spans ORDER BY seq")
        names = [column[0] for column in answer.description or []]
        every: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
    targets: dict[object, list[Row]] = defaultdict(list)
    last: dict[object, int] = {}
    for row in every:
        target = row["trace_id"] if active.rule.target == "TRACE" else row["seq"]
        targets[target].append(row)
        last[target] = row["seq"]
    decisions = [(active.revision, last[key], decide(active.rule, rows)) for key, rows in targets.items()]
    return sorted(decisions, key=by_number)


def by_number(decided: tuple[int, int, Decision]) -> tuple[int, int]:
    """Return the order in which decisions are compared."""
    return decided[:2]


def empty(store: Store) -> None:
    """Let nothing be stored."""
    deleted = (f"DELETE FROM {table}" for table in TABLES)
    write(store, "; ".join((*deleted, "UPDATE matching_state SET seq = -1, last_job = 0")))


def let_be_committed(store: Store, batch: int) -> None:
    """Make the writer report `batch` commits."""
    writer = store.matching._writer
    writer._totals = replace(writer._totals, batch=batch)


def put(store: Store, made: list[tuple[dict[str, Any], int, bool]]) -> list[tuple[int, bool]]:
    """Store made spans as if each had been committed alone; the commits, and after which of them there is a match."""

    def insert(cursor: duckdb.DuckDBPyConnection) -> None:
        for batch, (span, trace, _) in enumerate(made):
            ids = {"span_id": f"{batch:016x}", "trace_id": f"{trace + 1:032x}"}
            insert_one(cursor, batch << SEQ_BITS, {**span, **ids})
        cursor.execute(f"UPDATE span SET batch = seq >> {SEQ_BITS}")
        cursor.execute(_INSERT_PARTS)

    store.matching._writer.store(insert, 1)
    let_be_committed(store, -1)
    return [(batch, ends_batch) for batch, (_, _, ends_batch) in enumerate(made)]
