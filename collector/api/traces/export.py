"""Export of all spans of a period as one stream."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated, Final, Literal

import pyarrow as pa
from fastapi import Query
from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.streamed import streamed
from collector.api.base.times import DATE_TIME, stored_ns
from collector.api.traces.sql_formats import FORMS
from collector.otlp.encode import LINES_TYPE, json_lines
from storage.query.exports import LEFT_OUT, DamagedRange, left_out_text

router = api_router(prefix="/api/v1")


class _Chunks:
    """A file object that returns the bytes written to it."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep a copy."""
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def close(self) -> None:
        """Do nothing: there is no file."""

    def take(self) -> bytes:
        """Return the bytes written since the previous call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


_ARROW_TYPE = FORMS["arrow"].media_type
_DAMAGE: Final = (
    "Fail at damaged spans, or leave them out. `leftOut` then lists them at the end, in a line "
    "of its own or in the metadata of an empty batch: `firstUnixNano` and `lastUnixNano` of their start, and their "
    "number (`spans`, null if it is unknown)."
)


@router.get(
    "/export/spans",
    responses={
        200: {
            "content": {
                _ARROW_TYPE: {"schema": {"type": "string", "format": "binary"}},
                LINES_TYPE: {"schema": {"type": "string"}},
            }
        },
        503: {"description": "The maximum number of exports is running; try again later."},
    },
    response_class=Response,
)
@needs(Permission.READ, by_tenant=True)
def spans(
    context: ContextDep,
    caller: CallerDep,
    start: Annotated[str, Query(alias="from", json_schema_extra=DATE_TIME)],
    end: Annotated[str, Query(alias="to", json_schema_extra=DATE_TIME)],
    form: Annotated[Literal["arrow", "otlp-json"], Query(alias="format")] = "arrow",
    damage: Annotated[Literal["fail", "leave-out"], Query(description=_DAMAGE)] = "fail",
) -> Response:
    """Stream the spans that start between two times, by start; the stream ends if the client disconnects.

    Arrow has the rows of the view `spans`. OTLP/JSON lines are `ExportTraceServiceRequest`s of some hundred spans and
    at most 1 MiB, unless a line holds a single span.
    """
    try:
        from_ns, to_ns = stored_ns(start), stored_ns(end)
    except ValueError:
        return problem(400, "from and to are times such as 2026-11-21T00:00:00Z")
    unread: list[DamagedRange] = []
    tenant, damaged = caller.visible_tenant, unread if damage == "leave-out" else None
    if form == "arrow":
        rows = context.store.exports.rows(from_ns, to_ns, tenant=tenant, client_id=caller.client, unread=damaged)
        return streamed(_arrow(rows, unread), rows, media_type=_ARROW_TYPE)
    batches = context.store.exports.spans(from_ns, to_ns, tenant=tenant, client_id=caller.client, unread=damaged)
    return streamed(chain(json_lines(batches), _left_out_line(unread)), batches, media_type=LINES_TYPE)


def _left_out_line(unread: Sequence[DamagedRange]) -> Iterator[bytes]:
    if unread:  # complete once the lines before it were read
        yield f'{{"{LEFT_OUT}":{left_out_text(unread)}}}\n'.encode()


def _arrow(batches: Iterator[pa.RecordBatch], unread: Sequence[DamagedRange]) -> Iterator[bytes]:
    first = next(batches)  # an empty one, for the schema
    chunks = _Chunks()
    with pa.ipc.new_stream(pa.PythonFile(chunks, mode="w"), first.schema) as writer:
        yield chunks.take()
        for batch in batches:
            writer.write_batch(batch)
            yield chunks.take()
        if unread:
            writer.write_batch(first, custom_metadata={LEFT_OUT: left_out_text(unread)})
    yield chunks.take()
