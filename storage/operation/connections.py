"""Stored connections to judge models: each has a document without the API key, and the encrypted key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import duckdb

from storage import sql
from storage.engine.database import Database
from storage.errors import WriteConflict
from storage.ingest.writer import Writer
from storage.records import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRow:
    """A connection. One from the configuration file keeps its id if it is removed from the file and added again."""

    tenant: str
    connection_id: str
    name: str
    origin: Origin
    document: str  # JSON, without the key
    secret: bytes | None = field(repr=False)
    version: int
    created_at: datetime  # UTC, as a naive datetime
    updated_at: datetime
    is_deleted: bool = False


class Connections:
    """The connections of a store."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer

    def all(self) -> list[ConnectionRow]:
        """Return all connections, and deleted ones of files."""
        with self._database.cursor() as cursor:
            return [_row(*values) for values in cursor.execute(sql.query("llm_connections")).fetchall()]

    def store(self, *, new: Sequence[ConnectionRow] = (), changed: Sequence[ConnectionRow] = ()) -> None:
        """Store rows, all of them or none. The version of a changed row MUST be one more than the stored version.

        Raises:
            WriteConflict: nothing was stored, because a changed row has another stored version.
            Overloaded: nothing was stored, because the database cannot be written now, or is being closed.
        """
        self._writer.store(_storing(new, changed), len(new) + len(changed))

    def replace_secret(self, connection_id: str, *, sealed: bytes, before: bytes) -> None:
        """Replace the encrypted secret `before`, if it is still stored, by `sealed`, which holds the same secret.

        The version of the connection stays the same.

        Raises:
            Overloaded: nothing was stored.
        """
        values = {"connection_id": connection_id, "sealed": sealed, "before": before}

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("replace_connection_secret"), values)

        self._writer.store(write, 1)

    def named_by_rules(self, tenant: str) -> list[tuple[str, str]]:
        """Return pairs of an enabled rule and the name of the connection that it uses."""
        with self._database.cursor() as cursor:
            return cursor.execute(sql.query("connections_of_rules"), {"tenant": tenant}).fetchall()


def _storing(
    new: Sequence[ConnectionRow], changed: Sequence[ConnectionRow]
) -> Callable[[duckdb.DuckDBPyConnection], None]:
    def write(cursor: duckdb.DuckDBPyConnection) -> None:
        for row in new:
            created = {"tenant": row.tenant, "origin": row.origin, "created_at": row.created_at}
            cursor.execute(sql.query("insert_llm_connection"), _columns_of(row) | created)
        for row in changed:
            values = _columns_of(row) | {"is_deleted": row.is_deleted}
            ((stored,),) = cursor.execute(sql.query("update_llm_connection"), values).fetchall()
            if not stored:
                raise WriteConflict(f"the connection {row.name!r} was changed meanwhile")

    return write


def _columns_of(row: ConnectionRow) -> dict[str, object]:
    return {
        "connection_id": row.connection_id,
        "name": row.name,
        "document": row.document,
        "secret": row.secret,
        "version": row.version,
        "updated_at": row.updated_at,
    }


def _row(*values: object) -> ConnectionRow:
    names = tuple(ConnectionRow.__dataclass_fields__)
    return ConnectionRow(**dict(zip(names, values, strict=True)))  # type: ignore[arg-type] # the statement's columns
