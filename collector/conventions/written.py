"""Objects as Python writes them, `ToolCall(name='f', arguments={'a': 1})` or `role='user' content='hi'`, as maps.

Some instrumentations put `repr` or `str` of a framework's messages where their JSON should be. Only what the grammar
knows is read, nothing is ever evaluated but strings and numbers, and whatever else a text holds makes it no object.
"""

import ast
import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from storage.records import JsonValue

MAX_CHARS: Final = 65_536  # 22 ms at most: 3 MB of text a second are read
_MAX_DEPTH: Final = 40
_BEGINS: Final = re.compile(r"[A-Za-z_][\w.]*+(?:\(|=['\"\[{(<\w-])")
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^'\\\n]|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*+'
              |"(?:[^"\\\n]|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*+")
      | (?P<number>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]))
      | (?P<name>[A-Za-z_][\w.]*+)
      | <[\w.]+:\ (?P<member>'[^'\\]*'|"[^"\\]*"|-?\d+)>
      | (?P<unknown><[^<>]*+>)
      | (?P<mark>[()\[\]{},:=])
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final[dict[str, JsonValue]] = {"None": None, "True": True, "False": False}


class Written(NamedTuple):
    """An object: the name of its class, empty where only its fields are written, and what they hold."""

    name: str
    fields: "dict[str, WrittenValue]"


WrittenValue: TypeAlias = "JsonValue | Written | list[WrittenValue] | dict[str, WrittenValue]"


class _NotWrittenError(ValueError):
    """The text is no object."""


def is_written(text: str) -> bool:
    """Whether a text begins like an object; a quick look."""
    return _BEGINS.match(text) is not None


def written_object(text: str) -> Written | None:
    """The object that a text writes; None where it is anything else."""
    if len(text) > MAX_CHARS or not is_written(text):
        return None
    try:
        return _Reader(text).whole()
    except (_NotWrittenError, ValueError, SyntaxError):
        return None


def plain(value: WrittenValue) -> JsonValue:
    """A value with its objects as maps of their fields."""
    if isinstance(value, Written):
        return {key: plain(item) for key, item in value.fields.items()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def written_message(text: str) -> dict[str, JsonValue] | None:
    """The message that a text writes, with a role and content; None where it is none."""
    found = written_object(text)
    if found is None:
        return None
    if found.name == "ChatMessage" and "_role" in found.fields:
        return _of_haystack(found)
    told = plain(found)
    if not isinstance(told, dict) or "content" not in told:
        return None
    if isinstance(told.get("role"), str):
        return told
    if isinstance(told.get("source"), str) and isinstance(told.get("type"), str):  # AutoGen
        return {"role": "user" if told["source"] == "user" else "assistant", "content": told["content"]}
    return None


def _of_haystack(message: Written) -> dict[str, JsonValue]:
    """A message as Haystack writes it as JSON, where each block is below the name of its kind."""
    content = message.fields.get("_content")
    blocks = [_block(item) for item in content if isinstance(item, Written)] if isinstance(content, list) else []
    return {"role": plain(message.fields["_role"]), "content": blocks, "meta": plain(message.fields.get("_meta"))}


def _block(item: Written) -> JsonValue:
    fields = plain(item)
    match item.name:
        case "ToolCall":
            return {"tool_call": fields}
        case "ToolCallResult":
            return {"tool_call_result": fields}
        case "ReasoningContent":
            return {"reasoning": fields}
        case _:
            return fields


class _Reader:
    """Reads one text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text.rstrip()
        self._at = 0
        self._kind = ""
        self._piece = ""
        self._next()

    def whole(self) -> Written:
        """The object that the whole text is: with its class, or its fields alone."""
        first, at = self._piece, self._at
        self._next()
        if self._piece == "(":
            found = Written(first.rpartition(".")[2], self._fields(")", 0))
        else:
            self._at, self._kind, self._piece = at, "name", first
            found = Written("", self._loose())
        if self._kind:
            raise _NotWrittenError
        return found

    def _next(self) -> None:
        if self._at >= len(self._text):
            self._kind = self._piece = ""
            return
        match = _TOKEN.match(self._text, self._at)
        if match is None or match.lastgroup is None:
            raise _NotWrittenError
        self._kind, self._piece, self._at = match.lastgroup, match[match.lastgroup], match.end()

    def _expect(self, mark: str) -> None:
        if self._piece != mark or self._kind != "mark":
            raise _NotWrittenError
        self._next()

    def _loose(self) -> "dict[str, WrittenValue]":
        """Fields with nothing but space between them."""
        found: dict[str, WrittenValue] = {}
        while self._kind:
            name = self._piece
            if self._kind != "name":
                raise _NotWrittenError
            self._next()
            self._expect("=")
            found[name] = self._value(0)
        return found

    def _fields(self, end: str, depth: int) -> "dict[str, WrittenValue]":
        """What a class is called with: named fields; what has no name is left out."""
        found: dict[str, WrittenValue] = {}

        def one() -> None:
            name, kind, at = self._piece, self._kind, self._at
            if kind == "name":
                self._next()
                if self._piece == "=" and self._kind == "mark":
                    self._next()
                    found[name] = self._value(depth + 1)
                    return
                self._kind, self._piece, self._at = kind, name, at
            self._value(depth + 1)

        self._each(end, one)
        return found

    def _each(self, end: str, read: Callable[[], None]) -> None:
        """Items between commas up to the end, from the opening mark on."""
        self._next()
        while not (self._piece == end and self._kind == "mark"):
            read()
            if self._piece == "," and self._kind == "mark":
                self._next()
            elif self._piece != end:
                raise _NotWrittenError
        self._next()

    def _value(self, depth: int) -> "WrittenValue":
        kind, token = self._kind, self._piece
        if depth > _MAX_DEPTH or not kind:
            raise _NotWrittenError
        if kind == "mark":
            return self._collection(token, depth)
        self._next()
        if kind == "name":
            if self._piece == "(" and self._kind == "mark":
                return Written(token.rpartition(".")[2], self._fields(")", depth))
            return _WORDS.get(token, token)
        if kind == "unknown":
            return None
        value = ast.literal_eval(token)
        if isinstance(value, str):
            return value if value.isascii() else value.encode("utf-8", "replace").decode()
        return value if isinstance(value, int) or math.isfinite(value) else token

    def _collection(self, mark: str, depth: int) -> "WrittenValue":
        if mark == "{":
            found: dict[str, WrittenValue] = {}

            def pair() -> None:
                key = self._value(depth + 1)
                self._expect(":")
                found[str(key)] = self._value(depth + 1)

            self._each("}", pair)
            return found
        if mark not in ("[", "("):
            raise _NotWrittenError
        items: list[WrittenValue] = []
        self._each("]" if mark == "[" else ")", lambda: items.append(self._value(depth + 1)))
        return items
