"""The list of traces: its rows, and the links that lead on from it."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode

from fastapi import Request

from collector.api.base.times import stored_ns
from collector.api.traces.list_filters import LABELS, TraceFilter
from collector.api.traces.saved_views import PARAMETERS, list_query
from collector.units import instant_text
from collector.web.visitor import path_of, with_parameters
from storage.query.listing import Listed, Listing, SpansNamed, TraceDetails
from storage.records import TraceSummary

PAGE_ROWS: Final = 50
_MOST_PARAMETERS: Final = 40
_MOST_CHARACTERS: Final = 4_000  # of a query that is passed on, as of one in a saved view


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """One trace of the list."""

    trace: TraceSummary
    brief: TraceDetails
    named: SpansNamed  # models and releases of its spans, if requested

    @property
    def duration_ms(self) -> float | None:
        """Return its duration."""
        start_ns, end_ns = self.trace.start_ns, self.trace.end_ns
        return (end_ns - start_ns) / 1e6 if start_ns and end_ns else None

    @property
    def preview(self) -> str:
        """Return one line of its input or output."""
        return self.brief.input or self.brief.output or ""

    @property
    def part(self) -> int | None:
        """Return the number of spans that the sums cover; None if they cover all."""
        summed = self.brief.summed_span_count
        return summed if summed is not None and summed < self.trace.span_count else None

    @property
    def tokens(self) -> int | None:
        """Return the tokens of input and output."""
        counts = [count for count in (self.brief.input_tokens, self.brief.output_tokens) if count is not None]
        return sum(counts) if counts else None


def rows_of(listing: Listing, listed: Listed, *, with_spans: bool) -> list[TraceRow]:
    """Return the rows of traces; if `with_spans`, also with the models and releases of their spans."""
    briefs = listing.briefs(listed.traces, listed.commits)
    named = listing.named_by_spans(listed.traces, listed.commits) if with_spans else {}
    return [
        TraceRow(trace=trace, brief=briefs[key], named=named.get(key, SpansNamed()))
        for trace in listed.traces
        for key in [(trace.tenant, trace.trace_id)]
    ]


def listed_query(request: Request) -> str:
    """Return the query of a list as a saved view keeps it: without positions and times."""
    return _query_of(request.query_params.multi_items())


def known_query(query: str) -> str:
    """Return the known parameters of a list's query, which a link may have changed."""
    return _query_of(parse_qsl(query[:_MOST_CHARACTERS]))


def _query_of(pairs: Iterable[tuple[str, str]]) -> str:
    params = [(name, value) for name, value in pairs if name in PARAMETERS]
    return list_query(urlencode(params[:_MOST_PARAMETERS]))


def at_list(request: Request, **changed: object) -> str:
    """Return the address of the list with changed parameters, for links from the overview."""
    return "/traces" + with_parameters(request, **changed).removeprefix(path_of(request))


def overview_of(request: Request) -> str:
    """Return the address of the overview of the listed traces."""
    query = with_parameters(request, before=None, live=None).removeprefix(path_of(request))
    return f"/traces/overview{query}"


def in_words(name: str, value: str) -> tuple[str, str]:
    """Return a filter in words: its name, and its value with the unit, or a time in UTC."""
    if name in {"from", "to"}:
        with suppress(ValueError):
            value = f"{instant_text(stored_ns(value))} UTC"
    what, _, unit = LABELS.get(name, name).partition(", ")
    return what, f"{value} {unit}".rstrip()


def chips(request: Request, query: TraceFilter) -> list[tuple[str, str, str]]:
    """Return the active filters: name, value, and the address without it."""
    return [
        (*in_words(name, query.values[name]), with_parameters(request, **{name: None, "before": None}))
        for name in query.given
    ]
