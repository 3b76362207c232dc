"""Rules and spans for tests: texts of rules, and a DuckDB in memory whose view `spans` is the real one."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb

from rules.fields import Row
from rules.predicate import predicate
from rules.rule import Rule
from rules.rule_text import parse_rule
from storage import sql

COLUMNS = {
    "span": ("trace_id", "span_id", "parent_span_id", "name", "kind", "status_code", "status_message", "project"),
    "reading": ("span_type", "input", "output", "tool_name", "model", "input_tokens", "cost_usd", "error"),
}
"""The columns that a made span may set, of those that conditions can be about."""

_INSERT_SPAN = """
INSERT INTO span BY NAME SELECT
    '' AS tenant, $trace_id AS trace_id, $span_id AS span_id, $parent_span_id AS parent_span_id, $name AS name,
    $kind AS kind, $status_code AS status_code, $status_message AS status_message, $project AS project,
    coalesce($service, '') AS service_name, make_timestamp_ns($start_ns) AS start_time,
    make_timestamp_ns($end_ns) AS end_time, map($keys::VARCHAR[], $values::VARCHAR[]) AS attributes,
    $types AS attribute_types,
    list_transform(range(len($event_names::VARCHAR[])), lambda place: struct_pack(
        "time" := NULL::TIMESTAMP_NS,
        "name" := ($event_names::VARCHAR[])[place + 1],
        attributes := map(($event_keys::VARCHAR[][])[place + 1], ($event_values::VARCHAR[][])[place + 1]),
        attribute_types := NULL::VARCHAR,
        dropped_attributes_count := 0::UINTEGER
    )) AS events,
    ($end_ns - $start_ns) / 1e6 AS duration_ms, $resource AS resource_attributes, $seq AS seq,
    $span_type AS span_type, $input AS input, $output AS output, $tool_name AS tool_name,
    $model AS model, $input_tokens AS input_tokens, $cost_usd AS cost_usd, $error AS error
"""


@contextmanager
def views_in_memory() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database with the tables and views of a store, and nothing in them."""
    with duckdb.connect(config={"threads": 1}) as connection:
        for _, _, step in sql.migrations():
            connection.execute(step)
        for _, view in sql.views():
            connection.execute(view)
        yield connection


def a_rule(**keys: object) -> Rule:
    """Build a rule, parsed from its text."""
    return parse_rule(json.dumps({"name": "a rule", "evaluator": "tool_error", **keys})).rule


def a_span(**columns: object) -> dict[str, Any]:
    """Something to insert; every column that is not named is NULL, or nothing."""
    defaults: dict[str, Any] = dict.fromkeys((*COLUMNS["span"], *COLUMNS["reading"]))
    start = {"start_ns": 1_795_255_200_000_000_000, "end_ns": 1_795_255_200_005_000_000, "service": ""}
    return {
        **defaults,
        "trace_id": "a" * 32,
        "span_id": "b" * 16,
        "name": "span",
        "attributes": {},
        "resource": {},
        "events": [],
        **start,
        **columns,
    }


def insert(connection: duckdb.DuckDBPyConnection, spans: Sequence[Mapping[str, Any]]) -> None:
    """Let these be all the spans that there are."""
    connection.execute("DELETE FROM span")
    for seq, span in enumerate(spans):
        insert_one(connection, seq, span)


def insert_one(connection: duckdb.DuckDBPyConnection, seq: int, span: Mapping[str, Any]) -> None:
    """Add a span under a number."""
    names = (*COLUMNS["span"], *COLUMNS["reading"], "service", "start_ns", "end_ns")
    values = {name: span[name] for name in names} | _entries(seq, span["attributes"])
    values |= {
        "event_names": [name for name, _ in span["events"]],
        "event_keys": [[*attributes] for _, attributes in span["events"]],
        "event_values": [[*attributes.values()] for _, attributes in span["events"]],
    }
    connection.execute(_INSERT_SPAN, values | {"resource": json.dumps(span["resource"])})


def stored(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """Return the rows of the view, in the order of their span ids."""
    rows = connection.execute("SELECT * FROM spans ORDER BY span_id")
    names = [column[0] for column in rows.description or []]
    return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


def failing_clauses(connection: duckdb.DuckDBPyConnection, rule: Rule) -> list[int | None]:
    """Evaluate the rule in SQL for each row, in the same order."""
    failing = predicate(rule.clauses)
    select = f"SELECT {failing.sql} FROM spans ORDER BY span_id"
    return [clause for (clause,) in connection.execute(select, failing.parameters).fetchall()]


def _entries(seq: int, attributes: Mapping[str, str | float | None]) -> dict[str, Any]:
    # As the store keeps them: texts, and the letters of their types if one is a double.
    values = [str(value) if isinstance(value, float) else value for value in attributes.values()]
    letters = "".join("d" if isinstance(value, float) else "s" for value in attributes.values())
    return {"seq": seq, "keys": list(attributes), "values": values, "types": letters if "d" in letters else None}
