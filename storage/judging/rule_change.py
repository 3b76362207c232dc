"""Rules as rows, and changes of them that are prepared before they are written."""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

import duckdb
import pyarrow as pa

from storage import sql
from storage.errors import Conflict, NotFound, WriteConflict, require_version
from storage.limit import Limit
from storage.records import Origin

MAX_RULES: Final = 1_000
"""Maximum number of rules without a tenant. A guess: each rule is matched with each window of spans."""

MAX_OF_TENANT: Final = 100
"""Maximum number of rules of each tenant. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDraft:
    """New content of a rule."""

    tenant: str
    project: str | None  # None: all projects
    name: str
    origin: Origin
    file: str | None  # name of the file that the rule is from
    text: str  # source text, as the author wrote it
    enabled: bool
    digest: str
    target: str
    evaluator: str
    document: str  # the parsed rule, as JSON
    clauses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRule:
    """A rule with its current revision; a deleted one keeps its row, because its results name it."""

    tenant: str
    rule_id: str
    project: str | None
    name: str
    origin: Origin
    file: str | None
    text: str
    enabled: bool
    revision: int
    version: int
    created_at_us: int
    updated_at_us: int
    deleted_at_us: int | None

    @property
    def identity(self) -> tuple[str, str | None, str]:
        """Return the key that only one rule has at a time."""
        return self.tenant, self.project, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRevision:
    """Content of a rule at one time."""

    revision: int
    rule_id: str
    tenant: str
    digest: str
    rule: str
    project: str | None
    target: str
    evaluator: str
    document: str
    clauses: tuple[str, ...]


class RuleChange:
    """Pending changes of rules, computed from a snapshot of the stored rules; `write` checks that it is current."""

    def __init__(self, rules: Sequence[StoredRule], numbers: Iterable[tuple[str, str, int]], now_us: int) -> None:
        self._rules = {rule.rule_id: rule for rule in rules}
        self._versions = {rule.rule_id: rule.version for rule in rules}
        self._numbers = {(rule_id, digest): number for rule_id, digest, number in numbers}
        self._last = max(self._numbers.values(), default=0)
        self._now_us = now_us
        self.changed: dict[str, StoredRule] = {}
        self.revisions: list[StoredRevision] = []

    def living(self, rule_id: str, seen: Collection[int] | None = None) -> StoredRule:
        """Return the rule of that id, if it has one of the versions in `seen`, or any if None.

        Raises:
            NotFound: no rule has this id.
            Stale: the rule has another version.

        """
        rule = self._rules.get(rule_id)
        if rule is None or rule.deleted_at_us is not None:
            raise NotFound(f"there is no rule {rule_id}")
        require_version(rule.version, seen)
        return rule

    def of_files(self) -> list[StoredRule]:
        """Return the rules from files."""
        return [rule for rule in self._rules.values() if rule.origin == "FILE" and rule.deleted_at_us is None]

    def refuse_taken(self, draft: RuleDraft, *, but: str | None = None) -> None:
        """Refuse a name that another rule has.

        Raises:
            Conflict: another rule has the name.
        """
        holder = self._holder(draft)
        if holder is not None and holder.rule_id != but:
            by = f"the file {holder.file} has" if holder.origin == "FILE" else f"the API made ({holder.rule_id})"
            raise Conflict(f"{_of(draft.project)} there is a rule {draft.name!r} already, which {by}")

    def refuse_many(self, draft: RuleDraft) -> None:
        """Refuse another rule if the limit is reached.

        Raises:
            Conflict: the limit of rules is reached.
        """
        most, whose = (MAX_OF_TENANT, f"of tenant {draft.tenant!r}") if draft.tenant else (MAX_RULES, "of no tenant")
        living = sum(rule.tenant == draft.tenant and rule.deleted_at_us is None for rule in self._rules.values())
        if living >= most:
            limit = Limit(value=most, unit=f"rules {whose}", remedy="delete some first, disabled ones included")
            raise Conflict(f"there can be no more than {limit}")

    def follow(self, draft: RuleDraft) -> str:
        """Set a rule from a file, which may exist already, and return its id.

        Raises:
            Conflict: a rule of that name was made by the API, or the limit of rules is reached.

        """
        holder = self._holder(draft)
        if holder is not None and holder.origin == "API":
            self.refuse_taken(draft)
        if holder is None:
            self.refuse_many(draft)
            earlier = [
                rule
                for rule in self._rules.values()
                if rule.origin == "FILE" and rule.identity == (draft.tenant, draft.project, draft.name)
            ]
            holder = max(earlier, key=lambda rule: rule.updated_at_us, default=None)
        return self.put(draft, holder).rule_id

    def put(self, draft: RuleDraft, current: StoredRule | None) -> StoredRule:
        """Set a rule to a draft."""
        rule_id = uuid.uuid4().hex if current is None else current.rule_id
        made = StoredRule(
            tenant=draft.tenant,
            rule_id=rule_id,
            project=draft.project,
            name=draft.name,
            origin=draft.origin,
            file=draft.file,
            text=draft.text,
            enabled=draft.enabled,
            revision=self._number(rule_id, draft),
            version=1 if current is None else current.version,
            created_at_us=self._now_us if current is None else current.created_at_us,
            updated_at_us=self._now_us if current is None else current.updated_at_us,
            deleted_at_us=None,
        )
        if made == current:
            return made
        return self._changes(made if current is None else self._touched(made))

    def delete(self, rule: StoredRule) -> None:
        """Delete a rule."""
        self._changes(self._touched(replace(rule, deleted_at_us=self._now_us)))

    def write(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Store the changes. The writer's thread calls this in a transaction.

        Raises:
            WriteConflict: one of the rules was changed since the change was computed.
        """
        rules = list(self.changed.values())
        changed = [asdict(rule) | {"was": self._versions.get(rule.rule_id)} for rule in rules]
        cursor.register("changed_rules", _table(_RULES.append(pa.field("was", _COUNT)), changed))
        if moved := cursor.execute(sql.query("versions_of_rules")).fetchall():
            raise WriteConflict(f"the rule {moved[0][0]} was changed meanwhile")
        cursor.execute(sql.query("delete_changed_rules"))
        cursor.execute(sql.query("insert_changed_rules"))
        stamp = {"created_at_us": self._now_us}
        if self.revisions:
            rows = [asdict(revision) | stamp for revision in self.revisions]
            cursor.register("new_revisions", _table(_REVISIONS, rows))
            cursor.execute(sql.query("insert_rule_revisions"))
        named = {(rule.tenant, rule.project) for rule in rules if rule.project is not None}
        if named:
            rows = [{"tenant": tenant, "name": name, "project_id": uuid.uuid4().hex} | stamp for tenant, name in named]
            cursor.register("new_projects", _table(_PROJECTS, rows))
            cursor.execute(sql.query("insert_projects"))

    def _holder(self, draft: RuleDraft) -> StoredRule | None:
        identity = (draft.tenant, draft.project, draft.name)
        held = (rule for rule in self._rules.values() if rule.deleted_at_us is None and rule.identity == identity)
        return next(held, None)

    def _number(self, rule_id: str, draft: RuleDraft) -> int:
        known = self._numbers.get((rule_id, draft.digest))
        if known is not None:
            return known
        self._last += 1
        self._numbers[rule_id, draft.digest] = self._last
        self.revisions.append(
            StoredRevision(
                revision=self._last,
                rule_id=rule_id,
                tenant=draft.tenant,
                digest=draft.digest,
                rule=draft.name,
                project=draft.project,
                target=draft.target,
                evaluator=draft.evaluator,
                document=draft.document,
                clauses=draft.clauses,
            )
        )
        return self._last

    def _touched(self, rule: StoredRule) -> StoredRule:
        return replace(rule, version=rule.version + 1, updated_at_us=self._now_us)

    def _changes(self, rule: StoredRule) -> StoredRule:
        self._rules[rule.rule_id] = self.changed[rule.rule_id] = rule
        return rule


def _of(project: str | None) -> str:
    return "about all projects" if project is None else f"in the project {project!r}"


def _table(schema: pa.Schema, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


_TEXT, _COUNT, _TIME = pa.string(), pa.int32(), pa.int64()
_RULES: Final = pa.schema(
    [
        *((name, _TEXT) for name in ("tenant", "rule_id", "project", "name", "origin", "file", "text")),
        ("enabled", pa.bool_()),
        *((name, _COUNT) for name in ("revision", "version")),
        *((name, _TIME) for name in ("created_at_us", "updated_at_us", "deleted_at_us")),
    ]
)
_REVISIONS: Final = pa.schema(
    [
        ("revision", _COUNT),
        *((name, _TEXT) for name in ("rule_id", "tenant", "digest", "rule", "project", "target", "evaluator")),
        ("document", _TEXT),
        ("clauses", pa.list_(_TEXT)),
        ("created_at_us", _TIME),
    ]
)
_PROJECTS: Final = pa.schema([("tenant", _TEXT), ("name", _TEXT), ("project_id", _TEXT), ("created_at_us", _TIME)])
