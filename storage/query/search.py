"""Search for traces that have a matching span."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from storage import sql
from storage.engine.read_database import ReadDatabase

_MOST_NAMES: Final = 2_000
"""Maximum number of services, or of operations of a service, in one answer. Clients choose names, so any number may
exist, and Jaeger's protocol has no pages. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCriteria:
    """Filter of spans; None matches all. Tags are attributes of the span or its resource, as text."""

    from_ns: int
    to_ns: int
    service: str | None = None
    operation: str | None = None
    kind: int | None = None
    is_error: bool | None = None
    least_ns: int | None = None
    most_ns: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


class Search:
    """Search among the spans of a tenant plus shared ones; None for all. Thread-safe."""

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database

    def services(self, *, tenant: str | None = "") -> list[str]:
        """Return the services that sent spans; if there are more than 2,000, those with the most spans."""
        parameters = {"tenant": tenant, "most": _MOST_NAMES}
        with self._database.cursor() as cursor:
            return [name for (name,) in cursor.execute(sql.query("services"), parameters).fetchall()]

    def operations(self, service: str, *, tenant: str | None = "") -> list[tuple[str, int]]:
        """Return the names and kinds of a service's spans; if there are more than 2,000, the most frequent ones."""
        parameters = {"tenant": tenant, "service": service, "most": _MOST_NAMES}
        with self._database.cursor() as cursor:
            return [(name, kind) for name, kind in cursor.execute(sql.query("operations"), parameters).fetchall()]

    def traces(self, criteria: SpanCriteria, *, limit: int, tenant: str | None = "") -> list[str]:
        """Return the ids of traces that have a matching span, in order of that span's start, latest first."""
        parameters: dict[str, object] = {
            "tenant": tenant,
            "from_ns": criteria.from_ns,
            "to_ns": criteria.to_ns,
            "service": criteria.service,
            "operation": criteria.operation,
            "kind": criteria.kind,
            "is_error": criteria.is_error,
            "least_ns": criteria.least_ns,
            "most_ns": criteria.most_ns,
            "traces": limit,
        }
        for number, (key, text) in enumerate(criteria.tags.items()):
            parameters |= {f"key{number}": key, f"text{number}": text}
        with self._database.cursor() as cursor:
            return [trace_id for (trace_id,) in cursor.execute(_select(len(criteria.tags)), parameters).fetchall()]


def _select(tags: int) -> str:
    """Return the statement with one line for each tag, because a list as a parameter took five times as long."""
    lines = sql.query("find_traces").splitlines()
    (line,) = (each for each in lines if "$key" in each)
    of_tags = [line.replace("$key", f"$key{number}").replace("$text", f"$text{number}") for number in range(tags)]
    place = lines.index(line)
    return "\n".join(lines[:place] + of_tags + lines[place + 1 :])
