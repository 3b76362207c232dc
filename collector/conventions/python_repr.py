"""Objects as Python writes them, `ToolCall(name='f', arguments={'a': 1})` or `role='user' content='hi'`, as maps.

Some instrumentations put `repr` or `str` of a framework's messages where their JSON should be. A text with
anything that the grammar does not know is not an object. Only strings and numbers are ever evaluated.
"""

import ast
import math
import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, NamedTuple, TypeAlias, TypeVar

from storage.records import JsonValue

MAX_CHARS: Final = 65_536  # 22 ms at most: 3 MB of text a second are read
_REMEMBERED_CHARS: Final = 4_096
"""Longest text whose parsed object is remembered: 512 of them take some 20 MB. A guess."""

_MAX_DEPTH: Final = 40
_BEGINS: Final = re.compile(r"[A-Za-z_][\w.]*+(?:\(|=['\"\[{(<\w-])")
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<mark>[()\[\]{},:=])
      | (?P<text>'(?:[^'\\\n]++|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*+'
              |"(?:[^"\\\n]++|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*+")
      | (?P<number>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]))
      | (?P<name>[A-Za-z_][\w.]*+)
      | <[\w.]+:\ (?P<member>'[^'\\]*'|"[^"\\]*"|-?\d+)>
      | (?P<unknown><[^<>]*+>)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final[dict[str, JsonValue]] = {"None": None, "True": True, "False": False}
_AS_IT_IS: Final = re.compile(r"[^\\\n\r\0]*+")
"""A quoted string without escapes, line breaks and NUL, so that its value is the characters between the quotes."""


class Written(NamedTuple):
    """An object: the name of its class, or "" for fields alone, and its fields."""

    name: str
    fields: "dict[str, WrittenValue]"


WrittenValue: TypeAlias = "JsonValue | Written | list[WrittenValue] | dict[str, WrittenValue]"
_Read = TypeVar("_Read")


class _NotWrittenError(ValueError):
    """Refusal of a text that is not an object."""


def is_written(text: str) -> bool:
    """Return True if a text begins like an object; a quick check."""
    return _BEGINS.match(text) is not None


def _remembering(read: Callable[[str], _Read | None]) -> Callable[[str], _Read | None]:
    """Wrap a parser: it gets only texts that begin like objects, and results of short texts are cached.

    Each request of a conversation repeats the earlier messages.
    """
    remembered = lru_cache(maxsize=512)(read)

    @wraps(read)
    def reader(text: str) -> _Read | None:
        if len(text) > MAX_CHARS or not is_written(text):
            return None
        return remembered(text) if len(text) <= _REMEMBERED_CHARS else read(text)

    return reader


@_remembering
def written_object(text: str) -> Written | None:
    """Return the object that a text writes, None if it is anything else. It is remembered, and MUST NOT be changed."""
    try:
        return _Reader(text).whole()
    except (_NotWrittenError, ValueError, SyntaxError):
        return None


