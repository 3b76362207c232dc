"""The query API of Jaeger, as its UI and Grafana's data source ask: a façade over the stored traces."""

import json
import re
import time
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from collector.access.permission import Permission, needs
from collector.api.context import Here, Who
from collector.api.jaeger_documents import KINDS, Document, answer, failure, operation_document, trace_document
from collector.otlp.encode import json_request
from storage.search import SpanLike

router = APIRouter(prefix="/jaeger/api", include_in_schema=False)  # Jaeger says what it is

_DEFAULT_LOOKBACK_NS = 2 * 86_400 * 1_000_000_000
_DEFAULT_LIMIT, _MOST_TRACES = 20, 200
_MOST_SPANS = 2_000
"""Of each trace in a list; one trace by its id has as many as any answer."""

_UNITS_NS = {"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|μs|ms|s|m|h))+")
_PIECE = re.compile(r"([0-9]+(?:\.[0-9]*)?)(ns|us|µs|μs|ms|s|m|h)")
_FARTHEST_US = (2**63 - 1) // 1000


class _Bad(Exception):
    """A parameter cannot be read; the message says which."""


@router.get("/services")
@needs(Permission.READ, by_tenant=True)
def services(here: Here, who: Who) -> JSONResponse:
    """The services that sent spans."""
    return answer(here.search.services(tenant=who.sight))


@router.get("/services/{service:path}/operations")
@needs(Permission.READ, by_tenant=True)
def operations_of(service: str, here: Here, who: Who) -> JSONResponse:
    """What a service's spans are called."""
    return answer(sorted({name for name, _ in here.search.operations(service, tenant=who.sight)}))


@router.get("/operations")
@needs(Permission.READ, by_tenant=True)
def operations(
    here: Here, who: Who, service: str, span_kind: Annotated[str, Query(alias="spanKind")] = ""
) -> JSONResponse:
    """The same with the kinds of the spans."""
    return answer(_operations(here, who, service, span_kind))


def _operations(here: Here, who: Who, service: str, span_kind: str) -> list[Document]:
    kind = KINDS.get(span_kind.lower())
    found = [pair for pair in here.search.operations(service, tenant=who.sight) if kind is None or pair[1] == kind]
    return [operation_document(name, number) for name, number in found]


@router.get("/dependencies")
@needs(Permission.READ, by_tenant=True)
def dependencies() -> JSONResponse:
    """Which services call which: nobody computes that here."""
    return answer([])


@router.get("/traces/{trace_id}")
@needs(Permission.READ, by_tenant=True)
def trace(trace_id: str, here: Here, who: Who) -> JSONResponse:
    """One trace; leading zeros of its id may be left out."""
    found = here.queries.trace(trace_id.lower().zfill(32), tenant=who.sight)
    return failure(404, "trace not found") if found is None else answer([trace_document(found)])


@router.get("/v3/services")
@needs(Permission.READ, by_tenant=True)
def services_v3(here: Here, who: Who) -> JSONResponse:
    """The services that sent spans, for the Jaeger UI of 2.x."""
    return JSONResponse({"services": here.search.services(tenant=who.sight)})


@router.get("/v3/operations")
@needs(Permission.READ, by_tenant=True)
def operations_v3(
    here: Here, who: Who, service: str, span_kind: Annotated[str, Query(alias="span_kind")] = ""
) -> JSONResponse:
    """What a service's spans are called, and their kinds, likewise."""
    return JSONResponse({"operations": _operations(here, who, service, span_kind)})


@router.get("/v3/traces/{trace_id}")
@needs(Permission.READ, by_tenant=True)
def trace_v3(trace_id: str, here: Here, who: Who) -> JSONResponse:
    """One trace as OTLP has it in JSON, likewise."""
    found = here.queries.trace(trace_id.lower().zfill(32), tenant=who.sight)
    return failure(404, "trace not found") if found is None else JSONResponse({"result": json_request(found)})


class _Find(BaseModel):
    """The parameters of a search, as Jaeger names them; what it does not know is let pass."""

    service: str = ""
    operation: str = ""
    tags: str = ""
    tag: list[str] = []
    trace_ids: list[str] = Field(default=[], alias="traceID")
    start: int | None = None
    end: int | None = None
    min_duration: str = Field(default="", alias="minDuration")
    max_duration: str = Field(default="", alias="maxDuration")
    limit: int = _DEFAULT_LIMIT


@router.get("/traces")
@needs(Permission.READ, by_tenant=True)
def traces(here: Here, who: Who, find: Annotated[_Find, Query()]) -> JSONResponse:
    """Traces that have a span like this, times in microseconds; or those with the ids."""
    try:
        like = _like(find)
    except _Bad as error:
        return failure(400, str(error))
    most = max(1, min(find.limit, _MOST_TRACES))
    named, sight = [each.lower().zfill(32) for each in find.trace_ids[:most]], who.sight
    ids = named or here.search.traces(like, limit=most, tenant=sight)
    found = (here.queries.trace(each, tenant=sight, max_spans=_MOST_SPANS) for each in ids)
    return answer([trace_document(each) for each in found if each is not None])


def _like(find: _Find) -> SpanLike:
    tags = _tags(find.tags, find.tag)
    kind, is_error = KINDS.get(tags.pop("span.kind", "").lower()), _truth(tags.pop("error", None))
    return SpanLike(
        **_window(find.start, find.end),
        service=find.service or None,
        operation=find.operation or None,
        kind=kind,
        is_error=is_error,
        least_ns=_duration_ns("minDuration", find.min_duration),
        most_ns=_duration_ns("maxDuration", find.max_duration),
        tags=tags,
    )


def _window(start_us: int | None, end_us: int | None) -> dict[str, int]:
    for name, value in (("start", start_us), ("end", end_us)):
        if value is not None and not 0 <= value <= _FARTHEST_US:
            raise _Bad(f"{name}: {value} is no time in microseconds")
    to_ns = time.time_ns() if end_us is None else 1000 * end_us
    return {"from_ns": to_ns - _DEFAULT_LOOKBACK_NS if start_us is None else 1000 * start_us, "to_ns": to_ns}


def _tags(document: str, pairs: Sequence[str]) -> dict[str, str]:
    """Of a JSON object, and of `key:value`s."""
    try:
        told = json.loads(document) if document else {}
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise _Bad(f"tags: {document!r} is no JSON object")
    found = {key: value if isinstance(value, str) else json.dumps(value) for key, value in told.items()}
    for pair in pairs:
        key, colon, value = pair.partition(":")
        if not colon:
            raise _Bad(f"tag: {pair!r} is not of the form key:value")
        found[key] = value
    return found


def _truth(text: str | None) -> bool | None:
    """What the tag `error` asks for. Grafana sends one without a value, as logfmt has it, as an empty text."""
    if text is None:
        return None
    if text not in {"", "true", "false"}:
        raise _Bad(f"the tag error is true or false, not {text!r}")
    return text != "false"


def _duration_ns(name: str, text: str) -> int | None:
    """A length of time as Go writes it: 1.5s, 100ms, 1m30s."""
    if not text:
        return None
    if not _DURATION.fullmatch(text):
        raise _Bad(f"{name}: {text!r} is no length of time such as 1.5s or 100ms")
    return min(round(sum(float(number) * _UNITS_NS[unit] for number, unit in _PIECE.findall(text))), 2**63 - 1)
