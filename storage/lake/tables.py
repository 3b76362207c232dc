"""The tables of the lake: which rows they have, and their columns in the types of Delta."""

import datetime as dt
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

PARTITION: Final = "partition_day"
"""Name of the column by which tables are partitioned: the UTC day of `LakeTable.time`, else of the publication."""

DIRECTORY: Final = "directory_id"
"""Name of the column with the id of the data directory that published the row."""

JOB_RESULTS: Final = "backfill_result"
"""Name of the table with the results of jobs over the lake."""

_INT_BITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable:
    """A table, which has the same name in the database and in the lake."""

    name: str
    time: str | None = None  # column with a time of the server's clock, for the partition; None: use the publication's
    number: str = "write_number"  # column with a unique number that grows with each write
    moves: bool = True  # its rows leave the database with their trace

    def about(self, statement: str) -> str:
        """Return a statement for this table."""
        return statement.replace("$table", self.name).replace("$number", self.number)


LAKE_TABLES: Final = (
    LakeTable(name="span", time="received_at"),
    LakeTable(name="log_record", time="received_at"),
    LakeTable(name="trace_part"),
    LakeTable(name="trace_reading"),
    LakeTable(name="tool_call"),
    LakeTable(name="decision", time="decided_at"),
    LakeTable(name="evaluation", time="created_at", number="number"),
    LakeTable(name="superseded", time="superseded_at"),
    LakeTable(name="review_entry", time="added_at", moves=False),
    LakeTable(name="judge_call", time="started_at", moves=False),
    LakeTable(name=JOB_RESULTS, time="created_at", moves=False),  # whose rows jobs write, not this server
)
"""`time` is never a time that senders set, because one request could then make a hundred thousand partitions."""

BY_NAME: Final = {table.name: table for table in LAKE_TABLES}


def delta_schema(rows: pa.Schema) -> pa.Schema:
    """Return the schema of a table in the lake for its schema in the database."""
    columns = [pa.field(field.name, _delta_type(field.type)) for field in rows]
    return pa.schema([*columns, pa.field(DIRECTORY, pa.string()), pa.field(PARTITION, pa.date32())])


def delta_rows(table: LakeTable, rows: pa.Table, *, directory_id: str, today: dt.date) -> pa.Table:
    """Return rows of the database in the types of Delta, without losing anything.

    Delta has neither nanoseconds nor unsigned numbers. Nanoseconds since 1970 are BIGINT. Unsigned numbers have a
    larger signed type; those of 64 bits are the signed number with the same bits.
    """
    schema = delta_schema(rows.schema)
    columns = [column.cast(field.type, safe=False) for column, field in zip(rows.columns, schema, strict=False)]
    directory = pa.repeat(pa.scalar(directory_id, pa.string()), rows.num_rows)
    day = pa.repeat(pa.scalar(today, pa.date32()), rows.num_rows)
    if table.time is not None:
        day = rows.column(table.time).cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    return pa.table([*columns, directory, day], schema=schema)


def columns_with_bounds(schema: pa.Schema) -> str:
    """Return the columns whose bounds Delta's log gets: no texts, because an erasure does not rewrite the log."""
    bounded = (field.name for field in schema if field.name != PARTITION and _is_number(field.type))
    return ",".join(bounded)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind))


def _delta_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_unsigned_integer(kind):
        return pa.int64() if kind.bit_width >= _INT_BITS else pa.int32()
    if pa.types.is_timestamp(kind):  # without a time zone, readers would need a feature that few have
        return pa.int64() if kind.unit == "ns" else pa.timestamp("us", "UTC")
    if pa.types.is_list(kind):
        return pa.list_(_delta_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _delta_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_delta_type(kind.key_type), _delta_type(kind.item_type))
    return kind
