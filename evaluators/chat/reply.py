"""Reading a verdict out of what a model wrote: the grammar of replies, for all judges.

    reply      = { reasoning | prose | value }     one value is the verdict; none is left unfinished
    reasoning  = "<think>" … "</think>"            and the other names of `_MARK`; channels other than the final one
               | … "</think>"                      up to a closing tag alone: all that stands before it
    value      = object | list                     complete, of JSON as programs write it

The tags count outside of complete values only. Reasoning that is opened and not closed leaves no verdict. The verdict
is the one object with all wanted fields that is in no other such object. Models put fences, prose and thinking around
their JSON, and write it the way programs are written: with trailing commas, single quotes, bare keys, comments,
Python's literals. All of that is read. What is not guessed: an object counts only when the outermost bracket around it
is complete, no key occurs twice in it, and it does not occur in what is judged; what stands inside a string is never
looked into. Time is linear in the length of the text, some 2 µs a character at worst, so a long text is read beside the
event loop.
"""

import json
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NoReturn

from storage.records import JsonValue

MAX_DEPTH = 64  # a guess; a verdict is three levels deep

# Before Python 3.11.5 a group that may go back within itself must not be possessive: it matches what it should not.
_SPACE = re.compile(r"(?:[\s\ufeff]++|//[^\n]*+|/\*[^*]*+\*++(?:[^/*][^*]*+\*++)*/)*")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"|' + r"'(?:[^'\\]++|\\.)*+'", re.DOTALL)
_NUMBER = re.compile(r"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_$][\w$-]*+")
_QUOTE = re.compile(r"\s*+[\"']")
_OPENING = re.compile(r"""\{(?=\s*+(?:["'}\w$/]|\Z))|\[(?!\s+\])(?=\s*+(?:["'\]{\[\w$/-]|\Z))""")
"""With what may follow it. `[ ]` is the box of a list of tasks."""
_TAIL = re.compile(r"[\w.+-]*+\Z")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_CODE = re.compile(r"(?<!\\)\\+u([0-9a-fA-F]{4})")  # from the first backslash alone, or many take quadratic time
_DROPPED = re.compile(r"\\++[nrtbf]|[\s\"'\\]++")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LITERALS: dict[str, JsonValue] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}


_NAMES: Final = "think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis"
_MARK = re.compile(
    rf"<(?P<tag_closes>/)?(?:\w{{1,20}}:)?(?P<tag>{_NAMES})(?:\s[^<>]{{0,200}})?>"
    r"|\[(?P<bracket_closes>/)?(?P<bracket>think)\]"
    r"|◁(?P<sign_closes>/)?(?P<sign>think)▷"
    rf"|<\|(?:begin|start|(?P<edge_closes>end))_of_(?P<edge>{_NAMES})\|>"
    r"|<\|channel\|>\s*(?:(?P<final>final)|\w{1,20})[^<]{0,100}(?:<\|constrain\|>[^<]{0,100})?<\|message\|>"
    r"|\A\s*analysis(?=\S)"
    r"|(?P<bare_final>assistantfinal)",
    re.IGNORECASE,
)
"""Where reasoning begins or ends, as models write it, and their servers where they leave special tokens in or out."""

_CHANNEL: Final = "channel"
_MOST_BROKEN: Final = 100
"""Broken values with tags in them, after which no more is read: each is read to its end. A guess."""


class NoVerdict(ValueError):
    """The text is no verdict; the message says why, and `kind` whether something of it is missing."""

    def __init__(self, kind: Literal["bad_reply", "truncated"], why: str) -> None:
        super().__init__(why)
        self.kind: Final = kind


def find_reply(text: str, wanted: Collection[str], judged: str = "") -> dict[str, JsonValue]:
    """Return the verdict in `text`: the one object that has every wanted field.

    An object inside of one that has them is a part of it. Where a single field is wanted and no object has it, a list
    stands for that field: models that are asked for `{"claims": […]}` like to answer `[…]`. `judged` is what the model
    was shown, whose objects are quotations.

    Raises:
        NoVerdict: there is none, or more than one, or it is not whole.
    """
    names = ", ".join(wanted)
    missing = NoVerdict("bad_reply", f"has no complete JSON object with {names}")
    if not _may_have(text, wanted):
        raise missing
    strict = _strict(text)
    scan = _Scan(text)
    values = scan.values() if strict is None else [strict]
    doubled = set(map(id, scan.reader.doubled))
    replies = [reply for value in values for reply in _outermost(value, frozenset(wanted))]
    if len(replies) > 1:
        raise NoVerdict("bad_reply", f"has several JSON objects with {names}")
    lists = [value for value in values if isinstance(value, list)]
    if not replies and (len(wanted) > 1 or len(lists) != 1):
        raise missing
    verdict: JsonValue = replies[0] if replies else lists[0]
    if doubled and not doubled.isdisjoint(map(id, _parts(verdict))):
        raise NoVerdict("bad_reply", f"has a key twice in its JSON object with {names}")
    if is_quoted(verdict, judged, wanted):
        raise NoVerdict("bad_reply", "only repeats a JSON value of the judged text")
    return verdict if isinstance(verdict, dict) else dict.fromkeys(wanted, verdict)


def is_quoted(verdict: JsonValue, judged: str, wanted: Collection[str]) -> bool:
    """Return whether the judged text contains the verdict, however it is spaced, quoted, escaped or ordered.

    Of an object the wanted fields count, all others too if only one is wanted, as many texts have one. A list counts if
    objects are in it: claims may repeat a list of texts, and `[1]` is also a footnote.
    """
    if not judged:
        return False
    if not isinstance(verdict, dict):
        is_telling = isinstance(verdict, list) and any(isinstance(each, dict) for each in verdict)
        return is_telling and "[" in judged and any(verdict == each for each in _values_of(judged))
    members = {name: verdict[name] for name in wanted} if len(wanted) > 1 else verdict
    is_named = all(name in judged for name in members)
    if is_named and any(isinstance(each, dict) and members.items() <= each.items() for each in _values_of(judged)):
        return True
    if not is_named and "\\" not in judged:  # which may spell a name
        return False
    plain = _plain(judged)
    return all(_has_member(plain, _plain(name), value) for name, value in members.items())


