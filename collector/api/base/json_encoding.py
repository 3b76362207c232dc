"""JSON encoding of documents; large ones in pieces, so that other threads can run in between."""

import json
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.responses import Response

_write = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def written_in_pieces(document: Mapping[str, Any]) -> Response:
    """Return a response with a document whose lists are long: each item is encoded separately.

    `json.dumps` holds the GIL until it is done, so no other thread runs: 18 s for 2 GB.
    """
    pieces: list[str] = []
    for key, value in document.items():
        pieces += (",", _write(key), ":")
        if isinstance(value, list):
            pieces.append("[")
            for number, item in enumerate(value):
                pieces += (",", _write(item)) if number else (_write(item),)
            pieces.append("]")
        else:
            pieces.append(_write(value))
    body = "".join(("{", *pieces[1:], "}"))
    return Response(body.encode(), media_type="application/json")


def json_response(
    document: object, *, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with a document, or with a list of them."""
    return Response(msgspec.json.encode(document), status, headers, media_type="application/json")
