"""Filters of a list of traces, and positions of its pages, as URL parameters."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import Query
from pydantic import Field

from collector.api.base.times import DATE_TIME, instant_ns
from storage.errors import BadQuery
from storage.query.listing import ListPosition
from storage.query.text_pattern import MOST_CHARACTERS, SEARCHED
from storage.query.trace_criteria import LAST_NS, TraceCriteria

_MOST_ATTRIBUTES: Final = 8
_ID_DIGITS: Final = 32
_NS: Final = 1_000_000_000
_MOST_S: Final = 1e9
_MOST_USD: Final = 1e9
_ATTRIBUTE: Final = r"^[^=]+="
_PLACE: Final = r"^[0-9]{1,19}(\.[0-9a-f]{0,32}(\..*)?)?$"


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters that a trace has to match; absent ones match all."""

    project: str | None = None
    service: Annotated[str | None, Query(description="The service of the trace's root.")] = None
    name: Annotated[str | None, Query(description="A text in the root's name, in any case of letters.")] = None
    status: Annotated[
        Literal["ok", "error"] | None, Query(description="`error`: with a span that failed; `ok`: without one.")
    ] = None
    from_: Annotated[
        str | None,
        Query(alias="from", json_schema_extra=DATE_TIME, description="The earliest start (RFC 3339), inclusive."),
    ] = None
    to: Annotated[
        str | None, Query(json_schema_extra=DATE_TIME, description="The latest start (RFC 3339), exclusive.")
    ] = None
    session: str | None = None
    user: str | None = None
    duration: Annotated[
        float | None, Query(ge=0, le=_MOST_S, allow_inf_nan=False, description="The shortest duration in seconds.")
    ] = None
    cost: Annotated[
        float | None, Query(ge=0, le=_MOST_USD, allow_inf_nan=False, description="The lowest cost in USD.")
    ] = None
    failing: Annotated[str | None, Query(description="The name of a span of it that failed.")] = None
    text: Annotated[
        str | None,
        Query(
            max_length=MOST_CHARACTERS,
            description=f"A text in any span, in any case of letters: {SEARCHED}. Of a long text, the beginning.",
        ),
    ] = None
    model: Annotated[str | None, Query(description="The model of any span.")] = None
    release: Annotated[str | None, Query(description="`service.version` of any of its spans.")] = None
    attribute: Annotated[
        list[Annotated[str, Field(pattern=_ATTRIBUTE)]] | None,
        Query(max_length=_MOST_ATTRIBUTES, description="`key=value`, of any of its spans or of its resource."),
    ] = None
    before: Annotated[
        str | None, Query(pattern=_PLACE, description="The `next` of the page before: traces after that one.")
    ] = None

    @property
    def is_new(self) -> bool:
        """Return whether filters other than the project are set; such a list is paged by `before`, not by numbers."""
        plain = Filters(project=self.project)
        return self != plain


def like_of(filters: Filters, *, rule: str | None, outcome: str | None, passed: bool | None) -> TraceCriteria:
    """Return the filter in the form that the store takes.

    Raises:
        BadQuery: a time is not RFC 3339, or an attribute is not `key=value`.
    """
    return TraceCriteria(
        project=filters.project,
        service=filters.service,
        name=filters.name,
        is_error=None if filters.status is None else filters.status == "error",
        session=filters.session,
        user=filters.user,
        least_ns=None if filters.duration is None else round(filters.duration * _NS),
        least_usd=filters.cost,
        failing=filters.failing,
        text=filters.text,
        model=filters.model,
        release=filters.release,
        attributes=dict(map(_attribute, filters.attribute or ())),
        rule=rule,
        outcome=outcome,
        passed=passed,
        from_ns=0 if filters.from_ is None else instant_of("from", filters.from_),
        to_ns=LAST_NS if filters.to is None else instant_of("to", filters.to),
    )


def place_of(text: str) -> ListPosition:
    """Parse the position of a page in the list of traces.

    Raises:
        BadQuery: the text is not such a position.
    """
    start, _, rest = text.partition(".")
    trace_id, _, tenant = rest.partition(".")
    if not start.isdecimal() or len(start) > len(str(LAST_NS)) or len(trace_id) > _ID_DIGITS:
        raise BadQuery(f"before: {text[:100]!r} is not the `next` of a page")
    return ListPosition(start_ns=min(int(start), LAST_NS), trace_id=trace_id, tenant=tenant)


def place_text(place: ListPosition) -> str:
    """Format the position of a page in the list of traces."""
    text = f"{place.start_ns}.{place.trace_id}"
    return f"{text}.{place.tenant}" if place.tenant else text.rstrip(".")  # a tenant may end with a dot


def instant_of(name: str, text: str) -> int:
    """Parse the parameter of this name to nanoseconds, clamped to the instants that spans can have.

    Raises:
        BadQuery: the text is not RFC 3339.
    """
    try:
        return min(max(instant_ns(text), 0), LAST_NS)  # the instants that spans can have
    except (ValueError, OverflowError) as error:
        raise BadQuery(f"{name}: {text[:100]!r} is not a time such as 2026-11-21T10:00:00Z") from error


def _attribute(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise BadQuery(f"attribute: {text[:100]!r} is not key=value")
    return key, value