def _values_of(text: str) -> Iterator[JsonValue]:
    for value in _Scan(text).all_values():
        yield from _parts(value)


def _has_member(plain: str, name: str, value: JsonValue) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        member = rf"[{{,]{re.escape(name)}:(-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?)(?=[}},\]])"
        return any(float(number) == value for number in re.findall(member, plain))
    texts = {_plain(json.dumps(value, ensure_ascii=False)), _plain(str(value))}
    return any(re.search(rf"[{{,]{re.escape(name)}:{re.escape(text)}(?=[}},\]])", plain) for text in texts)


def _plain(text: str) -> str:
    """Remove spaces, quotes and escapes, which a quotation may lose or gain."""
    if "\\" in text:
        text = _CODE.sub(lambda code: chr(int(code[1], 16)), text)
    return _DROPPED.sub("", text)


def _parts(value: JsonValue) -> Iterator[JsonValue]:
    """Yield a value, and all objects and lists in it."""
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(inner, dict | list):
            yield from _parts(inner)


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
        value: JsonValue = json.loads(
            text, parse_float=_finite, parse_constant=_refuse, object_pairs_hook=_without_repetition
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _without_repetition(members: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    read = dict(members)
    if len(read) < len(members):
        raise ValueError("a key occurs twice")
    return read


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
    """Reads a complete value that starts with a bracket."""

    text: str
    at: int = 0
    depth: int = 0
    doubled: list[dict[str, JsonValue]] = field(default_factory=list)  # objects in which a key occurs twice

    def read(self, at: int) -> JsonValue:
        """Read the object or list that starts at `at`, and go behind it.

        Raises:
            _Broken: there is none, or it is not complete.
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
            raise _Broken(len(self.text) if _TAIL.match(self.text, at) else at)
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
            raise _Broken(self.at if opening is None or self.at >= len(self.text) else opening)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """A place where reasoning begins or ends."""

    start: int
    end: int
    name: str
    closes: bool

    @classmethod
    def of(cls, found: re.Match[str]) -> "_Mark":
        groups = found.groupdict()
        name = groups["tag"] or groups["bracket"] or groups["sign"] or groups["edge"] or _CHANNEL
        closes = any(value for key, value in groups.items() if key.endswith(("_closes", "final")))
        return cls(start=found.start(), end=found.end(), name=name.lower(), closes=closes)


class _Scan:
    """Reads the values of a reply that are not part of its reasoning."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._marks: list[_Mark] = []
        self._next = 0  # of the marks
        self.reader = _BracketReader(text)
        self._values: list[JsonValue] = []
        self._broken = 0
        self._is_unfinished = False

    def values(self) -> list[JsonValue]:
        """Outermost objects and lists in their order.

        Raises:
            NoVerdict: the text ends within a value, or within its reasoning.
        """
        self._marks = [_Mark.of(found) for found in _MARK.finditer(self._text)]
        at = 0
        opening = _OPENING.search(self._text)
        while True:
            if opening is not None and opening.start() < at:
                opening = _OPENING.search(self._text, at)
            mark = self._mark_from(at)
            if mark is not None and (opening is None or mark.start <= opening.start()):
                at = self._behind(mark)
            elif opening is not None:
                at = self._read(opening)
            else:
                break
        if self._is_unfinished:
            raise NoVerdict("truncated", "ends within a JSON value")
        return self._values

    def all_values(self) -> list[JsonValue]:
        """Return the complete values wherever they are, also in text that is broken or unfinished elsewhere."""
        at = 0
        while opening := _OPENING.search(self._text, at):
            at = self._read(opening)
        return self._values

    def _mark_from(self, at: int) -> _Mark | None:
        while self._next < len(self._marks) and self._marks[self._next].start < at:
            self._next += 1
        return self._marks[self._next] if self._next < len(self._marks) else None

    def _behind(self, mark: _Mark) -> int:
        """Return the place after a tag, or after the reasoning that it opens.

        A closing tag discards all values before it.
        """
        if mark.closes:
            self._values.clear()
            self._is_unfinished = False
            return mark.end
        for index in range(self._next + 1, len(self._marks)):
            each = self._marks[index]
            if each.closes and each.name == mark.name:
                # Of channels only the last final one counts.
                return self._behind(each) if mark.name == _CHANNEL else each.end
        raise NoVerdict("truncated", "has reasoning that does not end")

    def _read(self, opening: re.Match[str]) -> int:
        """Read a value; where it is broken, tags within it count."""
        try:
            self._values.append(self.reader.read(opening.start()))
        except _Broken as broken:
            end = max(broken.at, opening.end())
            mark = self._mark_from(opening.end())
            if mark is None or mark.start >= end:
                self._is_unfinished = self._is_unfinished or broken.at >= len(self._text)
                return end
            self._broken += 1
            if self._broken > _MOST_BROKEN:
                raise NoVerdict("bad_reply", "has too many broken JSON values") from None
            return mark.start
        return self.reader.at


def _unescape(inner: str) -> str:
    """The text that the inside of a string stands for; an escape that JSON lacks stands for itself."""
    if "\\" not in inner:
        return inner
    plain = _ESCAPE.sub(_escaped, inner)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escaped(escape: re.Match[str]) -> str:
    code, character = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPES.get(character, escape[0])
