"""Rules and their revisions as rows, and projects."""

import heapq
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from typing import Final, TypeVar

import duckdb

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.errors import Conflict, Overloaded, WriteConflict
from storage.ingest.writer import Writer
from storage.judging.rule_change import RuleChange, RuleDraft, StoredRevision, StoredRule

Made = TypeVar("Made")

_TRIES: Final = 3
_MOST_NAMES: Final = 500
"""Maximum number of names in a menu of projects. Clients choose names, so any number may exist. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project. One that exists only as a name in traces has no id."""

    tenant: str
    name: str
    project_id: str | None
    created_at_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _CountedParts:
    """Number of trace parts counted up to a commit, and the projects that they name, by tenant and name."""

    parts: int = 0
    batch: int = -1
    named: frozenset[tuple[str, str]] = frozenset()


class _TracedProjects:
    """The projects that traces name, cached: new trace parts are added, and all are read again if any was deleted.

    Reading 100,000 parts takes 3 ms, and each list of traces needs the names for its filter.
    """

    def __init__(self) -> None:
        self._counted = _CountedParts()  # replaced as a whole: a concurrent reader counts again

    def named(self, cursor: duckdb.DuckDBPyConnection) -> frozenset[tuple[str, str]]:
        """Return the named projects as of a cursor's snapshot."""
        ((parts,),) = cursor.execute(sql.query("count_trace_parts")).fetchall()
        counted = self._since(cursor, self._counted)
        if counted.parts != parts:
            counted = self._since(cursor, _CountedParts())
        self._counted = counted
        return counted.named

    def _since(self, cursor: duckdb.DuckDBPyConnection, before: _CountedParts) -> _CountedParts:
        rows = cursor.execute(sql.query("traced_projects"), {"batch": before.batch}).fetchall()
        return _CountedParts(
            parts=before.parts + sum(parts for _, _, parts, _ in rows),
            batch=max((last for *_, last in rows), default=before.batch),
            named=before.named | {(tenant, project) for tenant, project, *_ in rows if project is not None},
        )


