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
        return {plain(str(name)): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    found = to_jsonable_python(value, fallback=str)
    return plain(found) if type(found) is not type(value) else str(value)
