"""Finding the JSON object in what a model wrote, however it wrapped it.

Models put fences, prose and thinking around their JSON, and write it the way programs are written: with trailing
commas, single quotes, bare keys, comments, Python's literals. All of that is read. What is not guessed: an object
counts only when the outermost bracket around it is complete, and what stands inside a string is never looked into, so
that text which a judge quotes cannot become its verdict. One pass: time is linear in the length of the text, some 2 µs
a character at worst, so whoever reads a long text does so beside the event loop.
"""

import json
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NoReturn

from storage.records import JsonValue

MAX_DEPTH = 64  # a guess; a verdict is three levels deep

# Before Python 3.11.5 a group that may go back within itself must not be possessive: it matches what it should not.
_SPACE = re.compile(r"(?:[\s\ufeff]++|//[^\n]*+|/\*[^*]*+\*++(?:[^/*][^*]*+\*++)*/)*")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"|' + r"'(?:[^'\\]++|\\.)*+'", re.DOTALL)
_NUMBER = re.compile(r"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_$][\w$-]*+")
_QUOTE = re.compile(r"\s*+[\"']")
_OPENING = re.compile(r"""\{(?=\s*+["'}\w$/])|\[(?=\s*+["'\]{\[\w$/-])""")  # with what may follow it
_THOUGHT = re.compile(r"\s*+<think>.*?</think>", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LITERALS: dict[str, JsonValue] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}


class Contradictory(ValueError):
    """The text has several objects with the wanted fields, and they do not say the same."""


def find_reply(text: str, wanted: Collection[str]) -> dict[str, JsonValue] | None:
    """The object in `text` that has every wanted field, or None; of several that agree, the last.

    An object inside of one that has them is a part of it. What a model thought before it answered, between `<think>`
    and `</think>`, is no answer. Where a single field is wanted and no object has it, the last complete list stands for
    that field: models that are asked for `{"claims": […]}` like to answer `[…]`.

    Raises:
        Contradictory: two objects have the wanted fields, and differ in one of them.
    """
    thought = _THOUGHT.match(text)
    answer = text if thought is None else text[thought.end() :]
    if not _may_have(answer, wanted):
        return None
    found = _strict(answer)
    values = _BracketReader(answer).values() if found is None else [found]
    replies = [reply for value in values for reply in _outermost(value, frozenset(wanted))]
    if any(reply[name] != replies[-1][name] for reply in replies for name in wanted):
        raise Contradictory
    if replies:
        return replies[-1]
    lists = [value for value in values if isinstance(value, list)]
    return dict.fromkeys(wanted, lists[-1]) if len(wanted) == 1 and lists else None


def _may_have(text: str, wanted: Collection[str]) -> bool:
    """Whether to look for the wanted fields is worth the time: their names are there, or may be in disguise."""
    may_be_list = len(wanted) == 1 and "[" in text
    return may_be_list or "\\" in text or all(name in text for name in wanted)


def _outermost(value: JsonValue, wanted: frozenset[str], depth: int = 0) -> Iterator[dict[str, JsonValue]]:
    """The objects with the wanted fields that are in no other."""
    if isinstance(value, dict) and value.keys() >= wanted:
        yield value
    elif isinstance(value, dict | list) and depth < MAX_DEPTH:
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, dict | list):
                yield from _outermost(inner, wanted, depth + 1)


def _strict(text: str) -> dict[str, JsonValue] | list[JsonValue] | None:
    if _SURROGATE.search(text):
        return None
    try:
        value: JsonValue = json.loads(text, parse_float=_finite, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


class _Broken(Exception):
    """The text at this place is not JSON."""

    def __init__(self, at: int) -> None:
        self.at = at


@dataclass(slots=True)
class _BracketReader:
    """Reads every complete value that starts with a bracket."""

    text: str
    at: int = 0
    depth: int = 0

    def values(self) -> list[JsonValue]:
        """Outermost objects and lists, in their order."""
        found: list[JsonValue] = []
        while opening := _OPENING.search(self.text, self.at):
            self.at, self.depth = opening.start(), 0
            try:
                found.append(self._value())
            except _Broken as broken:
                self.at = max(broken.at, opening.end())
        return found

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
            raise _Broken(at)
        self.at = word.end()
        return _LITERALS[word[0]]

    def _object(self) -> dict[str, JsonValue]:
        members: dict[str, JsonValue] = {}
        opening = self._enter()
        while not self._leave("}"):
            key = self._key()
            self._space()
            self._expect(":", opening if not members else None)
            self._space()
            members[key] = self._value()
            self._separate("}")
        return members

    def _list(self) -> list[JsonValue]:
        items: list[JsonValue] = []
        opening = self._enter()
        while not self._leave("]"):
            items.append(self._value())
            self._separate("]", opening if len(items) == 1 and isinstance(items[0], str) else None)
        return items

    def _enter(self) -> int | None:
        """Step over the opening bracket; its place, if a quote follows it."""
        if self.depth == MAX_DEPTH:
            raise _Broken(len(self.text))
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
        """Step over a comma, which may also stand before the closing bracket."""
        self._space()
        if not self.text.startswith(closing, self.at):
            self._expect(",", opening)
            self._space()

    def _expect(self, character: str, opening: int | None) -> None:
        """Step over the character. Where it is missing, and `opening` is given, the bracket was prose: `a "{" and`."""
        if not self.text.startswith(character, self.at):
            raise _Broken(self.at if opening is None else opening)
        self.at += 1

    def _space(self) -> None:
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        if self.text.startswith("/*", self.at):  # a comment without an end hides all that follows
            raise _Broken(len(self.text))

    def _key(self) -> str:
        if self.text[self.at : self.at + 1] in {'"', "'"}:
            return self._string()
        word = _WORD.match(self.text, self.at)
        if word is None:
            raise _Broken(self.at)
        self.at = word.end()
        return word[0]

    def _string(self) -> str:
        string = _STRING.match(self.text, self.at)
        if string is None:  # without an end: all that follows is inside it
            raise _Broken(len(self.text))
        self.at = string.end()
        return _unescape(string[0][1:-1])

    @staticmethod
    def _number(text: str, at: int) -> JsonValue:
        try:
            return int(text) if text.lstrip("-").isdecimal() else _finite(text)
        except ValueError:  # infinite, or more digits than Python reads
            raise _Broken(at) from None


def _unescape(inner: str) -> str:
    """The text that the inside of a string stands for; an escape that JSON lacks stands for itself."""
    if "\\" not in inner:
        return inner
    plain = _ESCAPE.sub(_escaped, inner)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escaped(escape: re.Match[str]) -> str:
    code, character = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPES.get(character, escape[0])