def plain(value: WrittenValue) -> JsonValue:
    """Return a value with its objects as maps of their fields."""
    if isinstance(value, Written):
        return {key: plain(item) for key, item in value.fields.items()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


@_remembering
def written_map(text: str) -> dict[str, JsonValue] | None:
    """Return the object that a text writes as a map, None if it is anything else. It MUST NOT be changed."""
    parsed = written_object(text)
    return None if parsed is None else {key: plain(item) for key, item in parsed.fields.items()}


@_remembering
def written_message(text: str) -> dict[str, JsonValue] | None:
    """Return the message that a text writes, with a role and content, or None. It MUST NOT be changed."""
    parsed = written_object(text)
    if parsed is None:
        return None
    if parsed.name == "ChatMessage" and "_role" in parsed.fields:
        return _of_haystack(parsed)
    fields = {key: plain(item) for key, item in parsed.fields.items()}
    if "content" not in fields:
        return None
    if isinstance(fields.get("role"), str):
        return fields
    if isinstance(fields.get("source"), str) and isinstance(fields.get("type"), str):  # AutoGen
        return {"role": "user" if fields["source"] == "user" else "assistant", "content": fields["content"]}
    return None


def _of_haystack(message: Written) -> dict[str, JsonValue]:
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
    """Parser of one text."""

    def __init__(self, text: str) -> None:
        self._text = text.rstrip()
        self._at = 0
        self._kind = ""
        self._piece = ""
        self._next()

    def whole(self) -> Written:
        """Parse the whole text as an object: with its class, or its fields alone."""
        first = self._piece
        self._next()
        if self._piece == "(":
            written = Written(first.rpartition(".")[2], self._fields(0))
        else:
            written = Written("", self._loose(first))
        if self._kind:
            raise _NotWrittenError
        return written

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            if self._at < len(self._text):
                raise _NotWrittenError
            self._kind = self._piece = ""
            return
        self._kind = kind = match.lastgroup or ""
        self._piece = match[kind]
        self._at = match.end()

    def _expect(self, mark: str) -> None:
        if self._piece != mark:
            raise _NotWrittenError
        self._next()

    def _loose(self, name: str) -> "dict[str, WrittenValue]":
        """Parse fields with only spaces between them, after the name of the first."""
        fields: dict[str, WrittenValue] = {}
        while True:
            self._expect("=")
            fields[name] = self._value(0)
            if not self._kind:
                return fields
            if self._kind != "name":
                raise _NotWrittenError
            name = self._piece
            self._next()

    def _fields(self, depth: int) -> "dict[str, WrittenValue]":
        """Parse the named arguments of a class; unnamed ones are left out."""
        fields: dict[str, WrittenValue] = {}
        self._next()
        while self._piece != ")":
            if self._kind != "name":
                self._value(depth + 1)
            else:
                name = self._piece
                self._next()
                if self._piece == "=":
                    self._next()
                    fields[name] = self._value(depth + 1)
                else:
                    self._named(name, depth + 1)
            self._separate(")")
        self._next()
        return fields

    def _separate(self, end: str) -> None:
        if self._piece == ",":
            self._next()
        elif self._piece != end:
            raise _NotWrittenError

    def _value(self, depth: int) -> "WrittenValue":
        kind, token = self._kind, self._piece
        if depth > _MAX_DEPTH or not kind:
            raise _NotWrittenError
        if kind == "mark":
            return self._collection(token, depth)
        self._next()
        if kind == "name":
            return self._named(token, depth)
        if kind == "unknown":
            return None
        return _text(token) if token[0] in "'\"" else _number(token)

    def _named(self, name: str, depth: int) -> "WrittenValue":
        """Parse what follows a name: an object, or a word."""
        if depth > _MAX_DEPTH:
            raise _NotWrittenError
        if self._piece == "(":
            return Written(name.rpartition(".")[2], self._fields(depth))
        return _WORDS.get(name, name)

    def _collection(self, mark: str, depth: int) -> "WrittenValue":
        if mark == "{":
            fields: dict[str, WrittenValue] = {}
            self._next()
            while self._piece != "}":
                key = str(self._value(depth + 1))
                self._expect(":")
                fields[key] = self._value(depth + 1)
                self._separate("}")
            self._next()
            return fields
        if mark not in ("[", "("):
            raise _NotWrittenError
        end = "]" if mark == "[" else ")"
        items: list[WrittenValue] = []
        self._next()
        while self._piece != end:
            items.append(self._value(depth + 1))
            self._separate(end)
        self._next()
        return items


def _text(token: str) -> str:
    """Return a text without its quotes; the compiler, which is slow, parses only texts with escapes."""
    if not _AS_IT_IS.fullmatch(token):
        value = str(ast.literal_eval(token))
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if not token.isascii():
        token.encode()  # raises for a lone surrogate, as compiling it does
    return token[1:-1]


def _number(token: str) -> int | float | str:
    if not token.isascii():  # digits of other scripts
        raise _NotWrittenError
    if token.isdigit() and token[0] != "0":
        return int(token)
    if "." in token or "e" in token:
        value = float(token)
        return value if math.isfinite(value) else token
    return int(ast.literal_eval(token))  # which refuses 007
