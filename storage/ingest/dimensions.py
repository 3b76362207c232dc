"""Resources and scopes as columns of the spans and log records that name them.

A batch has each resource and scope once, and its rows name them by number. The stored tables have them as texts in each
row: the texts repeat, so they compress to almost nothing, and no query needs a join.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from storage.ingest.attributes import decode_attributes
from storage.ingest.batch import SpanBatch
from storage.records import EntityRef, Resource, Scope

RESOURCE_COLUMNS: Final = ("resource_attributes", "resource_meta")
SCOPE_COLUMNS: Final = ("scope_name", "scope_version", "scope_attributes", "scope_meta")
"""Attributes are a JSON object of texts; `…_meta` is NULL or a JSON object of the fields that differ from their
defaults: `types` (the letters of the attributes' types), `dropped_attributes_count`, `schema_url`, `entity_refs`."""

_NOTHING: Final = "{}"
_KNOWN: Final = 1_024  # a guess: some kilobytes each


def spelled_out(rows: pa.Table, batch: SpanBatch) -> pa.Table:
    """Return rows with the columns of their resources and scopes, in place of their numbers."""
    resources = {row["resource_id"]: _of_resource(row) for row in _named(batch.resources, "resource_id", rows)}
    scopes = {row["scope_id"]: _of_scope(row) for row in _named(batch.scopes, "scope_id", rows)}
    columns = _columns(rows, "resource_id", (*RESOURCE_COLUMNS, "service_version"), resources)
    columns |= _columns(rows, "scope_id", SCOPE_COLUMNS, scopes)
    spelled = rows.drop_columns(["resource_id", "scope_id"])
    for name, column in columns.items():
        spelled = spelled.append_column(name, column)
    return spelled


@functools.lru_cache(maxsize=_KNOWN)
def resource_of(attributes: str | None, meta: str | None) -> Resource:
    """Decode a resource from its two columns."""
    fields = json.loads(meta or _NOTHING)
    return Resource(
        attributes=decode_attributes(json.loads(attributes or _NOTHING), fields.get("types")),
        dropped_attributes_count=fields.get("dropped_attributes_count", 0),
        schema_url=fields.get("schema_url", ""),
        entity_refs=tuple(
            EntityRef(
                schema_url=ref["schema_url"],
                type=ref["type"],
                id_keys=tuple(ref["id_keys"]),
                description_keys=tuple(ref["description_keys"]),
            )
            for ref in fields.get("entity_refs", ())
        ),
    )


@functools.lru_cache(maxsize=_KNOWN)
def scope_of(name: str | None, version: str | None, attributes: str | None, meta: str | None) -> Scope:
    """Decode a scope from its four columns."""
    fields = json.loads(meta or _NOTHING)
    return Scope(
        name=name or "",
        version=version or "",
        attributes=decode_attributes(json.loads(attributes or _NOTHING), fields.get("types")),
        dropped_attributes_count=fields.get("dropped_attributes_count", 0),
        schema_url=fields.get("schema_url", ""),
    )


def _named(dimensions: pa.Table, number: str, rows: pa.Table) -> list[dict[str, Any]]:
    numbers = pc.unique(rows.column(number))
    named: list[dict[str, Any]] = dimensions.filter(pc.is_in(dimensions.column(number), value_set=numbers)).to_pylist()
    return named


def _of_resource(row: dict[str, Any]) -> tuple[str | None, ...]:
    meta = _meta(row, "types", "dropped_attributes_count", "schema_url", "entity_refs")
    return _attributes(row), meta, dict(row["attributes"] or ()).get("service.version")


def _of_scope(row: dict[str, Any]) -> tuple[str | None, ...]:
    return row["name"], row["version"], _attributes(row), _meta(row, "types", "dropped_attributes_count", "schema_url")


def _attributes(row: Mapping[str, Any]) -> str:
    return json.dumps(dict(row["attributes"] or ()), ensure_ascii=False, separators=(",", ":"))


def _meta(row: dict[str, Any], *names: str) -> str | None:
    letters = row["attribute_types"] or ""
    values = row | {"types": "" if letters == "s" * len(letters) else letters}
    present = {name: values[name] for name in names if values[name]}
    return json.dumps(present, ensure_ascii=False, separators=(",", ":")) if present else None


def _columns(
    rows: pa.Table, number: str, names: tuple[str, ...], known: Mapping[int, tuple[str | None, ...]]
) -> dict[str, pa.Array]:
    """Look up each row's number, and return the values column by column."""
    coded = rows.column(number).combine_chunks().dictionary_encode()
    distinct = [known.get(each, (None,) * len(names)) for each in coded.dictionary.to_pylist()]
    return {
        name: pa.array([texts[at] for texts in distinct], pa.string()).take(coded.indices)
        for at, name in enumerate(names)
    }
