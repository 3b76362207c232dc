"""Costs of model calls by model and day, and of traces by user."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.read_database import ReadDatabase

_MODELS: Final = 6  # with a column of their own; with those of others and of all they are eight, which fit on a page
_USERS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsAt:
    """Whole days in UTC, from `from_ns` to `until_ns`, and filters (None: all)."""

    from_ns: int
    until_ns: int
    project: str | None
    tenant: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSums:
    """Sums over model calls."""

    calls: int
    tokens: int
    cost_usd: float | None  # None: no price is known


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSums:
    """Sums over a user's traces."""

    user_id: str
    traces: int
    tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs by number of the day, of which the first is 0; days without calls are absent."""

    models: Mapping[str, Mapping[int, CallSums]]  # highest cost first
    others: Mapping[int, CallSums]  # of further models
    all: Mapping[int, CallSums]
    users: Sequence[UserSums]  # highest cost first


class CostQueries:
    """Read-only queries about costs. Thread-safe."""

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database

    def of(self, at: CostsAt) -> Costs:
        """Return the costs of a period."""
        models: dict[str, dict[int, CallSums]] = {}
        others: dict[int, CallSums] = {}
        all_models: dict[int, CallSums] = {}
        window = asdict(at)
        with self._database.snapshot() as cursor:
            by_model = arrow_table(cursor, sql.query("cost_by_model"), window | {"rows": _MODELS}).to_pylist()
            by_user = arrow_table(cursor, sql.query("cost_by_user"), window | {"rows": _USERS}).to_pylist()
        for row in by_model:
            model, is_rest, day = row.pop("model"), row.pop("is_rest"), row.pop("day")
            of_model = others if is_rest else all_models if model is None else models.setdefault(model, {})
            of_model[day] = CallSums(**row)
        return Costs(models=models, others=others, all=all_models, users=[UserSums(**row) for row in by_user])
