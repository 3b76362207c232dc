"""Path to one value inside a structured one.

    path  = [ "$" ] *step          "$" alone, and nothing at all, is the value itself
    step  = "." name               a member of an object; a path without "$" may leave out the first dot
          | "[" integer "]"        an element of an array; negative ones count from the end
          | "[" string "]"         a member by any name, in double quotes as JSON writes it, or in single quotes
    name  = 1*(anything but . [ ] and quotes)

Text on the way is read as JSON, since models answer with JSON in text.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from evaluators.wire import parse_json

_STEP = re.compile(
    r"""\.?(?P<name>[^.\[\]"'\s][^.\[\]"']*)
      | \[\s*(?P<index>-?\d{1,9})\s*\]
      | \[\s*(?P<double>"(?:[^"\\]|\\.)*")\s*\]
      | \[\s*'(?P<single>[^']*)'\s*\]""",
    re.VERBOSE,
)


class PathNotFound(LookupError):
    """There is no value at the path."""


@dataclass(frozen=True, slots=True)
class Path:
    """Path to a value inside another."""

    steps: tuple[str | int, ...]

    def __str__(self) -> str:
        return "$" + "".join(f"[{json.dumps(step, ensure_ascii=False)}]" for step in self.steps)

    def find(self, value: object) -> object:
        """Return the value at the path.

        Raises:
            PathNotFound: there is none; the message says which step has nothing to enter.
        """
        for step in self.steps:
            value = _enter(value, step)
        return value


def parse_path(text: str) -> Path:
    """Return the path that the text writes.

    Raises:
        ValueError: the text is not a path.

    """
    steps: list[str | int] = []
    rest = text.strip()
    position = 1 if rest.startswith("$") else 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        needs_dot = position > 0 and match is not None and match["name"] is not None and rest[position] != "."
        if match is None or needs_dot:
            raise ValueError(f'not a path at character {position + 1}; paths look like $.items[0].name or $["a key"]')
        steps.append(_step(match))
        position = match.end()
    return Path(tuple(steps))


def _step(match: re.Match[str]) -> str | int:
    if match["index"] is not None:
        return int(match["index"])
    if match["double"] is not None:
        return str(json.loads(match["double"]))
    return match["name"] if match["name"] is not None else match["single"]


def _enter(value: object, step: str | int) -> object:
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError as error:
            raise PathNotFound(f"{step!r} cannot be entered in text that is not JSON ({error})") from None
    if isinstance(step, str) and isinstance(value, Mapping):
        if step in value:
            return value[step]
        raise PathNotFound(f"there is no member {step!r}")
    if isinstance(step, int) and isinstance(value, list | tuple):
        if -len(value) <= step < len(value):
            return value[step]
        raise PathNotFound(f"there is no element {step} in an array of {len(value)}")
    kind = "an object" if isinstance(step, str) else "an array"
    raise PathNotFound(f"{step!r} needs {kind} and meets {type(value).__name__}")
