"""API keys, of which only the digests are stored, and the audit log."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.database import Database
from storage.ingest.writer import Writer

_LAST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is stored. Instants are in microseconds since the Unix epoch."""

    key_id: str
    tenant: str  # "": a key of no tenant, which sees all of them
    name: str
    role: str
    digest: bytes
    hint: str  # how the key begins
    enabled: bool
    expires_us: int | None
    last_used_us: int | None
    created_us: int
    created_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A request that writes or was refused; `times` counts equal ones that share the entry."""

    at_us: int
    key_id: str | None
    key_name: str | None
    tenant: str
    address: str
    method: str
    path: str
    status: int
    detail: str | None
    request_id: str | None
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Filter of the audit; None matches all."""

    tenant: str | None = None
    key: str | None = None  # its id or name
    path: str | None = None  # a part of it
    refused: bool | None = None  # True: only status 400 and above; False: only below


_AUDIT = pa.schema(
    [
        *(
            pa.field(each.name, pa.int64() if each.name in {"at_us", "status", "times"} else pa.string())
            for each in fields(AuditEntry)
        ),
        pa.field("place", pa.int64()),
    ]
)


class Access:
    """The API keys and the audit log of a store. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer

    def keys(self) -> list[ApiKey]:
        """Return all keys, oldest first."""
        names = [each.name for each in fields(ApiKey)]
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("api_keys")).fetchall()
        return [ApiKey(**dict(zip(names, row, strict=True))) for row in rows]

    def add_keys(self, keys: Sequence[ApiKey], *, instead_of: Sequence[str] = ()) -> None:
        """Store keys, and delete those with the ids `instead_of`: all or none.

        Raises:
            Overloaded: nothing can be written now.
        """

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            for key_id in instead_of:
                _run(cursor, sql.query("delete_api_key"), {"key_id": key_id})
            for key in keys:
                _run(cursor, sql.query("insert_api_key"), asdict(key))

        self._writer.store(write, len(keys) + len(instead_of))

    def disable_key(self, key_id: str) -> None:
        """Disable a key."""
        self._writer.store(lambda cursor: _run(cursor, sql.query("disable_api_key"), {"key_id": key_id}), 1)

    def delete_key(self, key_id: str) -> None:
        """Delete a key."""
        self._writer.store(lambda cursor: _run(cursor, sql.query("delete_api_key"), {"key_id": key_id}), 1)

    def record(self, entries: Sequence[AuditEntry], used_us: Mapping[str, int], *, kept: int) -> None:
        """Store audit entries and the last uses of keys (by id); delete all but the latest `kept` entries.

        Raises:
            Overloaded: nothing can be written now.
        """
        rows = pa.Table.from_pylist(
            [asdict(entry) | {"place": place} for place, entry in enumerate(entries, start=1)], schema=_AUDIT
        )

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            if rows.num_rows:
                cursor.register("incoming_audit", rows)
                cursor.execute(sql.query("insert_audit"))
                cursor.execute(sql.query("trim_audit"), {"kept": kept})
            for key_id, at_us in used_us.items():
                cursor.execute(sql.query("note_key_use"), {"key_id": key_id, "used_us": at_us})

        self._writer.store(write, rows.num_rows + len(used_us))

    def audit(self, criteria: AuditFilter, *, before: int | None, limit: int) -> list[tuple[int, AuditEntry]]:
        """Return up to `limit` entries with their numbers, newest first, below `before` unless it is None."""
        bounds = asdict(criteria) | {"before": _LAST_ID if before is None else before, "entries": limit}
        names = [each.name for each in fields(AuditEntry)]
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("audit_page"), bounds).fetchall()
        return [(row[0], AuditEntry(**dict(zip(names, row[1:], strict=True)))) for row in rows]


def _run(cursor: duckdb.DuckDBPyConnection, statement: str, values: Mapping[str, object]) -> None:
    cursor.execute(statement, dict(values))
