"""YAML as a tree that remembers lines, and JSON as one without: plain values only, within bounds, every key once.

Not all of YAML: no anchors and aliases (ten of which can mean a billion values), no tags, no dates, and yes, no, on and
off are texts.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import yaml

from rules.errors import BadRule, Problem
from storage.records import JsonValue

MAX_CHARACTERS: Final = 65_536
"""The most characters of a rule's text. A guess: a rule with twenty tools has some 10,000."""
_MAX_DEPTH: Final = 32
_TOO_DEEP: Final = f"values may be nested {_MAX_DEPTH} deep"

_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_FRACTION: Final = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?")
_LONGEST_INTEGER: Final = 300  # digits: a longer number is beyond the range of a double
_WORDS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None, "~": None, "": None}
_SYNTAX: Final = "is not YAML"
_QUOTES: Final = 'operators such as ">=" and "!=", and texts that start with one of * & ! % @ ` > |, need quotes'


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueNode:
    """A value and its line; of a member of a mapping, the line of its key."""

    value: "str | float | bool | tuple[ValueNode, ...] | Mapping[str, ValueNode] | None"
    line: int
    text: str | None = None  # of a scalar, as it is written, without quotes

    def plain(self) -> JsonValue:
        """Return the value without lines."""
        match self.value:
            case tuple():
                return [item.plain() for item in self.value]
            case Mapping():
                return {key: member.plain() for key, member in self.value.items()}
            case scalar:
                return scalar


def read_tree(text: str) -> ValueNode:
    """Return the tree of one document.

    Raises:
        BadRule: the text is not YAML, or uses more of YAML than is accepted; the message has the line.

    """
    if len(text) > MAX_CHARACTERS:
        raise _bad(1, f"at most {MAX_CHARACTERS} characters are accepted, and this has {len(text)}")
    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        return _document(events)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _bad(mark.line + 1 if mark else 1, f"{_SYNTAX}: {error.problem or error.context}; {_QUOTES}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _bad(line, f"{_SYNTAX}: the character U+{_code(error.character):04X} is not allowed") from None
    except (ValueError, OverflowError):  # which PyYAML lets pass
        raise _bad(1, f"{_SYNTAX}: an escape such as \\U00110000 is not a character") from None


def read_json(text: str, *, most: int | None = MAX_CHARACTERS) -> ValueNode:
    """Return the tree of a JSON text; every line is 1.

    Raises:
        BadRule: the text is not JSON, or larger than accepted.

    """
    if most is not None and len(text) > most:
        raise _bad(1, f"at most {most} characters are accepted, and this has {len(text)}")
    try:
        value = json.loads(
            text, object_pairs_hook=_Pairs, parse_int=_integer, parse_float=_fraction, parse_constant=_no_number
        )
    except ValueError as error:
        raise _bad(1, f"is not JSON: {error}") from None
    except RecursionError:
        raise _bad(1, _TOO_DEEP) from None
    return _json_node(value, 0)


class _Number(NamedTuple):
    value: float
    text: str


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, in which a key may be twice."""


def _integer(text: str) -> _Number:
    if len(text) > _LONGEST_INTEGER:
        raise ValueError("a number is longer than any that can be compared with")
    return _Number(int(text), text)


def _fraction(text: str) -> _Number:
    number = float(text)
    return _Number(number, text) if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number that a double can hold")


def _json_node(value: Any, depth: int) -> ValueNode:  # noqa: ANN401 - what the parser made
    if depth > _MAX_DEPTH:
        raise _bad(1, _TOO_DEEP)
    match value:
        case _Pairs():
            keys = [_whole(key, 1) for key, _ in value]
            members = {key: _json_node(item, depth + 1) for key, (_, item) in zip(keys, value, strict=True)}
            if len(members) < len(keys):
                twice = next(key for key, count in Counter(keys).items() if count > 1)
                raise _bad(1, f"the key {twice!r} occurs twice")
            return ValueNode(value=members, line=1)
        case list():
            return ValueNode(value=tuple(_json_node(item, depth + 1) for item in value), line=1)
        case _Number():
            return ValueNode(value=value.value, line=1, text=value.text)
        case str():
            return ValueNode(value=_whole(value, 1), line=1, text=value)
        case _:
            return ValueNode(value=value, line=1, text=json.dumps(value))


_Event: TypeAlias = yaml.Event


def _document(events: Iterator[_Event]) -> ValueNode:
    builder: ValueNode | None = None
    for event in events:
        match event:
            case yaml.DocumentStartEvent() if builder is not None:
                raise _bad(_line(event), "one rule a file: a second document starts here")
            case yaml.StreamStartEvent() | yaml.DocumentStartEvent() | yaml.DocumentEndEvent() | yaml.StreamEndEvent():
                pass
            case _:
                builder = _node(event, events, 0)
    return builder or ValueNode(value=None, line=1, text="")


def _node(event: _Event, events: Iterator[_Event], depth: int) -> ValueNode:
    line = _line(event)
    if depth > _MAX_DEPTH:
        raise _bad(line, _TOO_DEEP)
    if getattr(event, "anchor", None) is not None:
        raise _bad(line, "anchors (&) and aliases (*) are not taken; quote a text that starts so")
    if getattr(event, "tag", None) is not None:
        raise _bad(line, "tags (!) are not taken; quote a text or an operator that starts so")
    match event:
        case yaml.ScalarEvent():
            return ValueNode(value=_scalar(event, line), line=line, text=_whole(event.value, line))
        case yaml.SequenceStartEvent():
            return ValueNode(value=tuple(_items(events, depth)), line=line)
        case _:
            return ValueNode(value=_members(events, depth), line=line)


def _items(events: Iterator[_Event], depth: int) -> Iterator[ValueNode]:
    for event in events:
        if isinstance(event, yaml.SequenceEndEvent):
            return
        yield _node(event, events, depth + 1)


def _members(events: Iterator[_Event], depth: int) -> Mapping[str, ValueNode]:
    members: dict[str, ValueNode] = {}
    for event in events:
        if isinstance(event, yaml.MappingEndEvent):
            break
        key = _node(event, events, depth + 1)
        if key.text is None:
            raise _bad(key.line, "a key is a text")
        if key.text in members:
            raise _bad(key.line, f"the key {key.text!r} occurs twice")
        members[key.text] = replace(_node(next(events), events, depth + 1), line=key.line)
    return members


def _scalar(event: yaml.ScalarEvent, line: int) -> str | float | bool | None:
    """Return the value of a scalar: quoted, a text; else the number, boolean or null that it spells, or a text."""
    text = _whole(event.value, line)
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text) and len(text) <= _LONGEST_INTEGER:
        return int(text)
    number = float(text) if _FRACTION.fullmatch(text) else math.inf
    return number if math.isfinite(number) else text


def _whole(text: str, line: int) -> str:
    """Join surrogate pairs, by which escapes may spell a character; refuse half a pair, and U+0000."""
    if "\x00" in text:
        raise _bad(line, "the character U+0000 is not taken")
    if text.isascii():
        return text
    try:
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeDecodeError:
        raise _bad(line, "half of a surrogate pair is not a character") from None


def _line(event: _Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _code(character: object) -> int:
    return character if isinstance(character, int) else ord(str(character)[:1] or "\0")


def _bad(line: int, message: str) -> BadRule:
    return BadRule([Problem(line=line, key="", message=message)])
