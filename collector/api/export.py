"""All spans of a time as one Arrow stream."""

from collections.abc import Iterator
from typing import Annotated

import pyarrow as pa
from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse

from collector.access.permission import Permission, needs
from collector.api.context import Here, Who
from collector.api.problems import problem
from collector.api.sql_formats import FORMS
from collector.api.times import DATE_TIME, stored_ns

router = APIRouter(prefix="/api/v1")


class _Chunks:
    """A file that hands out what was written to it."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep a copy."""
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: it is all here."""

    def close(self) -> None:
        """Likewise."""

    def take(self) -> bytes:
        """What was written since."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


@router.get(
    "/export/spans",
    responses={200: {"content": {FORMS["arrow"].media_type: {"schema": {"type": "string", "format": "binary"}}}}},
    response_class=Response,
)
@needs(Permission.READ, by_tenant=True)
def spans(
    here: Here,
    who: Who,
    start: Annotated[str, Query(alias="from", json_schema_extra=DATE_TIME)],
    end: Annotated[str, Query(alias="to", json_schema_extra=DATE_TIME)],
) -> Response:
    """The rows of the view `spans` that start between two times, however many; it ends when the client leaves."""
    try:
        from_ns, to_ns = stored_ns(start), stored_ns(end)
    except ValueError:
        return problem(400, "from and to are times such as 2026-11-21T00:00:00Z")
    batches = here.queries.spans_between(from_ns, to_ns, tenant=who.sight)
    return StreamingResponse(_stream(batches), media_type=FORMS["arrow"].media_type)


def _stream(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    first = next(batches)  # an empty one, for the schema
    chunks = _Chunks()
    with pa.ipc.new_stream(pa.PythonFile(chunks, mode="w"), first.schema) as writer:
        yield chunks.take()
        for batch in batches:
            writer.write_batch(batch)
            yield chunks.take()
    yield chunks.take()
