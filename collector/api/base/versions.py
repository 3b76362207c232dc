"""Optimistic locking: the version of a record as its `ETag`, checked by `If-Match`."""

import re
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Header
from fastapi.responses import Response

from collector.api.base.json_encoding import json_response
from storage.errors import require_version

_TAG: Final = re.compile(r'(?:W/)?"([0-9]{1,18})"')

IfMatch = Annotated[
    str,
    Header(
        alias="If-Match",
        description="The `ETag` of what is to be changed; 412 if it has changed meanwhile.",
    ),
]
"""Parameter of routes that replace or delete a versioned record."""

TAGGED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"headers": {"ETag": {"description": "Its version.", "required": True, "schema": {"type": "string"}}}}
}
"""Responses with a version, in the OpenAPI document."""

TAGGED_NEW: Final[dict[int | str, dict[str, Any]]] = {201: TAGGED[200]}

GUARDED: Final[dict[int | str, dict[str, Any]]] = {412: {"description": "The resource was changed since it was read."}}
"""Routes with `If-Match`, in the OpenAPI document."""


def tag(version: int) -> dict[str, str]:
    """Return the `ETag` header of a version."""
    return {"etag": f'"{version}"'}


def shown(document: object, version: int) -> Response:
    """Return a response with a document and its version."""
    return json_response(document, headers=tag(version))


def created(document: object, version: int, *, at: str) -> Response:
    """Return a response with a new record, its version and its location."""
    return json_response(document, status=HTTPStatus.CREATED, headers={"location": at, **tag(version)})


def seen(if_match: str) -> frozenset[int] | None:
    """Return the versions that `If-Match` accepts; None for any, also without the header.

    A foreign tag matches no version.
    """
    if if_match in {"", "*"}:
        return None
    return frozenset(int(each) for each in _TAG.findall(if_match))


def require_seen(version: int, if_match: str) -> None:
    """Refuse a change unless `If-Match` accepts this version or is absent.

    Raises:
        Stale: the header accepts only other versions.
    """
    require_version(version, seen(if_match))
