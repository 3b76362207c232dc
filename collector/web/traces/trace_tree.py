"""The span tree of a trace with its waterfall: the span to open first, a page of rows, and all rows as JSON."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from markupsafe import Markup

from collector.escaping import one_line
from collector.span_tree import Placement, SpanNode, in_tree_order
from collector.units import duration_text, usd_text
from collector.web.charts.waterfall import span_bar, time_axis
from collector.web.formatting import rough_count
from storage.judging.judgements import StoredEvaluation
from storage.query.outline import OutlineSpan

ROWS: Final = 300
"""Spans of a tree on one page. A guess: more than a screen holds, and the page of a long trace stays below 200 KiB."""

MOST_INDENTED: Final = 12
_NAME_CHARACTERS: Final = 60
_CALLS: Final = frozenset({"tool", "llm", "retriever", "embedding"})
_NOTES: Final = {Placement.ORPHAN: "parent span missing", Placement.CYCLE: "cycle of parent spans"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Counts of verdicts of one span, or of the trace."""

    passed: int = 0
    not_passed: int = 0
    broken: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """One line of the tree."""

    node: SpanNode[OutlineSpan]
    bar: Markup
    marks: Marks
    deepest: int  # level of the tree

    @property
    def depth(self) -> int:
        """Return its indentation; a tree of more levels than `MOST_INDENTED` is indented in smaller steps."""
        if self.deepest <= MOST_INDENTED:
            return self.node.depth
        return round(self.node.depth * MOST_INDENTED / self.deepest)

    @property
    def duration_ms(self) -> float | None:
        """Return its duration."""
        span = self.node.span
        return None if span.start_ns is None or span.end_ns is None else (span.end_ns - span.start_ns) / 1e6

    @property
    def tokens(self) -> int | None:
        """Return the tokens of input and output."""
        return tokens_of(self.node.span)

    @property
    def note(self) -> str:
        """Return the reason for the place of the span, if it is not obvious."""
        return _NOTES.get(self.node.place, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Links through spans with a problem in the order of the tree; they wrap around at the ends."""

    ids: Sequence[str]
    at: int | None  # index of the chosen span in `ids`, if it is one of them
    previous: str | None
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeView:
    """A window of the tree, its chosen span, and the walks through those with problems."""

    rows: Sequence[TreeRow]
    chosen: str | None
    begin: int
    total: int  # rows on all pages
    errors: Walk
    failing: Walk  # spans with a failed verdict
    axis: Markup
    lacks: str  # CSS classes of the columns that no span of the trace has a value for

    @property
    def before(self) -> int | None:
        """Return the start of the window before this one."""
        return max(self.begin - ROWS, 0) if self.begin else None

    @property
    def after(self) -> int | None:
        """Return the start of the next window."""
        return self.begin + ROWS if self.begin + ROWS < self.total else None


class SpanTree:
    """The spans of one trace in the order of their tree, with their verdicts."""

    def __init__(self, spans: Sequence[OutlineSpan], evaluations: Sequence[StoredEvaluation]) -> None:
        self.nodes: Sequence[SpanNode[OutlineSpan]] = list(in_tree_order(spans))
        self.marks = _marks(evaluations)
        self._scale = _Scale(spans)

    @cached_property
    def first(self) -> str | None:
        """Return the span to open: the first failed call of a tool or a model that has no failed call below it.

        Without one, return an error that has no error below it, then a failed verdict, then the first span.
        """
        errors = {node.span.span_id for node in self.nodes if node.span.is_error}
        calls = {node.span.span_id for node in self.nodes if node.span.is_error and node.span.span_type in _CALLS}
        for candidates in (calls - self._above(calls), errors - self._above(errors), errors, self._failing):
            for node in self.nodes:
                if node.span.span_id in candidates:
                    return node.span.span_id
        return self.nodes[0].span.span_id if self.nodes else None

    def view(
        self, *, chosen: str | None, begin: int | None, find: str = "", with_text: Collection[str] = ()
    ) -> TreeView:
        """Return the window that begins at `begin` or holds the chosen span.

        With `find`, the window has only the spans that match and those above them. Spans whose ids are in `with_text`
        match, too.
        """
        known = {node.span.span_id for node in self.nodes}
        hits = self._hits(find, with_text) if find else set()
        nodes = self._with_parents(hits) if find else self.nodes
        if chosen not in known:
            chosen = next((node.span.span_id for node in nodes if node.span.span_id in hits), self.first)
        places = {node.span.span_id: number for number, node in reversed(list(enumerate(nodes)))}
        if begin is None or not 0 <= begin < max(len(nodes), 1):
            begin = places.get(chosen or "", 0) // ROWS * ROWS
        return TreeView(
            rows=[self._row(node) for node in nodes[begin : begin + ROWS]],
            chosen=chosen,
            begin=begin,
            total=len(nodes),
            errors=self._walk({node.span.span_id for node in self.nodes if node.span.is_error}, chosen),
            failing=self._walk(self._failing, chosen),
            axis=time_axis(self._scale.length_ms),
            lacks=self._lacks,
        )

    def document(self) -> bytes:
        """Return the tree as JSON for the script that draws it: the length in ms, and a list for each span.

        Such a list holds: id, depth, whether spans are below it, name, type, model, tokens and cost. Then come start
        and duration in ms, each or null, the duration in words, and whether the span failed. Last are the numbers of
        verdicts that passed, that did not pass and that are broken, and a note.
        """
        rows = [self._listed(node) for node in self.nodes]
        document = {"lengthMs": self._scale.length_ms, "spans": rows}
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def _listed(self, node: SpanNode[OutlineSpan]) -> list[object]:
        span, row = node.span, self._row(node, drawn=False)
        tokens, start_ms = row.tokens, self._scale.start_ms(span)
        return [
            span.span_id,
            node.depth,
            node.has_children,
            _shown(span.name),
            span.span_type,
            _shown(span.model) if span.model else "",
            "" if tokens is None else rough_count(tokens),
            "" if span.cost_usd is None else usd_text(span.cost_usd),
            None if start_ms is None else round(start_ms, 3),
            None if row.duration_ms is None else round(row.duration_ms, 3),
            duration_text(row.duration_ms) if row.duration_ms is not None else "unended",
            span.is_error,
            row.marks.passed,
            row.marks.not_passed,
            row.marks.broken,
            row.note if span.is_read else "being read",
        ]

    def _row(self, node: SpanNode[OutlineSpan], *, drawn: bool = True) -> TreeRow:
        bar = self._scale.bar(node.span) if drawn else Markup()
        marks = self.marks.get(node.span.span_id, Marks())
        return TreeRow(node=node, bar=bar, marks=marks, deepest=self._deepest)

    @cached_property
    def _deepest(self) -> int:
        return max((node.depth for node in self.nodes), default=0)

    @property
    def _lacks(self) -> str:
        spans = [node.span for node in self.nodes]
        lacking = {"tokens": map(tokens_of, spans), "cost": (span.cost_usd for span in spans)}
        return " ".join(f"no-{name}" for name, values in lacking.items() if all(value is None for value in values))

    @property
    def _failing(self) -> set[str]:
        return {span_id for span_id, marks in self.marks.items() if span_id is not None and marks.not_passed}

    def _above(self, span_ids: set[str]) -> set[str]:
        """Return the spans above these."""
        parents = {node.span.span_id: node.span.parent_span_id for node in self.nodes}
        above: set[str] = set()
        for span_id in span_ids:
            parent = parents.get(span_id)
            while parent is not None and parent not in above and parent != span_id:
                above.add(parent)
                parent = parents.get(parent)
        return above

    def _hits(self, find: str, with_text: Collection[str]) -> set[str]:
        spans = (node.span for node in self.nodes)
        return {span.span_id for span in spans if span.span_id in with_text or _holds(span, find.lower())}

    def _with_parents(self, hits: set[str]) -> list[SpanNode[OutlineSpan]]:
        shown = hits | self._above(hits)
        return [node for node in self.nodes if node.span.span_id in shown]

    def _walk(self, stops: set[str], chosen: str | None) -> Walk:
        """Return the links through `stops` around the chosen span, which need not be one of them."""
        ids = [node.span.span_id for node in self.nodes if node.span.span_id in stops]
        if not ids:
            return Walk(ids=(), at=None, previous=None, next=None)
        places = {node.span.span_id: number for number, node in enumerate(self.nodes)}
        here = places.get(chosen or "", -1)
        later = [each for each in ids if places[each] > here]
        earlier = [each for each in ids if places[each] < here]
        return Walk(
            ids=ids,
            at=ids.index(chosen) if chosen in stops else None,
            previous=earlier[-1] if earlier else ids[-1],
            next=later[0] if later else ids[0],
        )


def tokens_of(span: OutlineSpan) -> int | None:
    """Return the tokens of input and output."""
    counts = [count for count in (span.input_tokens, span.output_tokens) if count is not None]
    return sum(counts) if counts else None


def _holds(span: OutlineSpan, text: str) -> bool:
    texts = (span.name, span.model, span.tool_name, span.span_type, span.span_id)
    return any(text in each.lower() for each in texts if each)


def _shown(text: str) -> str:
    line = one_line(" ".join(text[: 4 * _NAME_CHARACTERS].split())[:_NAME_CHARACTERS])
    return line if len(text) <= _NAME_CHARACTERS else f"{line}…"


class _Scale:
    """The time scale of a trace."""

    def __init__(self, spans: Sequence[OutlineSpan]) -> None:
        starts = [span.start_ns for span in spans if span.start_ns is not None]
        ends = [span.end_ns for span in spans if span.end_ns is not None]
        self._start_ns = min(starts, default=0)
        self._span_ns = max(max([*ends, *starts], default=0) - self._start_ns, 1)

    @property
    def length_ms(self) -> float:
        """Return the duration of the trace."""
        return self._span_ns / 1e6

    def start_ms(self, span: OutlineSpan) -> float | None:
        """Return the start of a span, relative to the first span."""
        return None if span.start_ns is None else (span.start_ns - self._start_ns) / 1e6

    def bar(self, span: OutlineSpan) -> Markup:
        """Draw the bar of a span."""
        if span.start_ns is None:
            return Markup()
        end = None if span.end_ns is None else (span.end_ns - self._start_ns) / self._span_ns
        return span_bar(start=(span.start_ns - self._start_ns) / self._span_ns, end=end, is_error=span.is_error)


def _marks(evaluations: Sequence[StoredEvaluation]) -> Mapping[str | None, Marks]:
    counts: dict[str | None, Counter[str]] = defaultdict(Counter)
    for each in evaluations:
        if not each.superseded:
            verdict = "passed" if each.passed else "not_passed"
            counts[each.span_id][verdict if each.outcome == "scored" else "broken"] += each.outcome != "skipped"
    return {
        span_id: Marks(passed=count["passed"], not_passed=count["not_passed"], broken=count["broken"])
        for span_id, count in counts.items()
    }
