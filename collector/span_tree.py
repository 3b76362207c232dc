"""Spans in the order of their tree, for any parent ids: every span once, no recursion."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

_FAR_FUTURE_NS = 1 << 64


class Spanlike(Protocol):
    """The facts about a span that a tree needs."""

    @property
    def span_id(self) -> str:
        """Return its id."""

    @property
    def parent_span_id(self) -> str | None:
        """Return the id of its parent, which need not be here."""

    @property
    def start_ns(self) -> int | None:
        """Return its start; None if unknown."""


AnySpan = TypeVar("AnySpan", bound=Spanlike)


class Placement(Enum):
    """Reason for the place of a span."""

    ROOT = auto()
    CHILD = auto()
    ORPHAN = auto()
    """The span names a parent that is not in the trace."""
    CYCLE = auto()
    """The chain of parents leads back to the span; the cycle was cut here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanNode(Generic[AnySpan]):
    """A span and its place in the tree."""

    span: AnySpan
    place: Placement
    depth: int  # 0 at the root level
    last: bool  # the span is the last of its siblings
    has_children: bool


def in_tree_order(spans: Sequence[AnySpan]) -> Iterator[SpanNode[AnySpan]]:
    """Yield spans depth first, siblings by start time; roots first, then orphans, then cycles.

    Of several spans with one id the first is the parent of those that name it.
    """
    forest = _Forest(spans)
    roots = [index for index, span in enumerate(spans) if not span.parent_span_id]
    orphans = [index for index, span in enumerate(spans) if span.parent_span_id and forest.parent(index) is None]
    yield from forest.walk(roots, Placement.ROOT)
    yield from forest.walk(orphans, Placement.ORPHAN)
    yield from forest.walk_cycles()


class _Forest(Generic[AnySpan]):
    """Spans by their index, since ids may repeat."""

    def __init__(self, spans: Sequence[AnySpan]) -> None:
        self._spans = spans
        self._seen = [False] * len(spans)
        self._by_id: dict[str, int] = {}
        for index, span in enumerate(spans):
            self._by_id.setdefault(span.span_id, index)
        self._children: dict[int, list[int]] = defaultdict(list)
        for index in range(len(spans)):
            parent = self.parent(index)
            if parent is not None:
                self._children[parent].append(index)

    def parent(self, index: int) -> int | None:
        """Return the index of a span's parent, if it is here."""
        parent_id = self._spans[index].parent_span_id
        return self._by_id.get(parent_id) if parent_id else None

    def walk(self, tops: Sequence[int], place: Placement) -> Iterator[SpanNode[AnySpan]]:
        """Yield the trees under `tops`, without the spans that were visited before."""
        stack = self._layer(tops, 0, place)
        while stack:
            index, depth, last, why = stack.pop()
            self._seen[index] = True
            below = self._layer(self._children[index], depth + 1, Placement.CHILD)
            yield SpanNode(span=self._spans[index], place=why, depth=depth, last=last, has_children=bool(below))
            stack.extend(below)

    def walk_cycles(self) -> Iterator[SpanNode[AnySpan]]:
        """Yield the spans that no root or orphan leads to, each cycle from its earliest span."""
        for index in self._by_start(range(len(self._spans))):
            if not self._seen[index]:
                yield from self.walk([self._by_start(self._cycle_above(index))[0]], Placement.CYCLE)

    def _layer(self, siblings: Sequence[int], depth: int, place: Placement) -> list[tuple[int, int, bool, Placement]]:
        backwards = self._by_start(index for index in siblings if not self._seen[index])[::-1]
        return [(index, depth, position == 0, place) for position, index in enumerate(backwards)]

    def _cycle_above(self, index: int) -> list[int]:
        """Return the spans of the cycle that the parents of `index` run into."""
        path: dict[int, None] = {}
        at: int | None = index
        while at is not None and at not in path:
            path[at] = None
            at = self.parent(at)
        chain = list(path)
        return chain[chain.index(at) :] if at is not None else [index]

    def _by_start(self, indices: "Iterator[int] | Sequence[int]") -> list[int]:
        return sorted(indices, key=self._start_ns)

    def _start_ns(self, index: int) -> int:
        start_ns = self._spans[index].start_ns
        return _FAR_FUTURE_NS if start_ns is None else start_ns
