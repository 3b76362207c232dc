"""A copy of the database over HTTP."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.base.context import Here, api_router
from collector.api.base.problems import problem
from collector.api.base.streamed import streamed
from storage.store import Store

router = api_router(prefix="/api/v1")

_CHUNK_BYTES = 1 << 20


def open_backup(store: Store, data: Path) -> IO[bytes]:
    """A copy of the database, open for reading; it takes room in the data directory until it is closed.

    Raises:
        Overloaded: not now.
        Damaged: the copy cannot be read completely.
        OSError: there is no room for it.
    """
    file = tempfile.TemporaryFile(dir=data)  # noqa: SIM115 - closed by the response; without a name, it ends with the process
    try:
        store.backup(file)
    except BaseException:  # raised again: the room it takes is given back
        file.close()
        raise
    file.seek(0)
    return file


@router.post(
    "/backup",
    responses={
        200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
        503: {"description": "Not now, or there is no room for the copy."},
    },
    response_class=Response,
)
@needs(Permission.ADMINISTER)
def backup(here: Here) -> Response:
    """The database as a DuckDB file: everything that was answered before, as of one moment."""
    try:
        file = here.backup()
    except OSError as error:
        return problem(503, f"the copy cannot be written: {error.strerror}")
    return streamed(chunks(file), file, media_type="application/octet-stream")


def chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The copy in pieces."""
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk
