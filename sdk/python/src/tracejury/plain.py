"""Conversion of an application's values to JSON."""

import base64
import math
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from pydantic_core import to_jsonable_python

_LEVELS: Final = 180  # a server takes 200; deeper values mostly contain themselves
_GENERATED: Final = 10_000  # values of a generator, which may never end; a guess
_INTEGER_BITS: Final = 14_000  # Python and the server read 4,300 digits
_ERROR_CHARACTERS: Final = 10_000  # a guess; a server takes 100,000


def plain(value: Any, inside: frozenset[int] = frozenset()) -> Any:
    """Convert a value to JSON: models by their fields, dates as text, unknown types and NaN as text.

    A value that raises when it is read, is too deep, or contains itself is converted to its text. Only
    `KeyboardInterrupt` is raised.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _INTEGER_BITS else hex(value)
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str):
        return str.encode(value, "utf-8", "replace").decode()
    try:
        if len(inside) < _LEVELS and id(value) not in inside:
            return _contents(value, inside | {id(value)})
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001, S110 - the value is of the application, and costs no result
        pass
    return plain(text(value))


def _contents(value: Any, inside: frozenset[int]) -> Any:
    if isinstance(value, Mapping):
        return {plain(text(name)): plain(each, inside) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each, inside) for each in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, Generator):
        return plain([*islice(value, _GENERATED)], inside)
    converted = to_jsonable_python(value, fallback=text)
    return plain(converted, inside) if type(converted) is not type(value) else plain(text(value))


def text(value: object) -> str:
    """Return the text of any value, also of one whose `__str__` raises."""
    try:
        return str(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the value is of the application, and costs no result
        return f"({type(value).__name__} without a text: {type(error).__name__})"


def error_text(error: BaseException) -> str:
    """Return type and message of an error, the latter cut if it is very long."""
    return (text(error) if isinstance(error, Stopped) else f"{type(error).__name__}: {text(error)}")[:_ERROR_CHARACTERS]


class Stopped(Exception):
    """A function of the application raised an exception that ends programs, such as SystemExit."""


@contextmanager
def contained() -> Iterator[None]:
    """Raise an ordinary error instead of one that would end the program or a task."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as raised:
        raise Stopped(error_text(raised)) from raised
