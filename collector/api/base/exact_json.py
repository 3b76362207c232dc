"""Bodies whose JSON is kept as it came, and the ids in them: no number is rounded, no name occurs twice, no NaN."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError

from evaluators.wire import parse_json
from storage.errors import BadQuery

_Shape = TypeVar("_Shape", bound=BaseModel)


def exactly(shape: type[_Shape]) -> Callable[[Request], Coroutine[Any, Any, _Shape]]:
    """A dependency of routes: the body in this shape."""

    async def read(request: Request) -> _Shape:
        content = b"".join([chunk async for chunk in request.stream()])
        try:
            document = parse_json(content.decode())
        except ValueError as error:
            raise BadQuery(f"the body is not JSON: {error}") from None
        try:
            return shape.model_validate(document)
        except ValidationError as error:
            told = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
            raise RequestValidationError(told) from None

    return read


def body_of(shape: type[BaseModel]) -> dict[str, Any]:
    """What the document says of a body in this shape."""
    schema = shape.model_json_schema(by_alias=True)
    content = {"application/json": {"schema": _written_out(schema, schema.pop("$defs", {}))}}
    return {"requestBody": {"required": True, "content": content}}


def _written_out(part: Any, shapes: dict[str, Any]) -> Any:  # noqa: ANN401 - any part of a schema
    """A part of a schema with the shapes that it refers to in their places."""
    if isinstance(part, dict) and "$ref" in part:
        return _written_out(shapes[part["$ref"].rpartition("/")[2]], shapes)
    if isinstance(part, dict):
        return {key: _written_out(value, shapes) for key, value in part.items() if key != "title"}
    return [_written_out(each, shapes) for each in part] if isinstance(part, list) else part


HexTrace = Annotated[str, Field(pattern="^[0-9a-fA-F]{32}$")]
HexSpan = Annotated[str, Field(pattern="^[0-9a-fA-F]{16}$")]
