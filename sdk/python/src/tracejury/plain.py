"""Values of applications as JSON has them."""

import base64
import math
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python


def plain(value: Any) -> Any:
    """A value as JSON: models, dates and the like by their fields, what nothing knows as its text, NaN as the text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {plain(text(name)): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    found = to_jsonable_python(value, fallback=text)
    return plain(found) if type(found) is not type(value) else text(value)


def text(value: object) -> str:
    """Return the text of any value, also of one whose `__str__` raises."""
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - the value is of the application, and costs no result
        return f"({type(value).__name__} without a text: {type(error).__name__})"


def error_text(error: BaseException) -> str:
    """Return type and message of an error."""
    return f"{type(error).__name__}: {text(error)}"
