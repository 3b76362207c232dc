"""What the list of traces shows: its filters as the address has them, its rows, and what leads on from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import Request

from collector.api.times import time_text
from collector.api.trace_filters import Filters, like_of
from collector.web.visitor import with_parameters
from storage.errors import BadQuery
from storage.query.listing import Brief, TracesLike
from storage.records import TraceSummary

FIELDS: Final = (
    "text",
    "project",
    "status",
    "since",
    "service",
    "name",
    "rule",
    "verdict",
    "session",
    "model",
    "attribute",
    "from",
    "to",
)
SINCE: Final = {
    "15m": ("15 minutes", 900),
    "1h": ("hour", 3_600),
    "24h": ("24 hours", 86_400),
    "7d": ("7 days", 604_800),
}
VERDICTS: Final = {
    "passed": ("scored", True),
    "failed": ("scored", False),
    "any": (None, None),
    "broken": ("failed", None),
    "skipped": ("skipped", None),
}
_NS: Final = 1_000_000_000
_USUAL: Final = frozenset({"text", "project", "status", "since"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """The filters of an address: what was typed, and what that asks for."""

    values: Mapping[str, str]
    like: TracesLike

    @property
    def given(self) -> list[str]:
        """The filters that are set."""
        return [name for name in FIELDS if self.values[name]]

    @property
    def is_detailed(self) -> bool:
        """Whether any is set that is not always seen."""
        return bool(set(self.given) - _USUAL)


def asked_of(request: Request, now_ns: int) -> TraceFilter:
    """What an address asks for; an empty field asks for nothing.

    Raises:
        BadQuery: a field holds what it cannot.
    """
    values = {name: request.query_params.get(name, "").strip() for name in FIELDS}
    since, verdict, status = values["since"], values["verdict"], values["status"]
    for name, value, known in (("since", since, SINCE), ("verdict", verdict, VERDICTS), ("status", status, _STATUSES)):
        if value and value not in known:
            raise BadQuery(f"{name}: {value[:50]!r} is none of {', '.join(known)}")
    begin = time_text(now_ns - SINCE[since][1] * _NS) if since else None
    filters = Filters(
        project=values["project"] or None,
        service=values["service"] or None,
        name=values["name"] or None,
        status="error" if status == "error" else "ok" if status == "ok" else None,
        from_=values["from"] or begin,
        to=values["to"] or None,
        session=values["session"] or None,
        text=values["text"] or None,
        model=values["model"] or None,
        attribute=[values["attribute"]] if values["attribute"] else None,
    )
    outcome, passed = VERDICTS.get(verdict, (None, None))
    rule = values["rule"] or None
    return TraceFilter(values=values, like=like_of(filters, rule=rule, outcome=outcome, passed=passed))


_STATUSES: Final = ("ok", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """One trace of the list."""

    trace: TraceSummary
    brief: Brief

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
    def tokens(self) -> int | None:
        """In and out."""
        told = [count for count in (self.brief.input_tokens, self.brief.output_tokens) if count is not None]
        return sum(told) if told else None


def rows_of(traces: Sequence[TraceSummary], briefs: Mapping[tuple[str, str], Brief]) -> list[TraceRow]:
    """Traces with what rows tell of them."""
    return [TraceRow(trace=trace, brief=briefs[trace.tenant, trace.trace_id]) for trace in traces]


def chips(request: Request, asked: TraceFilter) -> list[tuple[str, str, str]]:
    """The filters that are set: what, which value, and the address without it."""
    return [
        (name, asked.values[name], with_parameters(request, **{name: None, "before": None})) for name in asked.given
    ]
