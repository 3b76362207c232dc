"""The list of traces: its rows, and the links that lead on from it."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from fastapi import Request

from collector.api.traces.list_filters import LABELS, TraceFilter
from collector.api.traces.saved_views import PARAMETERS, list_query
from collector.web.visitor import path_of, with_parameters
from storage.query.listing import Brief, Listed, Listing, SpansNamed
from storage.records import TraceSummary

_MOST_SAID: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """One trace of the list."""

    trace: TraceSummary
    brief: Brief
    named: SpansNamed  # where it is asked for

    @property
    def duration_ms(self) -> float | None:
        """How long it took."""
        start_ns, end_ns = self.trace.start_ns, self.trace.end_ns
        return (end_ns - start_ns) / 1e6 if start_ns and end_ns else None

    @property
    def preview(self) -> str:
        """A line that says what it was about."""
        return self.brief.input or self.brief.output or ""

    @property
    def part(self) -> int | None:
        """Of how many spans the sums are, if not of all."""
        summed = self.brief.summed_span_count
        return summed if summed is not None and summed < self.trace.span_count else None

    @property
    def tokens(self) -> int | None:
        """In and out."""
        told = [count for count in (self.brief.input_tokens, self.brief.output_tokens) if count is not None]
        return sum(told) if told else None


def rows_of(listing: Listing, listed: Listed, *, with_spans: bool) -> list[TraceRow]:
    """Traces with what rows tell of them, also what only spans say."""
    briefs = listing.briefs(listed.traces, listed.commits)
    named = listing.named_by_spans(listed.traces, listed.commits) if with_spans else {}
    return [
        TraceRow(trace=trace, brief=briefs[key], named=named.get(key, SpansNamed()))
        for trace in listed.traces
        for key in [(trace.tenant, trace.trace_id)]
    ]


def listed_query(request: Request) -> str:
    """What the address of a list says, as a saved view keeps it: without what is said of a moment or a place."""
    said = [(name, value) for name, value in request.query_params.multi_items() if name in PARAMETERS]
    return list_query(urlencode(said[:_MOST_SAID]))


def at_list(request: Request, **changed: object) -> str:
    """The list as the address of a page beside it asks for it, with other parameters."""
    return "/traces" + with_parameters(request, **changed).removeprefix(path_of(request))


def overview_of(request: Request) -> str:
    """Where volume, latency and values of the listed traces are told."""
    query = with_parameters(request, before=None, live=None).removeprefix(path_of(request))
    return f"/traces/overview{query}"


def in_words(name: str, value: str) -> tuple[str, str]:
    """A filter as people read it: what, and which value with its unit."""
    what, _, unit = LABELS.get(name, name).partition(", ")
    return what, f"{value} {unit}".rstrip()


def chips(request: Request, asked: TraceFilter) -> list[tuple[str, str, str]]:
    """The filters that are set: what, which value, and the address without it."""
    return [
        (*in_words(name, asked.values[name]), with_parameters(request, **{name: None, "before": None}))
        for name in asked.given
    ]
