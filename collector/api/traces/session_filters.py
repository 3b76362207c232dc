"""Filters of a list of sessions, and positions of its pages, as URL parameters."""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query

from collector.api.base.times import DATE_TIME
from collector.api.traces.trace_filters import instant_of
from storage.errors import BadQuery
from storage.query.sessions import SessionCriteria, SessionPosition, TracePosition
from storage.query.trace_criteria import LAST_NS

_PLACE: Final = r"^[0-9]{1,19}/[^/]*/"
_TURN: Final = r"^[0-9]{1,19}/[0-9a-f]{32}$"

TurnPlace = Annotated[
    str | None, Query(pattern=_TURN, description="The `earlier` of an answer: return the turns before it.")
]


@dataclass(frozen=True, slots=True)
class SessionFilters:
    """Filters that one trace of a session has to match; absent ones match all."""

    project: str | None = None
    user: str | None = None
    text: Annotated[
        str | None, Query(description="A text in the input or output of a trace, in any case of letters.")
    ] = None
    from_: Annotated[
        str | None,
        Query(
            alias="from",
            json_schema_extra=DATE_TIME,
            description="The earliest start of a trace (RFC 3339), inclusive.",
        ),
    ] = None
    to: Annotated[
        str | None, Query(json_schema_extra=DATE_TIME, description="The latest start of a trace (RFC 3339), exclusive.")
    ] = None
    newest: Annotated[
        int | None,
        Query(
            ge=1, le=10_000_000, description="The maximum number of traces, the newest, in which a text is searched."
        ),
    ] = None
    before: Annotated[
        str | None, Query(pattern=_PLACE, description="The `next` of the page before: sessions after that one.")
    ] = None


def sessions_like(filters: SessionFilters) -> SessionCriteria:
    """Return the filter in the form that the store takes.

    Raises:
        BadQuery: a time is not RFC 3339.
    """
    return SessionCriteria(
        project=filters.project,
        user=filters.user,
        text=filters.text,
        from_ns=0 if filters.from_ is None else instant_of("from", filters.from_),
        to_ns=LAST_NS if filters.to is None else instant_of("to", filters.to),
        newest=filters.newest,
    )


def session_place(text: str) -> SessionPosition:
    """Parse the position of a page in the list of sessions.

    Raises:
        BadQuery: the text is not such a position.
    """
    latest, tenant, session_id = _parted(text, _PLACE).split("/", 2)
    return SessionPosition(latest_ns=min(int(latest), LAST_NS), tenant=tenant, session_id=session_id)


def session_place_text(place: SessionPosition) -> str:
    """Format the position of a page in the list of sessions."""
    return f"{place.latest_ns}/{place.tenant}/{place.session_id}"


def turn_place(text: str) -> TracePosition:
    """Parse the position of a page of a session's turns.

    Raises:
        BadQuery: the text is not such a position.
    """
    start, trace_id = _parted(text, _TURN).split("/")
    return TracePosition(start_ns=min(int(start), LAST_NS), trace_id=trace_id)


def turn_place_text(place: TracePosition) -> str:
    """Format the position of a page of a session's turns."""
    return f"{place.start_ns}/{place.trace_id}"


def _parted(text: str, form: str) -> str:
    if re.match(form, text) is None:
        raise BadQuery(f"before: {text[:100]!r} is not the `next` or `earlier` of an answer")
    return text
