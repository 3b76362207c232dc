"""Large request bodies: parsed outside the event loop, in turn per client, with a bounded number of values."""

import json
from typing import Any, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from collector.api.base.request_turns import SMALL_BYTES, BodyParser
from collector.json_values import MOST_VALUES, has_more_values
from storage.limit import Limit

_VALUES: Final = Limit(value=MOST_VALUES, unit="values", remedy="send it in parts")


def check_values(body: bytes) -> None:
    """Refuse JSON with too many values.

    Raises:
        HTTPException: the body has too many values (413).
    """
    if has_more_values(body, MOST_VALUES):
        raise HTTPException(413, f"the body has more than {_VALUES}")


def _json(body: bytes) -> Any:  # noqa: ANN401 - JSON
    check_values(body)
    return json.loads(body)


async def read_large(request: Request, parser: BodyParser) -> None:
    """Parse a large JSON body in a thread and store the result for FastAPI.

    Raises:
        HTTPException: the body has too many values, or cannot be parsed.
        RequestValidationError: the body is not JSON; the errors are those of FastAPI.
        Overloaded: too many large bodies wait, or the client has disconnected.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if len(body) <= SMALL_BYTES or not media_type.endswith("json"):
        return
    try:
        request._json = await parser.parse(body, request, _json)  # noqa: SLF001 - where Starlette keeps it
    except json.JSONDecodeError as error:
        where: dict[str, Any] = {"type": "json_invalid", "loc": ("body", error.pos), "input": {}}
        raise RequestValidationError([where | {"msg": "JSON decode error", "ctx": {"error": error.msg}}]) from None
    except (ValueError, RecursionError):
        raise HTTPException(400, "There was an error parsing the body") from None
