"""Extraction of a verdict from a model's reply: the grammar of replies, for all judges.

    reply      = { reasoning | prose | value }     one value is the verdict; none is left unfinished
    reasoning  = mark … mark                       a pair of `evaluators.chat.reasoning`, in which others may be nested
               | tag … tag | comment               a pair of any tags but those of answers and of HTML that shows text
               | heading … heading of an answer    a section of `evaluators.chat.headings`
               | … closing mark                    alone: all that stands before it
    value      = object | list                     complete, of JSON as programs write it

Marks within complete values and within quotes are ignored. Reasoning without an end leaves no verdict, unless a single
value follows the last closing mark of the same name: then the reasoning only mentioned its opening mark. In a section
that is called reasoning, or after a mark within a sentence, a value counts only at the end of the text. Values in a
draft section do not count, nor do values before it. The verdict is the one outermost object with all required fields.
Models put fences, prose and thinking around their JSON, and write it the way programs are written: with trailing
commas, single quotes, bare keys, comments, Python's literals. All of that is read. Nothing else is guessed: an object
counts only when the outermost bracket around it is complete, no key occurs twice in it, and it does not occur in the
judged content; the inside of a string is never searched. Time is linear in the length of the text, some 2.5 µs a
character at worst, so a long text is parsed in a thread.
"""

import json
import re
from collections.abc import Collection, Iterator
from typing import Final, Literal, NoReturn

from evaluators.chat.headings import Kind, Section
from evaluators.chat.lenient import MAX_DEPTH, OPENING, BracketReader, Broken, finite, parts_of
from evaluators.chat.quoting import is_quoted
from evaluators.chat.reasoning import CHANNEL, Mark, Role, is_reasoning, marks_in
from storage.limit import Limit
from storage.records import JsonValue

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_BEFORE_VALUE = re.compile(r"\s*(?:```\w*\s*)?(?=[{\[])")
_AFTER_VALUE = re.compile(r"(?:\s|```|<[^<>\s]{1,40}>)*+\Z")
_MOST_MARK: Final = 40
_BROKEN: Final = Limit(value=100, unit="values", remedy="let the judge reply with one JSON object")
"""Maximum number of broken values with marks in them: the text after each mark is parsed again. A guess."""


class NoVerdict(ValueError):
    """The text is not a verdict; the message has the reason, and `kind` whether it is cut off."""

    def __init__(self, kind: Literal["bad_reply", "truncated"], why: str) -> None:
        super().__init__(why)
        self.kind: Final = kind


def find_reply(
    text: str, required: Collection[str], judged: str = "", optional: Collection[str] = ()
) -> dict[str, JsonValue]:
    """Return the verdict in `text`: the one object that has every required field, and maybe optional ones.

    An object inside of an object with the required fields is a part of the latter. If a single field is required and no
    object has it, a list stands for that field: models that are asked for `{"claims": […]}` like to answer `[…]`.
    `judged` is what the model was shown; a verdict that is in it counts as a quotation.

    Raises:
        NoVerdict: there is none, or several, or it is incomplete, doubtful or quoted.
    """
    names = ", ".join(required)
    missing = NoVerdict("bad_reply", f"has no complete JSON object with {names}")
    if not _may_have(text, required):
        raise missing
    strict = _strict(text)
    scan = _Scan(text)
    values = scan.values() if strict is None else [strict]
    doubled = set(map(id, scan.reader.doubled))
    has_doubled = bool(doubled) and any(id(part) in doubled for value in values for part in parts_of(value))
    replies = [reply for value in values for reply in _outermost(value, frozenset(required))]
    if len(replies) > 1:
        raise NoVerdict("bad_reply", f"has several JSON objects with {names}")
    lists = [value for value in values if isinstance(value, list)]
    if scan.drafts and not replies and not lists:
        raise NoVerdict("truncated", "has only a draft of its verdict")
    if not replies and (len(required) > 1 or len(lists) != 1):
        # The message shows the reply: say why an object in it does not count.
        hidden = f"; what is within {scan.hidden_by} does not count" if scan.hidden_by else ""
        raise NoVerdict("bad_reply", f"{missing}{hidden}")
    verdict: JsonValue = replies[0] if replies else lists[0]
    if scan.is_doubtful(verdict):
        raise NoVerdict("truncated", "has reasoning that does not end")
    if has_doubled:  # also around the verdict: the key may have overwritten another verdict
        raise NoVerdict("bad_reply", f"has a key twice in its JSON object with {names}")
    if is_quoted(verdict, judged, required, optional):
        raise NoVerdict("bad_reply", "only repeats a JSON value of the judged text")
    return verdict if isinstance(verdict, dict) else dict.fromkeys(required, verdict)


def _may_have(text: str, required: Collection[str]) -> bool:
    # A cheap check before the search: the names are there, or may be escaped.
    may_be_list = len(required) == 1 and "[" in text
    return may_be_list or "\\" in text or all(name in text for name in required)


def _outermost(value: JsonValue, required: frozenset[str], depth: int = 0) -> Iterator[dict[str, JsonValue]]:
    """Yield the outermost objects that have the required fields."""
    if isinstance(value, dict) and value.keys() >= required:
        yield value
    elif isinstance(value, dict | list) and depth < MAX_DEPTH:
        for name, inner in value.items() if isinstance(value, dict) else (("", each) for each in value):
            if isinstance(inner, dict | list) and not is_reasoning(name):
                yield from _outermost(inner, required, depth + 1)


