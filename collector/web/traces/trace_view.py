"""What the page of a trace shows: the tree beside the times, and one span with what it said and how it was judged."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from collector.span_tree import Placement, SpanNode, in_tree_order
from collector.web.pictures.waterfall import span_bar
from storage.judging.judgements import Judged, StoredDecision, StoredEvaluation
from storage.query.outline import Outline, SpanLine

ROWS: Final = 300
"""Spans of a tree on one page. A guess: more than a screen holds, and the page of a long trace stays below 200 KiB."""

MOST_INDENTED: Final = 12
_NOT_DONE: Final = ("filtered", "sampled_out", "undecided", "over_budget", "rule_disabled", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What became of one span, or of the trace, in short."""

    passed: int = 0
    not_passed: int = 0
    broken: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """One line of the tree."""

    node: SpanNode[SpanLine]
    bar: Markup
    marks: Marks

    @property
    def depth(self) -> int:
        """How far it is indented."""
        return min(self.node.depth, MOST_INDENTED)

    @property
    def duration_ms(self) -> float | None:
        """How long it took."""
        span = self.node.span
        return None if span.start_ns is None or span.end_ns is None else (span.end_ns - span.start_ns) / 1e6

    @property
    def note(self) -> str:
        """Why it stands where it does, if that is not plain."""
        return {Placement.ORPHAN: "its parent is not here", Placement.CYCLE: "its parents lead back to itself"}.get(
            self.node.place, ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeView:
    """A window of the tree, and which span is looked at."""

    rows: Sequence[TreeRow]
    chosen: str | None
    begin: int
    total: int

    @property
    def before(self) -> int | None:
        """Where the window before this one begins."""
        return max(self.begin - ROWS, 0) if self.begin else None

    @property
    def after(self) -> int | None:
        """Where the next one does."""
        return self.begin + ROWS if self.begin + ROWS < self.total else None


def tree_of(outline: Outline, judged: Judged, *, chosen: str | None, begin: int | None) -> TreeView:
    """The window that begins there, or that holds the chosen span; without one the first span is it."""
    nodes = list(in_tree_order(outline.spans))
    places = {node.span.span_id: number for number, node in reversed(list(enumerate(nodes)))}
    if chosen not in places:
        chosen = nodes[0].span.span_id if nodes else None
    if begin is None or not 0 <= begin < max(len(nodes), 1):
        begin = places.get(chosen or "", 0) // ROWS * ROWS
    marks = _marks(judged.evaluations)
    scale = _Scale(outline.spans)
    rows = [
        TreeRow(node=node, bar=scale.bar(node.span), marks=marks.get(node.span.span_id, Marks()))
        for node in nodes[begin : begin + ROWS]
    ]
    return TreeView(rows=rows, chosen=chosen, begin=begin, total=len(nodes))


class _Scale:
    """The time of a trace as shares of it."""

    def __init__(self, spans: Sequence[SpanLine]) -> None:
        starts = [span.start_ns for span in spans if span.start_ns is not None]
        ends = [span.end_ns for span in spans if span.end_ns is not None]
        self._start_ns = min(starts, default=0)
        self._span_ns = max(max([*ends, *starts], default=0) - self._start_ns, 1)

    def bar(self, span: SpanLine) -> Markup:
        """The bar of a span."""
        if span.start_ns is None:
            return Markup()
        end = None if span.end_ns is None else (span.end_ns - self._start_ns) / self._span_ns
        return span_bar(start=(span.start_ns - self._start_ns) / self._span_ns, end=end, is_error=span.is_error)


def _marks(evaluations: Sequence[StoredEvaluation]) -> Mapping[str | None, Marks]:
    counts: dict[str | None, Counter[str]] = defaultdict(Counter)
    for each in evaluations:
        if not each.superseded:
            came_of_it = "passed" if each.passed else "not_passed"
            counts[each.span_id][came_of_it if each.outcome == "scored" else "broken"] += each.outcome != "skipped"
    return {
        span_id: Marks(passed=count["passed"], not_passed=count["not_passed"], broken=count["broken"])
        for span_id, count in counts.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """What the rules made of one span, or of the trace: what came of it, and why something did not."""

    evaluations: Sequence[StoredEvaluation]
    not_done: Sequence[tuple[StoredDecision, str]]  # with a sentence
    to_be_done: Sequence[StoredDecision]


def verdicts_of(judged: Judged, span_id: str | None) -> Verdicts:
    """Those of a span, or with None those of the trace; what counts comes before what was superseded."""
    evaluations = [each for each in judged.evaluations if each.span_id == span_id]
    decisions = [each for each in judged.decisions if each.span_id == span_id]
    return Verdicts(
        evaluations=sorted(evaluations, key=lambda each: (each.superseded, each.rule, -each.job_id)),
        not_done=[(each, _why(each)) for each in decisions if each.decision in _NOT_DONE],
        to_be_done=[each for each in decisions if each.decision in {"waiting", "ready", "claimed"}],
    )


def _why(decision: StoredDecision) -> str:
    """Why a rule did not judge it."""
    match decision.decision:
        case "filtered":
            return f"not matched: {decision.clause}" if decision.clause else "not matched"
        case "sampled_out":
            return "left out by the sample"
        case "over_budget":
            return "the budget was used up"
        case "rule_disabled":
            return "the rule was switched off before it was judged"
        case "undecided":
            return "could not be decided, because of a fault of the server"
        case _:
            return decision.decision


def facts_of(told: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """What is known, in order."""
    return ((name, value) for name, value in told.items() if value not in (None, ""))
