"""Annotations by people, applications and their users. Each change is a new row; the last one of an author counts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import duckdb

from storage import sql
from storage.engine.database import Database
from storage.ingest.writer import Writer
from storage.sql import dict_rows

Source: TypeAlias = Literal["person", "adjudicator", "application", "user"]
"""Kind of author; a decision of an adjudicator takes precedence over votes of persons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationTarget:
    """Target of annotations. An item of a run has no trace id; an annotation of a session is on its latest trace."""

    tenant: str
    target: Literal["trace", "span", "session", "run_item"]
    project: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    item_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAnnotation:
    """A new annotation. `name` is the question that it answers, `expected` is JSON."""

    about: AnnotationTarget
    name: str
    label: str | None = None
    score: float | None = None
    note: str | None = None
    expected: str | None = None
    source: Source
    author: str
    withdrawn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A stored annotation. `number` is None if it was received as an event in a log record."""

    tenant: str
    project: str | None
    target: str
    trace_id: str | None
    span_id: str | None
    session_id: str | None
    run_id: str | None
    item_number: int | None
    name: str
    label: str | None
    score: float | None
    passed: bool | None
    note: str | None
    expected: str | None
    source: str
    author: str
    withdrawn: bool
    superseded: bool
    number: int | None
    created_at_ns: int
    error_kind: str | None = None  # set for an event that reports a failure; then its label is not a verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationCriteria:
    """Filter of annotations; None matches all."""

    trace_id: str | None = None
    span_id: str | None = None
    session_id: str | None = None
    item_number: int | None = None
    name: str | None = None
    author: str | None = None
    history: bool = False  # also annotations that were changed or deleted later


class Annotations:
    """The annotations of a store. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer

    def add(self, annotations: Sequence[NewAnnotation], *, now_us: int) -> int:
        """Store all annotations or none; return the number of new rows. An unchanged repetition adds no row.

        Raises:
            Overloaded: nothing was stored.

        """
        stored: list[int] = []

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            stored.clear()
            stored.extend(put_annotations(cursor, annotations, now_us=now_us))

        self._writer.store(write, len(annotations))
        return len(stored)

    def like(
        self, criteria: AnnotationCriteria, *, tenant: str | None, most: int = 1_000, skip: int = 0
    ) -> list[Annotation]:
        """Return annotations, newest first; those of a tenant plus shared ones, or of all tenants with None."""
        parameters: dict[str, Any] = {**asdict(criteria), "tenant": tenant, "rows": most, "skip": skip}
        with self._database.snapshot() as cursor:
            if criteria.trace_id is not None and not _has_annotations(cursor, criteria.trace_id):
                return []
            cursor.execute(sql.query("annotations").replace("$annotations", sql.select_of("annotations")), parameters)
            return [Annotation(**row) for row in dict_rows(cursor)]


def _has_annotations(cursor: duckdb.DuckDBPyConnection, trace_id: str) -> bool:
    ((exists,),) = cursor.execute(sql.query("has_annotations"), {"trace_id": trace_id}).fetchall()
    return bool(exists)


def put_annotations(
    cursor: duckdb.DuckDBPyConnection, annotations: Sequence[NewAnnotation], *, now_us: int
) -> list[int]:
    """Store new annotations; return the numbers of their rows. The writer's thread calls this in a transaction."""
    stored: list[int] = []
    for each in annotations:
        rows = cursor.execute(sql.query("insert_annotation"), _values(each) | {"now_us": now_us}).fetchall()
        stored.extend(number for (number,) in rows)
    return stored


def _values(annotation: NewAnnotation) -> dict[str, Any]:
    values = asdict(annotation)
    about: dict[str, Any] = values.pop("about")
    return about | values
