"""Request bodies whose JSON is kept exactly: no rounded numbers, no repeated names, no NaN. Types of ids."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, Final, TypeVar, cast

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.routing import BaseRoute

from collector.api.base.json_bodies import check_values
from collector.api.base.request_turns import RouteSchedulers
from evaluators.wire import parse_json
from storage.errors import BadQuery

_Shape = TypeVar("_Shape", bound=BaseModel)


def json_body(shape: type[_Shape]) -> Callable[[Request], Coroutine[Any, Any, _Shape]]:
    """Return a route dependency that reads the body as this shape."""

    async def read(request: Request) -> _Shape:
        turns: RouteSchedulers = request.app.state.context.route_turns
        try:
            document = await turns.bodies.parse(await request.body(), request, _parsed)
        except ValueError as error:
            raise BadQuery(f"the body is not JSON: {error}") from None
        try:
            return shape.model_validate(document)
        except ValidationError as error:
            _check_count(error)
            errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
            raise RequestValidationError(errors) from None

    return read


def _parsed(content: bytes) -> Any:  # noqa: ANN401 - JSON
    check_values(content)
    return parse_json(content.decode())


_MOST_ERRORS: Final = 10_000
"""Maximum number of errors of a body that are examined: Python makes an object of each. A guess."""


def bound_errors(routes: Sequence[BaseRoute]) -> None:
    """Refuse bodies with too many errors before FastAPI builds objects of all of them."""
    for route in routes:
        for field in route.dependant.body_params if isinstance(route, APIRoute) else ():
            adapter: object = field._type_adapter  # noqa: SLF001 - FastAPI has no public API for this
            if not isinstance(adapter, _Counting):
                field._type_adapter = cast("TypeAdapter[Any]", _Counting(field._type_adapter))  # noqa: SLF001 - as above


class _Counting:
    """A type adapter that refuses bodies with too many errors."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it is
        return getattr(self._adapter, name)

    def validate_python(self, value: object, **options: Any) -> Any:  # noqa: ANN401 - whatever its type is
        try:
            return self._adapter.validate_python(value, **options)
        except ValidationError as error:
            _check_count(error)
            raise


def _check_count(error: ValidationError) -> None:
    count = error.error_count()
    if count > _MOST_ERRORS:
        raise BadQuery(f"the body has {count:,} errors; /docs shows what is asked for here") from None


def body_of(shape: type[BaseModel]) -> dict[str, Any]:
    """Return the `requestBody` of the OpenAPI document for this shape."""
    schema = shape.model_json_schema(by_alias=True)
    content = {"application/json": {"schema": _written_out(schema, schema.pop("$defs", {}))}}
    return {"requestBody": {"required": True, "content": content}}


def _written_out(part: Any, shapes: dict[str, Any]) -> Any:  # noqa: ANN401 - any part of a schema
    """Return part of a schema with its references inlined."""
    if isinstance(part, dict) and "$ref" in part:
        return _written_out(shapes[part["$ref"].rpartition("/")[2]], shapes)
    if isinstance(part, dict):
        return {key: _written_out(value, shapes) for key, value in part.items() if key != "title"}
    return [_written_out(each, shapes) for each in part] if isinstance(part, list) else part


HexTrace = Annotated[str, Field(pattern="^[0-9a-fA-F]{32}$")]
HexSpan = Annotated[str, Field(pattern="^[0-9a-fA-F]{16}$")]
