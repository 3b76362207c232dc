"""Two texts side by side, with their differences marked."""

import re
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from collector.web.text import cut_text, framed, visible

MOST_TOKENS: Final = 300
"""Maximum number of words, without the common beginning and end of both texts, that are compared word by word. Longer
texts are compared line by line. 100 words take 1.4 ms of CPU, 200 take 5.3 and 300 take 12.4, whether they are alike or
not (median of 7, Python 3.11): quadratic. 300 is a seventh of a page's 90 ms, and 600 would be half."""

_WORDS: Final = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]\s*|[^\W\u2e80-\u9fff\uac00-\ud7af]+\s*|[^\w\s]\s*|\s+")
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")

Parts = Sequence[tuple[bool, str]]
"""The pieces of a text; the boolean is True if the other text has the piece, too."""


def marked(before: str, after: str, wholes: tuple[str, str]) -> tuple[Markup, Markup]:
    """Mark the differences of two texts, cut if they are long; `wholes` are the addresses of the whole texts."""
    (one, one_missing), (other, other_missing) = cut_text(before), cut_text(after)
    parts, other_parts = differing(one, other)
    return (
        framed(_framed(parts, Markup("<del>{}</del>")), one_missing, wholes[0]),
        framed(_framed(other_parts, Markup("<ins>{}</ins>")), other_missing, wholes[1]),
    )


def differing(before: str, after: str) -> tuple[Parts, Parts]:
    """Split two texts into equal and different pieces, by word or, if they are long, by line.

    Joined, the pieces of a side are its text.
    """
    one, other = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(middle) for middle in _middles(one, other)) > MOST_TOKENS:
        one, other = _LINES.findall(before), _LINES.findall(after)
    head = _alike(one, other)
    tail = _alike(one[head:][::-1], other[head:][::-1])
    kept = _kept(one[head : len(one) - tail], other[head : len(other) - tail])
    sides = []
    for tokens, side in ((one, 0), (other, 1)):
        same = {head + pair[side] for pair in kept} | {*range(head), *range(len(tokens) - tail, len(tokens))}
        sides.append(_joined(tokens, same))
    return sides[0], sides[1]


def _middles(one: Sequence[str], other: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    head = _alike(one, other)
    tail = _alike(one[head:][::-1], other[head:][::-1])
    return one[head : len(one) - tail], other[head : len(other) - tail]


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _kept(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Return the index pairs of a longest common subsequence; none if a text has more than `MOST_TOKENS` tokens."""
    if max(len(one), len(other)) > MOST_TOKENS:
        return []
    lengths = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(len(one) - 1, -1, -1):
        row, below, token = lengths[i], lengths[i + 1], one[i]
        for j in range(len(other) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if token == other[j] else max(below[j], row[j + 1])
    pairs, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _joined(tokens: Sequence[str], same: set[int]) -> Parts:
    parts: list[tuple[bool, str]] = []
    for at, token in enumerate(tokens):
        if parts and parts[-1][0] == (at in same):
            parts[-1] = (parts[-1][0], parts[-1][1] + token)
        else:
            parts.append((at in same, token))
    return parts


def _framed(parts: Parts, frame: Markup) -> Markup:
    return Markup().join(visible(text) if is_same else frame.format(visible(text)) for is_same, text in parts)
