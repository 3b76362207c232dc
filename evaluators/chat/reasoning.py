"""The marks by which models and their servers set reasoning and tool calls apart from the reply.

Marks are looked for in the text as it is displayed: entities, escapes, full-width forms and invisible characters do
not hide them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from evaluators.chat.displayed import Displayed
from evaluators.chat.headings import Section, sections_in

CHANNEL: Final = "channel"

_NAME = re.compile(
    r"\w*(?:think|thought|reasoning|reflection|scratch|monolog|deliberat|rationale|brainstorm|musing|critique|draft|hidden"
    r"|internal|private|secret)\w*|details|analysis|cot|reason|plan|planning|inner"
    r"|tool(?:calls?|use|response|result|code|output)\w*|functioncalls?|function|invoke|action"
)
"""Names of reasoning and of tool calls, in lower case and without separators."""

_TOKEN = re.compile(r"i?python(?:tag)?|observation|plugin|(?:code)?interpreter|execut(?:e|ion)|code")
"""Names that mean tool calls only if they are special tokens."""

_ATTRIBUTE = re.compile(
    r"think|thought|reasoning|reflection|scratchpad|rationale|draft|hidden|analysis|(?:tool|function)[_-]?call|display:\s*none",
    re.IGNORECASE,
)

_HARMLESS = re.compile(
    r"(?:final|json|my|the|your|official|output|model|llm|judge|assistant|evaluation|structured)*"
    r"(?:answer|verdict|result|output|response|json|eval|evaluation|grading|review|judge|score|judge?ment|assessment|grade|rating|reply|decision|report"
    r"|object|solution|conclusion|return|message|content|assistant|data|final|feedback)s?(?:json|object|block|result|format|data)?"
    r"|[abipqsu]|br|hr|h[1-6]|em|strong|small|pre|code|samp|tt|kbd|var|div|span|html|head|body|main|article|section"
    r"|[uod]l|li|d[td]|table|thead|tbody|t[rdh]|blockquote|center|font|xml|root"
)
"""Names of tags within which a verdict counts: those of answers, and those of HTML that show what they enclose."""

_UNPAIRED = re.compile(
    rf"(?:{_HARMLESS.pattern})|\[.*|area|base|col|embed|img|input|link|meta|param|source|track|wbr|doctype"
    r"|(?:begin|start|end|stop)of\w*|[beu]o[st]|eot|pad|unk|sep|cls|mask|sup|sub"
)
"""Names of tags that may stand alone without beginning anything: void elements, special tokens, words in brackets."""

_MARK = re.compile(
    # Gemma, and gpt-oss with the special tokens in the text.
    r"<\|channel\|?>\s*(?:(?P<final>final)\b|(?P<channel>\w{1,20}))"
    r"|<\|(?:im_start|start|start_header_id)\|>\s*(?P<turn>\w{1,20})"
    r"|<(?P<left>\|)?(?P<ends>/)?(?P<token>[\w▁/ -]{1,40})(?(left)(?P<right>\|)?|\|)>"
    r"|<unused\d{1,3}>(?P<unused>\s*thought\b)?"
    r"|<\s?(?P<closes>\\?/)?\s?(?P<tag>[^\W\d_][\w:.-]{0,40})(?P<attributes>[\s=/][^<>]{0,200})?>"
    r"|(?P<comment><!--)|(?P<ends_comment>--!?>)|(?<!\S)(?P<block>/\*)|(?P<ends_block>\*/)|(?<!\S)(?P<line>//)"
    r"|\[(?P<ends_box>/)?(?P<box>(?i:think|thinking|tool_calls?)|REASONING|THOUGHTS?|ANALYSIS|REFLECTION)\](?!\()"
    r"|\[(?P<ends_square>/)?(?P<square>[^\W\d_][\w-]{0,40})\](?!\()"
    # gpt-oss with the special tokens left out, and Granite.
    r"|\A\s*(?P<bare>analysis(?=[^\W_a-z]|[{\"\[(<])|(?:Here is|Here's) my thought process:)"
    r"|(?P<bare_final>assistantfinal|^[ \t]*(?:Here is|Here's) my response:)",
    re.MULTILINE,
)
_FENCE = re.compile(
    r"^[ \t>]*+(?:[-*+][ \t]+)?(?P<fence>`{3,}|~{3,})(?P<gap>[ \t]*+)(?P<info>[\w:.-]*+)(?P<rest>[^\n]*+)"
    r"|(?<=[ \t])(?P<inner>`{3,}|~{3,})(?P<word>\w++)[ \t]*+$",  # a fence that begins within a line
    re.MULTILINE,
)
_JOINT = re.compile(r"[\W_▁]+")
_EDGE = re.compile(r"(?:start|begin|open|end|close|stop)(?:of)?|prefix|suffix")
_ENDING = re.compile(r"end|close|stop|suffix")
_ANSWER = re.compile(r"(?:start|begin)(?:of)?(?:response|answer|solution|text)")
_QUOTES: Final = {"`": "`", '"': '"', "'": "'", "“": "”", "\u2018": "\u2019", "«": "»", "„": "“"}
_CODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_NOUN = re.compile(r"[ -](?:tags?|tokens?|blocks?|elements?|mark(?:er)?s?)\b", re.IGNORECASE)
_GOES_ON = re.compile(r"[ ][a-z]|[,;:!?)]|\.(?!\.)")
_PUNCTUATION = re.compile(r"[,;!?)]|\.(?!\.)")
_MOST_WORDS: Final = 3
"""Maximum number of words after an opening fence that may name its content."""

_BEFORE: Final = 80
"""Characters before a tag that are searched for the start of its line; the bound keeps the time linear. A guess."""

_SURE: Final = re.compile(r"think|tool", re.IGNORECASE)
"""Names in square brackets that are marks even without a closing mark; other names may be headings."""


class Role(Enum):
    """The effect of a mark on the text after it."""

    OPENS = auto()
    """Reasoning begins; without its closing mark there is no verdict."""
    CLOSES = auto()
    EMPTY = auto()
    """An element without content: on its own it ends reasoning like a closing mark, within reasoning it is ignored."""
    MENTIONS = auto()
    """Unclear: prose mentions the mark, or reasoning begins. The next value counts only at the end of the text."""
    ENCLOSES = auto()
    """Reasoning begins that ends at `until`."""
    UNCLOSED = auto()
    """A tag or comment begins that never ends: the text after it is a draft, the text before it is not."""
    SECTION = auto()
    """A heading or a label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place where reasoning begins or ends."""

    start: int
    end: int
    name: str
    role: Role
    until: int | None = None
    section: Section | None = None

    @property
    def closes(self) -> bool:
        """Return whether the mark ends reasoning, alone or as the end of a pair."""
        return self.role is Role.CLOSES


def marks_in(text: str) -> list[Mark]:
    """List the marks of a text in their order, without those that the text only mentions in quotes."""
    displayed = Displayed(text)
    marks = [*_tags(displayed.text), *_fences(displayed.text), *_headings(displayed.text)]
    return sorted(
        (_at_origin(mark, displayed) for mark in marks), key=lambda mark: (mark.start, mark.role is Role.SECTION)
    )


def _at_origin(mark: Mark, displayed: Displayed) -> Mark:
    start, end = displayed.origin(mark.start), displayed.origin(mark.end)
    return replace(mark, start=start, end=end, until=None if mark.until is None else displayed.origin(mark.until))


def is_reasoning(name: str) -> bool:
    """Return whether a key is a name of reasoning or of a tool call."""
    return _NAME.fullmatch(_name(name)) is not None


def _tags(text: str) -> Iterator[Mark]:
    """Yield tags, tokens and words in brackets."""
    others: list[_Element] = []
    marks: list[Mark] = []
    boxes: set[str] = set()
    comment_until = 0
    for match in _MARK.finditer(text):
        if match["line"] and match.start() < comment_until:
            continue  # within another comment: its end is not looked for again, which would take quadratic time
        mark = _comment(text, match) if match["line"] else _mark(match)
        if mark and match["line"]:
            comment_until = mark.until or 0
        element = None if mark else _element(match)
        if not (mark or element) or _is_quoted(text, *match.span()):
            continue
        if element:
            others.append(element)
        elif mark:
            marks.append(mark)
            boxes |= {mark.name} if mark.closes else set()
    for mark in marks:
        if not _is_heading(text, mark) or mark.name in boxes:
            yield _in_sentence(text, mark)
    yield from _pairs(text, others)


def _headings(text: str) -> Iterator[Mark]:
    for section in sections_in(text):
        yield Mark(start=section.start, end=section.end, name="section", role=Role.SECTION, section=section)


def _mark(match: re.Match[str]) -> Mark | None:
    groups = match.groupdict()
    start, end = match.span()
    if groups["final"] or groups["bare_final"]:
        return Mark(start=start, end=end, name=CHANNEL, role=Role.CLOSES)
    if groups["channel"] or groups["bare"]:
        return Mark(start=start, end=end, name=CHANNEL, role=Role.OPENS)
    if match[0].startswith("<unused"):
        return Mark(start=start, end=end, name="unused", role=Role.OPENS if groups["unused"] else Role.CLOSES)
    if groups["token"]:
        return _token(match)
    name = _name(groups["tag"] or groups["box"] or "")
    if not _NAME.fullmatch(name):
        return None
    role = Role.CLOSES if groups["closes"] or groups["ends_box"] else Role.OPENS
    if role is Role.OPENS and (groups["attributes"] or "").rstrip().endswith("/"):
        role = Role.EMPTY
    return Mark(start=start, end=end, name=name, role=role)


def _comment(text: str, match: re.Match[str]) -> Mark:
    end = text.find("\n", match.end())
    until = len(text) if end < 0 else end
    return Mark(start=match.start(), end=match.end(), name="//", role=Role.ENCLOSES, until=until)


def _token(match: re.Match[str]) -> Mark | None:
    """Read a special token: `<|NAME|>`, `<|NAME>` or `<NAME|>`."""
    word = _JOINT.sub("", match["token"]).lower()
    name = _EDGE.sub("", word)
    if _ANSWER.fullmatch(word):
        return Mark(start=match.start(), end=match.end(), name="answer", role=Role.CLOSES)
    if not (_NAME.fullmatch(name) or _TOKEN.fullmatch(name)) and name != CHANNEL:
        return None
    closes = bool(match["ends"] or not match["left"] or "/" in match["token"] or _ENDING.search(word))
    return Mark(start=match.start(), end=match.end(), name=name, role=Role.CLOSES if closes else Role.OPENS)


def _name(written: str) -> str:
    return _JOINT.sub("", written.rpartition(":")[2]).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Element:
    """A tag, a word in square brackets, the mark of a turn, or the beginning or end of a comment."""

    start: int
    end: int
    name: str
    closes: bool
    is_reasoning: bool = False


def _element(match: re.Match[str]) -> _Element | None:
    start, end = match.span()
    if match["comment"] or match["ends_comment"]:
        return _Element(start=start, end=end, name="!", closes=bool(match["ends_comment"]), is_reasoning=True)
    if match["block"] or match["ends_block"]:
        return _Element(start=start, end=end, name="/*", closes=bool(match["ends_block"]))
    if square := match["square"]:
        return _Element(start=start, end=end, name=f"[{_name(square)}", closes=bool(match["ends_square"]))
    if turn := match["turn"]:
        closes = turn in ("assistant", "model", "final")
        is_reasoning = closes or _NAME.fullmatch(turn) is not None or _TOKEN.fullmatch(turn) is not None
        return _Element(start=start, end=end, name="|", closes=closes, is_reasoning=True) if is_reasoning else None
    attributes = match["attributes"] or ""
    if not match["tag"] or attributes.rstrip().endswith("/"):
        return None
    is_reasoning = _ATTRIBUTE.search(attributes) is not None
    return _Element(
        start=start, end=end, name=_name(match["tag"]), closes=bool(match["closes"]), is_reasoning=is_reasoning
    )


def _pairs(text: str, elements: list[_Element]) -> Iterator[Mark]:
    """Yield elements that hide values: comments, elements with reasoning attributes, and pairs of unknown tags."""
    open_elements: dict[str, list[_Element]] = {}
    for element in elements:
        if not element.closes:
            open_elements.setdefault(element.name, []).append(element)
        elif opened := open_elements.get(element.name):
            opening = opened.pop()
            if opening.is_reasoning or not _HARMLESS.fullmatch(element.name.lstrip("[")):
                yield Mark(
                    start=opening.start, end=opening.end, name=element.name, role=Role.ENCLOSES, until=element.end
                )
    for each in (element for opened in open_elements.values() for element in opened):
        mark = Mark(start=each.start, end=each.end, name=f"{each.name}!", role=Role.OPENS)
        if each.is_reasoning:
            yield _in_sentence(text, mark)
        elif _stands_alone(text, mark) and not _UNPAIRED.fullmatch(each.name):
            yield replace(mark, role=Role.UNCLOSED)


def _fences(text: str) -> Iterator[Mark]:
    """Yield the fences that name reasoning in their one to three words; inside them, a fence with words is nested."""
    opening: re.Match[str] | None = None
    depth = width = 0
    for match in _FENCE.finditer(text):
        fence, words = match["fence"] or match["inner"], f"{match['info'] or match['word'] or ''}{match['rest'] or ''}"
        if opening is None:
            most = 1 if match["gap"] else _MOST_WORDS  # "``` and so on" is prose
            names = words.split() if len(words.split()) <= most else []
            if any(_NAME.fullmatch(_name(word)) for word in names if word[0].isalpha()):
                opening, width, depth = match, len(fence), 1
            continue
        if fence[0] not in opening[0] or fence in words:
            continue
        if words.strip():
            depth += 1
        elif depth > 1 or len(fence) >= width:
            depth -= 1
        if not depth:
            yield Mark(start=opening.start(), end=opening.end(), name="```", role=Role.ENCLOSES, until=match.end())
            opening = None
    if opening is not None:
        yield Mark(start=opening.start(), end=opening.end(), name="```", role=Role.OPENS)


def _is_heading(text: str, mark: Mark) -> bool:
    return text.startswith("[", mark.start) and not mark.closes and not _SURE.match(text, mark.start + 1)


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Return True if the text mentions the mark: in quotes, or as a tag within a sentence."""
    before, after = text[max(0, start - 6) : start], text[end : end + 6]
    if "\\" in before + after:
        before, after = (_CODE.sub(lambda code: chr(int(code[1], 16)), each) for each in (before, after))
        after = after.lstrip("\\")
    if before and after and _QUOTES.get(before[-1]) == after[0]:
        return True
    is_within = len(before) > 1 and before[-2].isalnum() and before[-1] == " "
    return is_within and _NOUN.match(text, end) is not None


def _in_sentence(text: str, mark: Mark) -> Mark:
    is_mention = mark.role is Role.OPENS and mark.name != CHANNEL and _goes_on(text, mark)
    return replace(mark, role=Role.MENTIONS) if is_mention else mark


def _stands_alone(text: str, mark: Mark) -> bool:
    before = text[max(0, mark.start - _BEFORE) : mark.start].rpartition("\n")[2].rstrip()
    return (not before or before[-1] in ":.>`") and not _PUNCTUATION.match(text, mark.end)


def _goes_on(text: str, mark: Mark) -> bool:
    """Return True if the mark is within a sentence that continues after it, or is the parameter of a type."""
    before = text[max(0, mark.start - 2) : mark.start]
    if _PUNCTUATION.match(text, mark.end):
        return True
    if len(before) > 1 and before[-1] == " " and (before[-2].isalnum() or before[-2] == ","):
        return _GOES_ON.match(text, mark.end) is not None
    name = text[mark.start + 1 : mark.start + 3]
    return before[-1:].isalnum() and name[:1].isupper() and name[1:].islower()
