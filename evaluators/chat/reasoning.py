"""The marks by which models and their servers set reasoning and tool calls apart from the reply."""

import re
from dataclasses import dataclass
from typing import Final

CHANNEL: Final = "channel"

_NAME = re.compile(
    r"\w*(?:think|thought|reasoning|reflection|scratchpad|monolog|deliberat|rationale)\w*"
    r"|analysis|cot|reason|draft|plan|planning|inner"
    r"|tool(?:calls?|use|response|result)\w*|functioncalls?|function|invoke|action"
)
"""Names of reasoning and of tool calls, in lower case and without what joins their words."""

_LESS, _MORE = r"(?:[<\uff1c◁]|&lt;|\\u003[cC])", r"(?:[>\uff1e▷]|&gt;|\\u003[eE])"
_MARK = re.compile(
    # Gemma, and gpt-oss with the special tokens in the text.
    r"<\|channel\|?>\s*(?:(?P<final>final)\b|(?P<channel>\w{1,20}))"
    r"|<(?P<left>[|\uff5c])?(?P<ends>/)?(?P<token>[\w▁/ -]{1,40})(?(left)(?P<right>[|\uff5c])?|[|\uff5c])>"
    r"|<unused\d{1,3}>(?P<unused>\s*thought\b)?"
    rf"|{_LESS}\s?(?P<closes>\\?/)?\s?(?P<tag>[A-Za-z][\w:.-]{{0,40}})(?:[\s=/][^<>\uff1c\uff1e&\\]{{0,200}})?{_MORE}"
    r"|\[(?P<ends_box>/)?(?P<box>(?i:think|thinking|tool_calls?)|REASONING|THOUGHTS?|ANALYSIS|REFLECTION)\](?!\()"
    # gpt-oss with the special tokens left out, and Granite.
    r"|\A\s*(?P<bare>analysis(?=[^\W_a-z]|[{\"\[(<])|(?:Here is|Here's) my thought process:)"
    r"|(?P<bare_final>assistantfinal|^[ \t]*(?:Here is|Here's) my response:)",
    re.MULTILINE,
)
_JOINT = re.compile(r"[\W_▁]+")
_EDGE = re.compile(r"(?:start|begin|open|end|close|stop)(?:of)?|prefix|suffix")
_ENDING = re.compile(r"end|close|stop|suffix")
_ANSWER = re.compile(r"(?:start|begin)(?:of)?(?:response|answer|solution|text)")
_QUOTES: Final = {"`": "`", '"': '"', "'": "'", "“": "”", "\u2018": "\u2019", "«": "»", "„": "“"}
_CODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_NOUN = re.compile(r"[ -](?:tags?|tokens?|blocks?|elements?|mark(?:er)?s?)\b", re.IGNORECASE)
_SURE: Final = re.compile(r"think|tool", re.IGNORECASE)
"""Names in square brackets that need no closing to be marks; others are also headings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place where reasoning begins or ends."""

    start: int
    end: int
    name: str
    closes: bool
    is_heading: bool = False


def marks_in(text: str) -> list[Mark]:
    """List the marks of a text in their order, without those that the text only mentions."""
    marks = [mark for found in _MARK.finditer(text) if (mark := _mark(found)) and not _is_mentioned(text, mark)]
    closed = {mark.name for mark in marks if mark.closes}
    return [mark for mark in marks if not mark.is_heading or mark.name in closed]


def _mark(found: re.Match[str]) -> Mark | None:
    groups = found.groupdict()
    start, end = found.span()
    if groups["final"] or groups["bare_final"]:
        return Mark(start=start, end=end, name=CHANNEL, closes=True)
    if groups["channel"] or groups["bare"]:
        return Mark(start=start, end=end, name=CHANNEL, closes=False)
    if found[0].startswith("<unused"):
        return Mark(start=start, end=end, name="unused", closes=groups["unused"] is None)
    if groups["token"]:
        return _token(found)
    name = _JOINT.sub("", (groups["tag"] or groups["box"]).rpartition(":")[2]).lower()
    if not _NAME.fullmatch(name):
        return None
    box = groups["box"]
    closes = bool(groups["closes"] or groups["ends_box"])
    is_heading = bool(box) and not closes and not _SURE.match(box)
    return Mark(start=start, end=end, name=name, closes=closes, is_heading=is_heading)


def _token(found: re.Match[str]) -> Mark | None:
    """Read a special token: `<|NAME|>`, `<|NAME>` or `<NAME|>`."""
    word = _JOINT.sub("", found["token"]).lower()
    name = _EDGE.sub("", word)
    if _ANSWER.fullmatch(word):
        return Mark(start=found.start(), end=found.end(), name="answer", closes=True)
    if not _NAME.fullmatch(name) and name != CHANNEL:
        return None
    closes = bool(found["ends"] or not found["left"] or "/" in found["token"] or _ENDING.search(word))
    return Mark(start=found.start(), end=found.end(), name=name, closes=closes)


def _is_mentioned(text: str, mark: Mark) -> bool:
    """Return whether the text speaks of the mark: in quotes, or as of a tag in the middle of a sentence."""
    before, after = text[max(0, mark.start - 6) : mark.start], text[mark.end : mark.end + 6]
    if "\\" in before + after:
        before, after = (_CODE.sub(lambda code: chr(int(code[1], 16)), each) for each in (before, after))
        after = after.lstrip("\\")
    if before and after and _QUOTES.get(before[-1]) == after[0]:
        return True
    is_within = len(before) > 1 and before[-2].isalnum() and before[-1] == " "
    return is_within and _NOUN.match(text, mark.end) is not None
