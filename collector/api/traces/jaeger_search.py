"""Search parameters that Jaeger's query APIs share."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from collector.access.caller import Caller
from collector.api.base.context import Context
from collector.api.traces.jaeger_documents import KINDS
from storage.query.search import SpanCriteria
from storage.records import Trace

MOST_TRACES = 200
_MOST_SPANS = 2_000
"""Maximum number of spans of each trace in a list. A trace that is requested by its id may have more."""

_UNITS_NS = {"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|μs|ms|s|m|h))+")
_PIECE = re.compile(r"(?<![0-9])([0-9]++(?:\.[0-9]*+)?)(ns|us|µs|μs|ms|s|m|h)")


class BadSearchParameter(Exception):
    """Invalid search parameter; the message names it."""


def padded(trace_id: str) -> str:
    """Return the id of a trace as it is stored: Jaeger leaves out leading zeros."""
    return trace_id.lower().zfill(32)


def traces_in_short(context: Context, caller: Caller, ids: Sequence[str]) -> Iterator[Trace]:
    """Yield the first traces that fit into a response, each with at most `_MOST_SPANS` spans."""
    return context.store.queries.traces(ids, tenant=caller.visible_tenant, max_spans=_MOST_SPANS)


def span_like(
    *,
    window: tuple[int, int],
    names: tuple[str, str],
    durations: tuple[int | None, int | None],
    tags: Mapping[str, str],
) -> SpanCriteria:
    """Return the filter for spans by window, service and operation (empty for any), duration, and tags.

    Raises:
        BadSearchParameter: a tag cannot have such a value.
    """
    others = dict(tags)
    kind, is_error = _kind(others.pop("span.kind", "")), _truth(others.pop("error", None))
    (from_ns, to_ns), (service, operation), (least_ns, most_ns) = window, names, durations
    return SpanCriteria(
        from_ns=from_ns,
        to_ns=to_ns,
        service=service or None,
        operation=operation or None,
        kind=kind,
        is_error=is_error,
        least_ns=least_ns,
        most_ns=most_ns,
        tags=others,
    )


def tags_of(name: str, document: str, pairs: Sequence[str] = ()) -> dict[str, str]:
    """Parse tags from a JSON object, and from `key:value` pairs."""
    try:
        fields = json.loads(document) if document else {}
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise BadSearchParameter(f"{name}: {document!r} is not a JSON object")
    tags = {key: value if isinstance(value, str) else json.dumps(value) for key, value in fields.items()}
    for pair in pairs:
        key, colon, value = pair.partition(":")
        if not colon:
            raise BadSearchParameter(f"tag: {pair!r} is not of the form key:value")
        tags[key] = value
    return tags


def _kind(text: str) -> int | None:
    if text and text.lower() not in KINDS:
        raise BadSearchParameter(f"the tag span.kind is one of {', '.join(KINDS)}, not {text!r}")
    return KINDS.get(text.lower())


def _truth(text: str | None) -> bool | None:
    """Parse the tag `error`. An empty text is true: Grafana converts the logfmt key `error` without a value to it."""
    if text is None:
        return None
    if text not in {"", "true", "false"}:
        raise BadSearchParameter(f"the tag error is true or false, not {text!r}")
    return text != "false"


def duration_ns(name: str, text: str) -> int | None:
    """Parse a duration as Go writes it: 1.5s, 100ms, 1m30s."""
    if not text:
        return None
    if not _DURATION.fullmatch(text):
        raise BadSearchParameter(f"{name}: {text!r} is not a length of time such as 1.5s or 100ms")
    return min(round(sum(float(number) * _UNITS_NS[unit] for number, unit in _PIECE.findall(text))), 2**63 - 1)