def _strict(text: str) -> dict[str, JsonValue] | list[JsonValue] | None:
    if _SURROGATE.search(text):
        return None
    try:
        value: JsonValue = json.loads(
            text, parse_float=finite, parse_constant=_refuse, object_pairs_hook=_without_repetition
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _without_repetition(members: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    read = dict(members)
    if len(read) < len(members):
        raise ValueError("a key occurs twice")
    return read


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


class _Scan:
    """Reads the values of a reply that are not part of its reasoning."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._marks: list[Mark] = []
        self._next = 0  # index into `_marks`
        self.reader = BracketReader(text)
        self._values: list[JsonValue] = []
        self._broken = 0
        self._is_unfinished = False
        self._section: Section | None = None  # None within an answer, too
        self._is_mentioned = self._is_unclosed = False
        self.hidden_by = ""  # the first mark that encloses a value, which does not count
        self.drafts = 0
        self._before_draft = 0  # values that a draft follows
        self._loose: list[JsonValue] = []  # values after reasoning without a closing mark that do not end the text

    def values(self) -> list[JsonValue]:
        """Return the outermost objects and lists in their order.

        Raises:
            NoVerdict: the text ends within a value, or within its reasoning.
        """
        self._marks = marks_in(self._text)
        at = 0
        opening = OPENING.search(self._text)
        while True:
            if opening is not None and opening.start() < at:
                opening = OPENING.search(self._text, at)
            mark = self._mark_from(at)
            if mark is not None and (opening is None or mark.start <= opening.start()):
                at = self._behind(mark, len(self._text) if opening is None else opening.start())
            elif opening is not None:
                at = self._read(opening)
            else:
                break
        if self._is_unfinished:
            raise NoVerdict("truncated", "ends within a JSON value")
        return self._values

    def is_doubtful(self, verdict: JsonValue) -> bool:
        """Return True if the verdict is in reasoning without an end, or before a draft."""
        values = (*self._values[: self._before_draft], *self._loose)
        return any(verdict is part for value in values for part in parts_of(value))

    def _mark_from(self, at: int) -> Mark | None:
        while self._next < len(self._marks) and self._marks[self._next].start < at:
            self._next += 1
        return self._marks[self._next] if self._next < len(self._marks) else None

    def _behind(self, mark: Mark, value_at: int) -> int:
        """Return the place after a mark, or after the reasoning that it opens. The next value is at `value_at`.

        A closing mark discards all values before it.
        """
        match mark.role:
            case Role.CLOSES | Role.EMPTY:
                self._values.clear()
                self._before_draft = 0
                self._is_unfinished = self._is_mentioned = self._is_unclosed = False
                self._section = None
                return mark.end
            case Role.SECTION if mark.section is not None:
                self._section = _within(mark.section, self._section)
                return mark.end
            case Role.ENCLOSES if mark.until is not None:
                if value_at < mark.until and not self.hidden_by:
                    self.hidden_by = " ".join(self._text[mark.start : mark.end].split())[:_MOST_MARK]
                return mark.until
            case Role.MENTIONS:
                return self._behind_mention(mark, value_at)
            case Role.UNCLOSED:
                self._is_unclosed = True
                return mark.end
            case _:
                return self._behind_reasoning(mark)

    def _behind_mention(self, mark: Mark, value_at: int) -> int:
        end = mark.until
        following = self._marks[self._next + 1] if self._next + 1 < len(self._marks) else None
        if end is None and following is not None and following.closes and following.name == mark.name:
            end = following.end
        if end is not None and end <= value_at:
            return end
        self._is_mentioned = True
        return mark.end

    def _behind_reasoning(self, mark: Mark) -> int:
        depth, end, last = 1, mark.end, None
        for index in range(self._next + 1, len(self._marks)):
            each = self._marks[index]
            if each.name != mark.name or each.role is Role.EMPTY:
                continue
            if mark.name == CHANNEL:  # of channels only the last final one counts
                if each.closes:
                    return self._behind(each, len(self._text))
                continue
            if each.closes:
                depth, last = depth - 1, each
                if not depth:
                    return each.end
            elif not self._text[end : each.start].isspace() and end < each.start:  # some write the tag twice
                depth += 1
            end = each.end
        if last is not None and self._is_one_value(last.end):  # the tag was mentioned in the reasoning
            return last.end
        raise NoVerdict("truncated", "has reasoning that does not end")

    def _is_one_value(self, at: int) -> bool:
        """Return whether nothing but a value and a fence around it follows."""
        before = _BEFORE_VALUE.match(self._text, at)
        if before is None:
            return False
        reader = BracketReader(self._text)
        try:
            reader.read(before.end())
        except Broken:
            return False
        return _AFTER_VALUE.match(self._text, reader.at) is not None

    def _read(self, opening: re.Match[str]) -> int:
        """Read a value; if it is broken, tags within it count."""
        try:
            value = self.reader.read(opening.start())
        except Broken as broken:
            end = max(broken.at, opening.end())
            mark = self._mark_from(opening.end())
            self._is_unfinished = self._is_unfinished or broken.at >= len(self._text)
            if mark is None or mark.start >= end:
                return end
            self._broken += 1
            if self._broken > _BROKEN.value:
                raise NoVerdict("bad_reply", f"has more broken JSON values than {_BROKEN}") from None
            return mark.start
        if self._section is not None and self._section.kind is Kind.DRAFT:
            self.drafts += 1
            self._before_draft = len(self._values)
            return self.reader.at
        self._values.append(value)
        is_loose = (self._section or self._is_mentioned) and not _AFTER_VALUE.match(self._text, self.reader.at)
        if is_loose or self._is_unclosed:
            self._loose.append(value)
        return self.reader.at


def _within(section: Section, current: Section | None) -> Section | None:
    if current is not None and section.level > current.level:
        begins_draft = section.kind is Kind.DRAFT and current.kind is Kind.REASONING
        return section if begins_draft else current
    return None if section.kind is Kind.ANSWER else section
