"""What every route of the API needs, handed over by the application."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from collector.conventions.own import OwnKeys
from collector.doors.otlp_http import OtlpReader
from storage.queries import Queries


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """What one SQL query may cost."""

    rows: int
    seconds: float


@dataclass(slots=True, kw_only=True)
class Context:
    """The parts of the running server that the API speaks to. `state` is where it is between start and stop."""

    queries: Queries
    reader: OtlpReader
    sql_limits: SqlLimits
    overloaded: Callable[[], bool]
    set_aside: Callable[[], int]
    own_keys: OwnKeys
    state: str = "starting"


def _context(request: Request) -> Context:
    return cast("Context", request.app.state.context)


Here = Annotated[Context, Depends(_context)]