class Rulebook:
    """Storage of rules. Thread-safe; changes are serialized.

    A rule that returns to earlier content gets its earlier revision again, because revisions go by digest.
    """

    def __init__(self, database: Database, writer: Writer, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._database = database
        self._writer = writer
        self._now_ns = now_ns
        self._changing = threading.Lock()
        self._traced = _TracedProjects()

    def rules(self) -> list[StoredRule]:
        """Return all rules, also deleted ones, oldest first."""
        with self._database.cursor() as cursor:
            return _rules(cursor)

    def revisions(self, numbers: Collection[int]) -> list[StoredRevision]:
        """Return the revisions of these numbers that exist."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("rule_revisions"), {"numbers": list(numbers)}).fetchall()
        names = [field.name for field in fields(StoredRevision)]
        return [StoredRevision(**(dict(zip(names, row, strict=True)) | {"clauses": tuple(row[-1])})) for row in rows]

    def projects(self, tenant: str | None = None) -> list[Project]:
        """Return projects, made or only named by traces, sorted by name: of a tenant plus shared ones; None for all."""
        with self._database.snapshot() as cursor:
            made = [_project(row) for row in cursor.execute(sql.query("projects"), {"tenant": tenant}).fetchall()]
            traced = self._traced.named(cursor)
        known = {(project.name, project.tenant): project for project in made}
        for owner, name in traced:
            if tenant is None or owner in {tenant, ""}:
                named = Project(tenant=owner, name=name, project_id=None, created_at_ns=None)
                known.setdefault((name, owner), named)
        return [project for _, project in sorted(known.items())]

    def project_names(self, tenant: str | None = None) -> list[str]:
        """Return names of projects for a menu, sorted: up to 500, made ones before traced ones."""
        places: dict[str, tuple[bool, str]] = {}
        for project in self.projects(tenant):
            place = (project.project_id is None, project.name)
            places[project.name] = min(places.get(project.name, place), place)
        return sorted(heapq.nsmallest(_MOST_NAMES, places, key=places.__getitem__))

    def project(self, tenant: str | None, key: str) -> Project | None:
        """Return a tenant's or a shared project by name or id; None if it was not made and no trace names it."""
        with self._database.cursor() as cursor:
            row = cursor.execute(sql.query("project_of"), {"tenant": tenant, "key": key}).fetchone()
            if row is not None:
                return _project(row)
            named = cursor.execute(sql.query("project_is_traced"), {"tenant": tenant, "name": key}).fetchone()
        return Project(tenant=tenant or "", name=key, project_id=None, created_at_ns=None) if named else None

    def project_ids(self, tenant: str | None = None) -> dict[tuple[str, str], str]:
        """Return ids of made projects by tenant and name: of a tenant plus shared ones (None: all)."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("project_ids"), {"tenant": tenant}).fetchall()
        return {(owner, name): project_id for owner, name, project_id in rows}

    def create(self, draft: RuleDraft) -> StoredRule:
        """Store a new rule, and its project if there is none of that name.

        Raises:
            Conflict: the name is taken, or there are too many rules.
            Overloaded: the database cannot be written now.
        """

        def make(change: RuleChange) -> StoredRule:
            change.refuse_taken(draft)
            change.refuse_many(draft)
            return change.put(draft, None)

        return self._changed(make)

    def replace(self, rule_id: str, draft: RuleDraft, *, seen: Collection[int] | None = None) -> StoredRule:
        """Replace a rule's content, if it has one of the versions in `seen`, or any if None.

        Raises:
            NotFound: no rule has this id.
            Stale: the rule has another version.
            Conflict: another rule has that name.
            Overloaded: the database cannot be written now.
        """

        def make(change: RuleChange) -> StoredRule:
            current = change.living(rule_id, seen)
            change.refuse_taken(draft, but=rule_id)
            return change.put(draft, current)

        return self._changed(make)

    def delete(self, rule_id: str, *, seen: Collection[int] | None = None) -> None:
        """Delete a rule, if it has one of the versions in `seen`.

        Raises:
            NotFound: no rule has this id.
            Stale: the rule has another version.
            Overloaded: the database cannot be written now.
        """
        self._changed(lambda change: change.delete(change.living(rule_id, seen)))

    def follow_files(self, drafts: Sequence[RuleDraft], *, keep: Collection[str]) -> list[tuple[RuleDraft, str]]:
        """Set the rules from files, in one transaction; a rule whose file is in `keep` stays as it is.

        Rules whose file is gone are deleted. A rule whose file returns later keeps its id.

        Returns:
            The refused drafts, each with the reason.

        Raises:
            Overloaded: nothing was stored, because the database cannot be written now.
        """

        def make(change: RuleChange) -> list[tuple[RuleDraft, str]]:
            refused: list[tuple[RuleDraft, str]] = []
            followed: set[str] = set()
            for draft in drafts:
                try:
                    followed.add(change.follow(draft))
                except Conflict as error:
                    refused.append((draft, str(error)))
            left = {*keep, *(draft.file for draft, _ in refused)}
            for rule in change.of_files():
                if rule.rule_id not in followed and rule.file not in left:
                    change.delete(rule)
            return refused

        return self._changed(make)

    def _changed(self, make: Callable[[RuleChange], Made]) -> Made:
        """Apply the changes that `make` prepares, and return its result; start over if a rule changed meanwhile."""
        with self._changing:
            for _ in range(_TRIES):
                change = self._change()
                made = make(change)
                try:
                    self._apply(change)
                except WriteConflict:
                    continue
                return made
        raise Overloaded("the rules are being changed")

    def _change(self) -> RuleChange:
        with self._database.cursor() as cursor:
            numbers = cursor.execute(sql.query("revision_numbers")).fetchall()
            return RuleChange(_rules(cursor), numbers, self._now_ns() // 1_000)

    def _apply(self, change: RuleChange) -> None:
        if change.changed:
            self._writer.store(change.write, len(change.changed) + len(change.revisions))


def _rules(cursor: duckdb.DuckDBPyConnection) -> list[StoredRule]:
    rows = arrow_table(cursor, sql.query("rules")).to_pylist()
    return [StoredRule(**row) for row in rows]


def _project(row: Sequence[object]) -> Project:
    tenant, name, project_id, created_at_ns = row
    return Project(tenant=tenant, name=name, project_id=project_id, created_at_ns=created_at_ns)  # type: ignore[arg-type] # as the statement says
