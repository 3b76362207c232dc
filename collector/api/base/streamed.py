"""Answers piece by piece, the only ones that hold anything while their clients read."""

from collections.abc import Generator, Iterator
from itertools import chain

from fastapi.responses import Response, StreamingResponse

from collector.doors.answer_resources import Closable, close_with_answer


def streamed(
    pieces: Iterator[bytes], *sources: Closable, media_type: str, headers: dict[str, str] | None = None
) -> Response:
    """Answer piece by piece. An error before the first piece still changes the status.

    The sources of the pieces are closed with the answer, and so are the pieces if they are a generator.
    """
    close_with_answer(*sources)
    if isinstance(pieces, Generator):
        close_with_answer(pieces)
    first = next(pieces, b"")
    return StreamingResponse(chain([first], pieces), media_type=media_type, headers=headers)
