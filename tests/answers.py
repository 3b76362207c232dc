"""Validation of API responses against their models."""

from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from collector.api.responses.declaration import declared_answer
from collector.api.serving import application, contract


def the_document() -> dict[str, Any]:
    """Return the OpenAPI document, as every server has it."""
    made = FastAPI(routes=application.routes(), openapi_url=None)
    contract.describe(made, application.routes())
    return made.openapi()


def check_answer(answer: httpx.Response) -> httpx.Response:
    """Hold an answer of the API against the model of its route, which has to name every field; give it back.

    Raises:
        ValidationError: the model says something else.
    """
    if answer.is_success and answer.headers.get("content-type", "").startswith("application/json"):
        adapter = _adapter(answer.request.method, urlsplit(str(answer.request.url)).path)
        if adapter is not None:
            adapter.validate_json(answer.content, strict=True, extra="forbid", by_alias=True, by_name=False)
    return answer


def _adapter(method: str, path: str) -> TypeAdapter[Any] | None:
    for route in application.routes():
        if isinstance(route, APIRoute) and method in (route.methods or ()) and route.path_regex.match(path):
            declared = declared_answer(route.endpoint)
            return None if declared is None else _adapter_of(declared.model)
    return None


@cache
def _adapter_of(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)
