"""JSON as models and programs write it: trailing commas, single quotes, bare keys, comments, Python's literals."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from storage.records import JsonValue

MAX_DEPTH = 64  # a guess; a verdict is three levels deep

# Before Python 3.11.5 a group that may backtrack must not be possessive: it matches text that it should not.
_SPACE = re.compile(r"(?:[\s\ufeff]++|//[^\n]*+|/\*[^*]*+\*++(?:[^/*][^*]*+\*++)*/)*")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"|' + r"'(?:[^'\\]++|\\.)*+'", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_$][\w$-]*+")
_QUOTE = re.compile(r"\s*+[\"']")
OPENING = re.compile(r"""\{(?=\s*+(?:["'}\w$/]|\Z))|\[(?!\s+\])(?=\s*+(?:["'\]{\[\w$/-]|\Z))""")
"""An opening bracket that may begin a value; that of `[ ]`, a checkbox in a list of tasks, may not."""
_TAIL = re.compile(r"[\w.+-]*+\Z")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: dict[str, JsonValue] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}


class Broken(Exception):
    """Failure to read a value; `at` is where the search for the next value may continue."""

    def __init__(self, at: int) -> None:
        self.at = at


@dataclass(slots=True)
class BracketReader:
    """Reads a complete value that starts with a bracket."""

    text: str
    at: int = 0
    depth: int = 0
    doubled: list[dict[str, JsonValue]] = field(default_factory=list)  # objects in which a key occurs twice

    def read(self, at: int) -> JsonValue:
        """Read the object or list that starts at `at`, and move `self.at` past it.

        Raises:
            Broken: there is none, or it is not complete.
        """
        self.at, self.depth = at, 0
        return self._value()

    def _value(self) -> JsonValue:
        at = self.at
        match self.text[at : at + 1]:
            case "{":
                return self._object()
            case "[":
                return self._list()
            case '"' | "'":
                return self._string()
            case _:
                return self._scalar(at)

    def _scalar(self, at: int) -> JsonValue:
        if number := _NUMBER.match(self.text, at):
            self.at = number.end()
            return self._number(number[0], at)
        word = _WORD.match(self.text, at)
        if word is None or word[0] not in _LITERALS:
            raise Broken(len(self.text) if _TAIL.match(self.text, at) else at)
        self.at = word.end()
        return _LITERALS[word[0]]

    def _object(self) -> dict[str, JsonValue]:
        members: dict[str, JsonValue] = {}
        is_doubled = False
        opening = self._enter()
        while not self._leave("}"):
            key = self._key()
            self._space()
            self._expect(":", opening if not members else None)
            self._space()
            is_doubled = is_doubled or key in members
            members[key] = self._value()
            self._separate("}")
        if is_doubled:
            self.doubled.append(members)
        return members

    def _list(self) -> list[JsonValue]:
        items: list[JsonValue] = []
        opening = self._enter()
        while not self._leave("]"):
            items.append(self._value())
            self._separate("]", opening if len(items) == 1 and isinstance(items[0], str) else None)
        return items

    def _enter(self) -> int | None:
        """Step over the opening bracket; return the place after it if a quote follows, else None."""
        if self.depth == MAX_DEPTH:
            raise Broken(len(self.text))
        self.depth += 1
        self.at += 1
        opening = self.at if _QUOTE.match(self.text, self.at) else None
        self._space()
        return opening

    def _leave(self, closing: str) -> bool:
        if not self.text.startswith(closing, self.at):
            return False
        self.at += 1
        self.depth -= 1
        return True

    def _separate(self, closing: str, opening: int | None = None) -> None:
        self._space()
        if not self.text.startswith(closing, self.at):
            self._expect(",", opening)
            self._space()

    def _expect(self, character: str, opening: int | None) -> None:
        if not self.text.startswith(character, self.at):
            raise Broken(self.at if opening is None or self.at >= len(self.text) else opening)
        self.at += 1

    def _space(self) -> None:
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        if self.text.startswith("/*", self.at):  # a comment without an end hides all that follows
            raise Broken(len(self.text))

    def _key(self) -> str:
        if self.text[self.at : self.at + 1] in {'"', "'"}:
            return self._string()
        word = _WORD.match(self.text, self.at)
        if word is None:
            raise Broken(self.at)
        self.at = word.end()
        return word[0]

    def _string(self) -> str:
        string = _STRING.match(self.text, self.at)
        if string is None:  # without an end: all that follows is inside it
            raise Broken(len(self.text))
        self.at = string.end()
        return _unescape(string[0][1:-1])

    @staticmethod
    def _number(text: str, at: int) -> JsonValue:
        try:
            return int(text) if text.lstrip("-").isdecimal() else finite(text)
        except ValueError:  # infinite, or more digits than Python reads
            raise Broken(at) from None


def all_values(text: str) -> Iterator[JsonValue]:
    """Yield the complete objects and lists wherever they are, also in text that is broken elsewhere."""
    reader = BracketReader(text)
    at = 0
    while opening := OPENING.search(text, at):
        try:
            yield reader.read(opening.start())
            at = reader.at
        except Broken as broken:
            at = max(broken.at, opening.end())


def parts_of(value: JsonValue) -> Iterator[JsonValue]:
    """Yield a value, and all objects and lists in it."""
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(inner, dict | list):
            yield from parts_of(inner)


def finite(text: str) -> float:
    """Read a number, and refuse one that is infinite."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _unescape(inner: str) -> str:
    # An escape that JSON lacks stands for itself.
    if "\\" not in inner:
        return inner
    plain = _ESCAPE.sub(_escaped, inner)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escaped(escape: re.Match[str]) -> str:
    code, character = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPES.get(character, escape[0])
