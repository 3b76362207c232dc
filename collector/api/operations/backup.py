"""A copy of the database over HTTP."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.base.problems import problem
from collector.api.base.routing import ContextDep, api_router
from collector.api.base.streamed import streamed
from storage.store import Store

router = api_router(prefix="/api/v1")

_CHUNK_BYTES = 1 << 20


@router.post(
    "/backup",
    responses={
        200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
        503: {"description": "Another copy is being made, or the disk has no room for it."},
    },
    response_class=Response,
)
@needs(Permission.ADMINISTER)
def backup(context: ContextDep) -> Response:
    """Download the database as of one moment, as a DuckDB file with everything acknowledged before the request."""
    try:
        file = open_backup(context.store, context.settings.data)
    except OSError as error:
        return problem(503, f"the copy cannot be written: {error.strerror}")
    return streamed(chunks(file), file, media_type="application/octet-stream")


def open_backup(store: Store, data: Path) -> IO[bytes]:
    """Open a copy of the database; it takes room in the data directory until it is closed.

    Raises:
        Overloaded: another copy is open, or none can be made now.
        Damaged: the copy cannot be read completely.
        OSError: the disk has no room for the copy.
    """
    file = tempfile.TemporaryFile(dir=data)  # noqa: SIM115 - closed by the response; without a name, it ends with the process
    try:
        store.backup(file)
    except BaseException:  # raised again, after the copy's disk space is freed
        file.close()
        raise
    file.seek(0)
    return file


def chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the copy in chunks."""
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk
