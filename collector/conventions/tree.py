"""The spans of a trace as a forest: cycles are cut, and orphans are roots only if no span is without a parent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collector.conventions.member import TraceMember

_MAX_LEVELS = 64  # a guess: spans to search above one


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Spans by id, their parents within the trace, and their reading order."""

    spans: dict[str, TraceMember]  # by start, each id once
    parents: dict[str, str | None]
    depths: dict[str, int]

    def above(self, span_id: str, limit: int | None = None) -> Iterator[str]:
        """Yield the ancestors of a span, nearest first, `limit` of them at most."""
        parent = self.parents.get(span_id)
        count = 0
        while parent is not None and (limit is None or count < limit):
            yield parent
            parent = self.parents[parent]
            count += 1

    def is_below(self, span_id: str, above: str) -> bool:
        """Return True if a span lies below another one, within the searched levels."""
        return above in self.above(span_id, _MAX_LEVELS)

    def roots(self) -> list[TraceMember]:
        """List the spans without a parent; if there are none, those whose parent is missing."""
        tops = [span for span in self.spans.values() if self.parents[span.span_id] is None]
        return [span for span in tops if span.parent_span_id is None] or tops

    def root(self) -> TraceMember | None:
        """Return the first span without a parent; else the first whose parent is missing."""
        return next(iter(self.roots()), None)


def tree_of(spans: Sequence[TraceMember]) -> Tree:
    """Build the forest of some spans; of two with one id the first is used."""
    known: dict[str, TraceMember] = {}
    for span in sorted(spans, key=lambda span: (span.start_ns, span.span_id)):
        known.setdefault(span.span_id, span)
    parents = {
        span_id: span.parent_span_id if span.parent_span_id in known else None for span_id, span in known.items()
    }
    depths: dict[str, int] = {}
    for span_id in known:
        _descend(span_id, parents, depths)
    return Tree(spans=known, parents=parents, depths=depths)


def _descend(span_id: str, parents: dict[str, str | None], depths: dict[str, int]) -> None:
    """Store the depths of a span and its ancestors; cut the link that closes a cycle."""
    path: list[str] = []
    on_path: set[str] = set()
    at: str | None = span_id
    while at is not None and at not in depths:
        if at in on_path:
            parents[path[-1]] = None
            break
        path.append(at)
        on_path.add(at)
        at = parents[at]
    depth = depths[at] if at is not None and at in depths else -1
    for one in reversed(path):
        depth = 0 if parents[one] is None else depth + 1
        depths[one] = depth
