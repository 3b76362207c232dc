"""Headings and labels that set drafts and reasoning apart: `## Draft`, `**Thinking**`, `Draft:`, `[REASONING]`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from typing import Final

_DECORATION = r"(?:[^\w\n{}\[<`\"'“]|</?(?:h[1-6]|[bipu]|em|strong|summary|li|d[td])>){0,20}+"
_HEADING = re.compile(
    r"^[ \t>]*+(?:[-*+][ \t]+|\d{1,2}[.)][ \t]+)?(?:"
    r"#{1,6}[ \t]*+(?P<title>[^\n{}]{1,80})"
    r"|[*_]{2,3}(?P<bold>[^\n{}*_]{1,60}+)[*_]{2,3}:?(?P<alone>[ \t]*+$)?"
    r"|(?P<box>\[(?:REASONING|THOUGHTS?|ANALYSIS|REFLECTION|DRAFT|SCRATCHPAD)\])(?!\()"
    r"|(?P<underlined>[^\n{}.]{1,40}+)\n[ \t]*+(?:={3,}+|-{3,}+)[ \t]*+$"
    rf"|{_DECORATION}(?P<label>[A-Za-z][\w '/#-]{{0,40}}+)(?={_DECORATION}(?:[\n{{\[]|\Z)|[*_)]*:))"
    r"|(?P<answer>\[(?:FINAL|VERDICT|ANSWER|RESPONSE|OUTPUT|RESULT|JSON|SCORE)[\w -]{0,20}\])(?!\()",
    re.MULTILINE,
)
_WORD = re.compile(r"[a-z]+")
_TEXT = re.compile(r"[^\W_]+")
_DRAFT = re.compile(
    r"drafts?|think|thinking|thoughts?|scratch(?:pad)?|brainstorm\w*|monolog\w*|deliberat\w*"
    r"|preliminary|tentative|initial|rough"
)
_SECRET = re.compile(r"internal|hidden|private")
"""Words that mark notes, reasoning or an answer after them as a draft; "Internal consistency" is a criterion."""

_NOTES = re.compile(r"notes?|work(?:ings?)?|process|steps?|comments?|remarks?|dialog(?:ue)?|check(?:s|list)?|use|only")
_REASONING = re.compile(r"reasoning|analysis|rationale|reflections?|plan|planning|cot|critique|observations?")
_ANSWER = re.compile(
    r"final|verdict|answer|results?|output|scor(?:e|ing)|conclusion|evaluation|judge?ment|response|decision|json|assessment"
    r"|rating|grade|summary"
)
_LABEL = re.compile(
    r"(?:(?:my|first|second|rough|initial|internal|private|next|own) )*"
    r"(?:(?P<draft>drafts?|scratch ?pad|(?P<calls>(?:tool|function) calls)|(?:tool|function) call|action input"
    r"|(?:preliminary|tentative|initial|rough|provisional) (?:verdict|answer|score|json|result|rating|assessment))"
    r"|thoughts?|thinking|chain of thought|inner monologue|brainstorming|actions?|observations?)"
    r"(?: (?:\d+|verdict|answer|json|score|process|version|steps?))*"
)
_PROSE = re.compile(r"[*_): \t]*+[A-Za-z][^\n{}\[]*+$", re.MULTILINE)
_MOST_WORDS: Final = 3
"""Labels of answers and underlined headings with more words than this are prose."""

_BOLD, _AS_LABEL, _BOX = 7, 8, 9


class Kind(Enum):
    """The kind of text in a section."""

    DRAFT = auto()
    """A verdict in it is ignored."""
    REASONING = auto()
    """A verdict in it counts only at the end of the text."""
    ANSWER = auto()


_KINDS: Final = ((Kind.DRAFT, _DRAFT), (Kind.REASONING, _REASONING), (Kind.ANSWER, _ANSWER))


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The start of a section. Its level is that of a heading: `#` is 1, and 0 ends every section."""

    start: int
    end: int
    kind: Kind
    level: int


def sections_in(text: str) -> Iterator[Section]:
    """Yield the sections of drafts, reasoning and answers, in their order."""
    for match in _HEADING.finditer(text):
        group = match.lastgroup or "answer"
        written = "bold" if group == "alone" else group
        kind, level = _read(match, group, match[written])
        if kind is not None:
            yield Section(start=match.start(written), end=match.end(written), kind=kind, level=level)


def _read(match: re.Match[str], group: str, title: str) -> tuple[Kind | None, int]:
    match group:
        case "title":
            return _heading(title, match[0].count("#", 0, match.start("title") - match.start()))
        case "alone":
            return _heading(title, _BOLD)
        case "underlined":
            return _heading(title, 1 if "=" in match[0] else 2) if _is_short(title) else (None, 0)
        case "box":
            return Kind.DRAFT, _BOX
        case "answer":
            return Kind.ANSWER, 0
        case _:
            has_prose = _PROSE.match(match.string, match.end()) is not None
            return _label(" ".join(_TEXT.findall(title.lower())), has_prose=has_prose)


def _heading(title: str, level: int) -> tuple[Kind | None, int]:
    """Classify a heading by the first of its words that names a section."""
    words = _WORD.findall(title.lower())
    for word, following in pairwise([*words, ""]):
        if _SECRET.fullmatch(word) and (not following or _may_be_draft(following)):
            return Kind.DRAFT, level
        for kind, names in _KINDS:
            if names.fullmatch(word):
                return kind, 0 if word == "final" else level
    return None, level


def _may_be_draft(word: str) -> bool:
    return any(names.fullmatch(word) for names in (_DRAFT, _REASONING, _ANSWER, _NOTES, _SECRET))


def _label(title: str, *, has_prose: bool) -> tuple[Kind | None, int]:
    if label := _LABEL.fullmatch(title):
        is_draft = label["draft"] and not (has_prose and label["calls"])  # "Tool calls: all are right."
        return Kind.DRAFT if is_draft else Kind.REASONING, _AS_LABEL
    kind, level = _heading(title, _AS_LABEL)
    return (kind if kind is Kind.ANSWER and _is_short(title) else None), level


def _is_short(title: str) -> bool:
    return len(title.split()) <= _MOST_WORDS
