"""Streamed responses, the only ones that hold resources while their clients read."""

import logging
from collections.abc import Generator, Iterator
from itertools import chain

from fastapi.responses import Response, StreamingResponse

from collector.listeners.answer_resources import Closable, close_with_answer
from collector.listeners.response_buffer import CutOff
from storage.errors import StorageError
from storage.memory import LackOfMemory

log = logging.getLogger(__name__)


def streamed(
    pieces: Iterator[bytes], *sources: Closable, media_type: str, headers: dict[str, str] | None = None
) -> Response:
    """Stream a response. An error before the first piece changes the status; a later one aborts the response.

    The sources of the pieces are closed with the response, and so are the pieces if they are a generator.
    """
    close_with_answer(*sources)
    if isinstance(pieces, Generator):
        close_with_answer(pieces)
    first = next(pieces, b"")
    return StreamingResponse(chain([first], _or_cut_off(pieces)), media_type=media_type, headers=headers)


def _or_cut_off(pieces: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from pieces
    except (StorageError, LackOfMemory) as error:
        log.error("a started response was cut off, which its client can detect: %s", error)  # noqa: TRY400 - one line
        raise CutOff from None
