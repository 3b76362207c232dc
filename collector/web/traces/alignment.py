"""Two traces side by side: the pairs of corresponding spans, and their differences.

Children of paired spans are paired in order: first those with the same name and type, then the others by type alone,
except tool calls, since another tool is another step. The running time is linear in the number of spans.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from collector.span_tree import in_tree_order
from storage.query.outline import OutlineSpan

State: TypeAlias = Literal["same", "changed", "added", "missing"]
TextDigests: TypeAlias = Mapping[str, tuple[int, int]]
"""Digests of the input and the output of each span."""

_TOP: Final = -1
_Pair: TypeAlias = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedSpan:
    """A span of either trace, or of both, at its place in the merged tree."""

    before: OutlineSpan | None
    after: OutlineSpan | None
    depth: int
    above: int | None  # index of the row of its parent
    changes: tuple[str, ...] = ()  # the differences, if the span is in both traces

    @property
    def state(self) -> State:
        """Return the change from the one trace to the other."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "missing"
        return "changed" if self.changes else "same"

    @property
    def span(self) -> OutlineSpan:
        """Return the span of the second trace, else that of the first."""
        one = self.after or self.before
        if one is None:
            raise AssertionError  # at least one is set
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSide:
    """One of the traces."""

    spans: Sequence[OutlineSpan]
    digests: TextDigests


def align(before: TraceSide, after: TraceSide) -> list[AlignedSpan]:
    """Align the spans of both traces; return the rows of the merged tree, parents first."""
    trees = _Tree(before.spans), _Tree(after.spans)
    rows: list[AlignedSpan] = []
    waiting: list[tuple[_Pair, int, int | None]] = [(pair, 0, None) for pair in _paired(trees, (_TOP, _TOP))[::-1]]
    while waiting:
        (one, other), depth, above = waiting.pop()
        was = None if one is None else trees[0].spans[one]
        now = None if other is None else trees[1].spans[other]
        changes = () if was is None or now is None else tuple(_changes(was, now, before.digests, after.digests))
        place = len(rows)
        rows.append(AlignedSpan(before=was, after=now, depth=depth, above=above, changes=changes))
        waiting += [(pair, depth + 1, place) for pair in _paired(trees, (one, other))[::-1]]
    return rows


def differing(rows: Sequence[AlignedSpan]) -> list[int]:
    """Return the indexes of rows that differ, and of their ancestors."""
    places: set[int] = set()
    for place, row in enumerate(rows):
        if row.state == "same":
            continue
        at: int | None = place
        while at is not None and at not in places:
            places.add(at)
            at = rows[at].above
    return sorted(places)


class _Tree:
    """The spans of a trace in the order of their tree, and their children."""

    def __init__(self, spans: Sequence[OutlineSpan]) -> None:
        nodes = list(in_tree_order(spans))
        self.spans = [node.span for node in nodes]
        self.below: dict[int, list[int]] = defaultdict(list)
        path: list[int] = []
        for place, node in enumerate(nodes):
            del path[node.depth :]
            self.below[path[-1] if path else _TOP].append(place)
            path.append(place)


def _paired(trees: tuple[_Tree, _Tree], above: _Pair) -> list[_Pair]:
    """Pair the children of two matched spans, or list the children of an unmatched one, in the order of both."""
    one, other = ([] if place is None else tree.below.get(place, []) for tree, place in zip(trees, above, strict=True))
    matched: dict[int, int] = {}
    _match(trees, one, other, matched, by_name=True)
    taken = set(matched.values())
    left = [place for place in one if place not in matched]
    _match(trees, left, [place for place in other if place not in taken], matched, by_name=False)
    return list(_woven(one, other, matched))


def _match(
    trees: tuple[_Tree, _Tree], one: Iterable[int], other: Iterable[int], matched: dict[int, int], *, by_name: bool
) -> None:
    """Add pairs of children to `matched`: the nth child of a kind in `one`, and the nth of this kind in `other`."""
    candidates: dict[Hashable, deque[int]] = defaultdict(deque)
    for place in other:
        candidates[_kind(trees[1].spans[place], by_name=by_name)].append(place)
    for place in one:
        kind = _kind(trees[0].spans[place], by_name=by_name)
        if kind is not None and candidates[kind]:
            matched[place] = candidates[kind].popleft()


def _kind(span: OutlineSpan, *, by_name: bool) -> Hashable:
    if by_name:
        return (span.name, span.span_type, span.tool_name)
    return None if span.span_type == "tool" else span.span_type


def _woven(one: Sequence[int], other: Sequence[int], matched: Mapping[int, int]) -> Iterable[_Pair]:
    """Merge both lists; unmatched spans of `other` come before the next matched span."""
    places = {place: number for number, place in enumerate(other)}
    taken = set(matched.values())
    woven = 0
    for place in one:
        match = matched.get(place)
        if match is not None:
            for extra in other[woven : places[match]]:
                if extra not in taken:
                    yield (None, extra)
            woven = max(woven, places[match])
        yield (place, match)
    for extra in other[woven:]:
        if extra not in taken:
            yield (None, extra)


def _changes(was: OutlineSpan, now: OutlineSpan, digests: TextDigests, digests_now: TextDigests) -> Iterable[str]:
    if was.name != now.name:
        yield "name"
    if was.is_error != now.is_error:
        yield "error"
    if was.model != now.model:
        yield "model"
    pairs = digests.get(was.span_id), digests_now.get(now.span_id)
    if pairs[0] is not None and pairs[1] is not None:
        for number, name in enumerate(("input", "output")):
            if pairs[0][number] != pairs[1][number]:
                yield name
