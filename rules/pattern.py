"""Patterns over text with one meaning in Python and in SQL: a tree, the text of it for RE2, and a search of our own.

Python's `re` and RE2 differ in what spaces, `$` and case mean, and `re` can take for ever. So a pattern is a tree of
sets of characters whose RE2 text spells every set out, and the search here takes time in proportion to the text.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never

from rules.errors import BadPattern

LAST_CHARACTER: Final = 0x10FFFF
MAX_STATES: Final = 2_000
"""A guess: RE2 keeps such a pattern within some 100 KB, and DuckDB lets it have megabytes."""
_KEPT_STEPS: Final = 20_000  # steps kept of a search, some 200 bytes each. A guess

Ranges: TypeAlias = tuple[tuple[int, int], ...]
EdgeKind: TypeAlias = Literal["start", "end", "word"]


@dataclass(frozen=True, slots=True)
class Characters:
    """A character of a set: ascending ranges with gaps between them."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other; without parts it matches the empty text, everywhere."""

    parts: tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """A choice of patterns, of which any may match."""

    options: tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repetition; `most` is None without a limit."""

    part: "Tree"
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class EdgeTest:
    """A place between characters: the start or end of the text, or the edge of an ASCII word.

    There is no test for the absence of an edge: RE2 works on bytes, and would find such places within a character.
    """

    kind: EdgeKind


Tree: TypeAlias = Characters | Sequence | Alternation | Repeat | EdgeTest


def ranges_of(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Return the characters of these pairs as ascending ranges with gaps between them."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """Return the ranges of all other characters."""
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), LAST_CHARACTER]
    return tuple((first, last) for first, last in zip(starts, ends, strict=True) if first <= last)


def includes(ranges: Ranges, character: int) -> bool:
    """Return True if the character is in one of the ranges."""
    at = bisect_right(ranges, (character, LAST_CHARACTER)) - 1
    return at >= 0 and character <= ranges[at][1]


WORD: Final = ranges_of([(ord("0"), ord("9")), (ord("A"), ord("Z")), (ord("a"), ord("z")), (ord("_"), ord("_"))])

_EDGES: Final[dict[EdgeKind, str]] = {"start": r"\A", "end": r"\z", "word": r"\b"}


def re2(tree: Tree) -> str:
    """Return the pattern in RE2's syntax, which DuckDB runs.

    It is in brackets, because DuckDB 1.5 rewrites patterns that look like a LIKE, and loses edge tests in their middle.
    """
    return f"({_spell(tree)})"


def _spell(tree: Tree) -> str:
    match tree:
        case Characters(ranges):
            return f"[{''.join(_range(*pair) for pair in ranges)}]"
        case Sequence(parts):
            return "".join(map(_spell, parts))
        case Alternation(options):
            return f"(?:{'|'.join(map(_spell, options))})"
        case Repeat(part, least, most):
            return f"(?:{_spell(part)}){_times(least, most)}"
        case EdgeTest(kind):
            return _EDGES[kind]
        case _:
            assert_never(tree)


def _range(first: int, last: int) -> str:
    return rf"\x{{{first:x}}}" if first == last else rf"\x{{{first:x}}}-\x{{{last:x}}}"


def _times(least: int, most: int | None) -> str:
    if (least, most) == (0, None):
        return "*"
    return f"{{{least},{'' if most is None else most}}}"


class AutomatonState(NamedTuple):
    """A state: a character or an edge as in `needs` leads to `then`; if `needs` is None, both states are reached."""

    needs: Ranges | EdgeKind | None
    then: int
    other: int | None


_Context: TypeAlias = tuple[bool, bool, bool, bool]  # at the start, at the end, after and before a character of words


class CompiledPattern:
    """A pattern made ready for searching. Safe to share between threads."""

    def __init__(self, tree: Tree) -> None:
        """Build the automaton.

        Raises:
            BadPattern: the pattern needs too many states.
        """
        self._steps: list[AutomatonState] = [AutomatonState(None, 0, None)]  # the accepting state
        self._first = self._add(tree, 0)

    def search(self, text: str) -> bool:
        """Return True if the pattern matches anywhere in the text."""
        closures: dict[tuple[frozenset[int], _Context], frozenset[int]] = {}
        moves: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        states = frozenset((self._first,))
        for character, context in _places(text):
            closed = closures.get((states, context))
            if closed is None:
                closed = closures[states, context] = self._closure(states, context)
            if 0 in closed:
                return True
            if character is None:
                return False
            known = moves.get((closed, character))
            states = known if known is not None else self._move(closed, character)
            if known is None:
                moves[closed, character] = states
            if len(moves) + len(closures) > _KEPT_STEPS:
                moves.clear()
                closures.clear()
        return False

    def _closure(self, states: frozenset[int], context: _Context) -> frozenset[int]:
        """Return the states that are reachable without consuming a character."""
        seen, left = set(states), list(states)
        while left:
            state = left.pop()
            step = self._steps[state]
            if isinstance(step.needs, tuple) or (step.needs is not None and not _holds(step.needs, context)):
                continue
            for then in (step.then, step.other):
                if then is not None and then not in seen:
                    seen.add(then)
                    left.append(then)
        return frozenset(seen)

    def _move(self, states: frozenset[int], character: str) -> frozenset[int]:
        code = ord(character)
        steps = (self._steps[state] for state in states)
        reached = {step.then for step in steps if isinstance(step.needs, tuple) and includes(step.needs, code)}
        return frozenset(reached | {self._first})

    def _new(self, step: AutomatonState) -> int:
        if len(self._steps) >= MAX_STATES:
            raise BadPattern(f"is too large: repetitions written out, it has more than {MAX_STATES} parts")
        self._steps.append(step)
        return len(self._steps) - 1

    def _add(self, tree: Tree, then: int) -> int:
        """Add the states of a tree, which lead to the state `then`; return the first of them."""
        match tree:
            case Characters(ranges):
                return self._new(AutomatonState(ranges, then, None))
            case EdgeTest(kind):
                return self._new(AutomatonState(kind, then, None))
            case Sequence(parts):
                for part in reversed(parts):
                    then = self._add(part, then)
                return then
            case Alternation(options):
                first = self._add(options[-1], then)
                for option in reversed(options[:-1]):
                    first = self._new(AutomatonState(None, self._add(option, then), first))
                return first
            case Repeat():
                return self._add_repeat(tree, then)
            case _:
                assert_never(tree)

    def _add_repeat(self, tree: Repeat, then: int) -> int:
        if tree.most is None:
            loop = self._new(AutomatonState(None, then, None))
            self._steps[loop] = AutomatonState(None, self._add(tree.part, loop), then)
            first = loop
        else:
            first = then
            for _ in range(tree.most - tree.least):
                first = self._new(AutomatonState(None, self._add(tree.part, first), then))
        for _ in range(tree.least):
            first = self._add(tree.part, first)
        return first


def _places(text: str) -> Iterator[tuple[str | None, _Context]]:
    """Yield each place between characters with the character after it; None after the last."""
    before = False
    for at, character in enumerate(text):
        after = includes(WORD, ord(character))
        yield character, (at == 0, False, before, after)
        before = after
    yield None, (not text, True, before, False)


def _holds(kind: EdgeKind, context: _Context) -> bool:
    at_start, at_end, before, after = context
    match kind:
        case "start":
            return at_start
        case "end":
            return at_end
        case "word":
            return before is not after
        case _:
            assert_never(kind)
