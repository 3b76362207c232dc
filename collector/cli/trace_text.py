"""A trace as a tree of its spans, as text."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text

from collector.api.base.times import optional_ns
from collector.api.responses.traces import SpanDocument, SpanEventDocument, TraceDocument
from collector.cli.explanation_text import judged_lines
from collector.cli.text import crop, fold, json_text, widest
from collector.conventions import names
from collector.escaping import one_line
from collector.span_tree import Placement, SpanNode, in_tree_order
from collector.units import count_text, duration_text, instant_text, offset_text, usd_text

TEXT_LINES = 4
"""Maximum number of lines shown of an input, an output or a message. A guess: a question fits, a document does not."""
MAX_ITEMS = 8
"""Maximum number of events, and of links, shown of a span. A guess: a streaming span may have an event per token."""
MOST_INDENTED = 16
"""Maximum number of indented levels; below them the depth is written as a number."""

_KIND_CELLS = len("unspecified")
_TIME_CELLS = len("59 min 59 s")
_COLUMNS_CELLS = _KIND_CELLS + 2 * _TIME_CELLS + len("ERROR") + 8
_NAME_CELLS = 70
_NAME_CHARS = 4 * _NAME_CELLS
_LEAST_CELLS = 24
_LABEL_CELLS = len("output  ")
_STATUS_STYLES = {"ERROR": "bold red", "OK": "green"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guides:
    """Strings that draw the tree, each three cells wide, and the mark of a cut text."""

    branch: str
    last: str
    through: str
    ellipsis: str


UNICODE = Guides(branch="├─ ", last="└─ ", through="│  ", ellipsis="…")
ASCII = Guides(branch="|- ", last="`- ", through="|  ", ellipsis="...")
_BLANK = "   "


def trace_text(trace: TraceDocument, *, width: int, guides: Guides = UNICODE) -> Iterator[Text]:
    """Yield the header of a trace, then each span exactly once."""
    yield _header(trace)
    starts = [span.start_ns for span in trace.spans if span.start_ns is not None]
    most = max(min(_NAME_CELLS, width - _COLUMNS_CELLS), _LEAST_CELLS)
    rows = list(_rows(in_tree_order(trace.spans), guides, min(most // 2 // len(_BLANK), MOST_INDENTED)))
    name_cells = max(min(widest([row.label for row in rows]), most), _LEAST_CELLS)
    page = _TreeLayout(width=width, name_cells=name_cells, start_ns=min(starts, default=None), guides=guides)
    yield page.titles()
    for row in rows:
        yield page.span(row)
    missing = trace.span_count - len(trace.spans)
    if missing > 0:
        yield Text(f"{count_text(missing, 'later span')} not shown: query them in SQL")


@dataclass(frozen=True, slots=True, kw_only=True)
class _TreeRow:
    node: SpanNode[SpanDocument]
    label: str  # guides and name
    indent: str  # what stands left of the texts under the name


def _rows(nodes: Iterator[SpanNode[SpanDocument]], guides: Guides, indented: int) -> Iterator[_TreeRow]:
    # In depth-first order, one stack of prefixes suffices for all spans.
    prefixes = [""]
    for node in nodes:
        depth = min(node.depth, indented)
        del prefixes[depth + 1 :]
        above = prefixes[depth]
        own = "" if node.depth == 0 else guides.last if node.last else guides.branch
        below = above + ("" if node.depth == 0 else _BLANK if node.last else guides.through)
        if node.depth < indented:
            prefixes.append(below)
        deep = f"({node.depth}) " if node.depth > indented else ""
        indent = below + (guides.through if node.has_children else _BLANK)
        yield _TreeRow(node=node, label=f"{above}{own}{deep}{one_line(node.span.name[:_NAME_CHARS])}", indent=indent)


def _header(trace: TraceDocument) -> Text:
    text = Text()
    text.append(f"trace {one_line(trace.trace_id)}\n", style="bold")
    errors = count_text(trace.error_count, "error")
    text.append_text(_pairs(("project", trace.project), ("service", trace.service_name)))
    text.append(f"{instant_text(optional_ns(trace.start_time))} UTC, {duration_text(trace.duration_ms)}, ")
    text.append(f"{count_text(trace.span_count, 'span')}, ")
    text.append(errors, style="bold red" if trace.error_count else "")
    text.append("\n")
    usage = usage_text(trace.input_tokens, trace.output_tokens)
    cost = "" if trace.cost_usd is None else usd_text(float(trace.cost_usd))
    pairs = (
        ("session", trace.session_id),
        ("user", trace.user_id),
        ("tokens", usage),
        ("cost", cost),
        ("finish reason", trace.finish_reason),
    )
    known = [(name, value) for name, value in pairs if value]
    if known:
        text.append_text(_pairs(*known)[:-2])
        text.append("\n")
    hint = names.capture_hint(note for span in trace.spans for note in span.notes)
    if hint is not None:
        text.append("inputs or outputs of models were not captured", style="yellow")
        text.append(f"{': ' if hint else ''}{one_line(hint)}\n")
    for line, style in judged_lines(trace):
        text.append("judged ", style="dim")
        text.append(f"{one_line(line)}\n", style=style)
    return text


def usage_text(input_tokens: int | None, output_tokens: int | None) -> str:
    """Return tokens in and out; empty if neither is known."""
    counts = ((input_tokens, "in"), (output_tokens, "out"))
    return " + ".join(f"{count:,} {way}" for count, way in counts if count is not None)


def _pairs(*pairs: tuple[str, str]) -> Text:
    text = Text()
    for name, value in pairs:
        text.append(f"{name} ", style="dim")
        text.append(f"{one_line(value) or '-'}, ")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _TreeLayout:
    """Layout of all spans of a trace."""

    width: int
    name_cells: int
    start_ns: int | None
    guides: Guides

    def titles(self) -> Text:
        """Return the heads of the columns."""
        return Text(self._name("SPAN") + _columns("TYPE", "DURATION", "START") + "STATUS", style="dim")

    def span(self, row: _TreeRow) -> Text:
        """Return the line of a span, and its texts, events and links below it."""
        span = row.node.span
        text = Text()
        text.append(self._name(row.label), style="" if row.node.depth else "bold")
        text.append(
            _columns(
                one_line(span.kind.lower() if span.span_type == "other" else span.span_type),
                "unended" if span.duration_ms is None else duration_text(span.duration_ms),
                offset_text(self.start_ns, span.start_ns),
            )
        )
        text.append(one_line(span.status_code), style=_STATUS_STYLES.get(span.status_code, "dim"))
        for block in self._blocks(row.node):
            self._append_block(text, row.indent, block)
        return text

    def _name(self, label: str) -> str:
        shown = crop(label, self.name_cells, self.guides.ellipsis)
        return shown + " " * (self.name_cells - widest([shown]))

    def _blocks(self, node: SpanNode[SpanDocument]) -> "Iterator[_Block]":
        span = node.span
        note = _note(node)
        if note:
            yield _Block(label="note", text=note, style="yellow")
        if span.model:
            usage = usage_text(span.input_tokens, span.output_tokens)
            reason = span.finish_reason and f"finish reason {span.finish_reason}"
            yield _Block(label="model", text=", ".join(filter(None, (span.model, usage, reason))))
        if span.input is not None:
            yield _Block(label="input", text=span.input)
        if span.output is not None:
            yield _Block(label="output", text=span.output)
        exceptions = [_event_text(event) for event in span.events if event.name == names.EXCEPTION_EVENT]
        if span.status_message and span.status_message not in exceptions:
            failed = span.status_code == "ERROR"
            yield _Block(label="error" if failed else "status", text=span.status_message, style="red" if failed else "")
        for line, style in judged_lines(span):
            yield _Block(label="judged", text=line, style=style)
        yield from self._events(span)
        yield from _links(span)

    def _events(self, span: SpanDocument) -> "Iterator[_Block]":
        for event in span.events[:MAX_ITEMS]:
            failed = event.name == names.EXCEPTION_EVENT
            when = offset_text(self.start_ns, optional_ns(event.time))
            text = " ".join(filter(None, (event.name, when, _event_text(event))))
            yield _Block(label="event", text=text, style="red" if failed else "")
        yield from _more(len(span.events), "event")

    def _append_block(self, text: Text, indent: str, block: "_Block") -> None:
        cells = max(self.width - len(indent) - _LABEL_CELLS, _LEAST_CELLS)
        folded = fold(block.text.strip(), width=cells, lines=TEXT_LINES)
        label = f"{block.label:<{_LABEL_CELLS}}"
        for line in folded.lines:
            text.append(f"\n{indent}")
            text.append(label, style="dim")
            text.append(line, style=block.style)
            label = " " * _LABEL_CELLS
        if folded.omitted_chars:
            more = count_text(folded.omitted_chars, "more character")
            text.append(f"\n{indent}{label}{self.guides.ellipsis} {more}", style="dim")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    label: str
    text: str
    style: str = ""


def _columns(kind: str, duration: str, start: str) -> str:
    return f"  {kind:<{_KIND_CELLS}}  {duration:>{_TIME_CELLS}}  {start:>{_TIME_CELLS}}  "


def _note(node: SpanNode[SpanDocument]) -> str:
    match node.place:
        case Placement.ORPHAN:
            return f"its parent {node.span.parent_span_id} is not here"
        case Placement.CYCLE:
            return f"its parents lead back to itself; its parent is {node.span.parent_span_id}"
        case _:
            return ""


def _event_text(event: SpanEventDocument) -> str:
    # An exception as Python prints one; any other event by its attributes.
    if event.name != names.EXCEPTION_EVENT:
        return ", ".join(f"{key}={_value_text(value)}" for key, value in event.attributes.items())
    parts = (event.attributes.get(key) for key in (names.EXCEPTION_TYPE, names.EXCEPTION_MESSAGE))
    return ": ".join(str(part) for part in parts if part)


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else json_text(value, indent=None)


def _links(span: SpanDocument) -> Iterator[_Block]:
    for link in span.links[:MAX_ITEMS]:
        yield _Block(label="link", text=f"trace {link.trace_id} span {link.span_id}")
    yield from _more(len(span.links), "link")


def _more(count: int, noun: str) -> Iterator[_Block]:
    if count > MAX_ITEMS:
        yield _Block(label="", text=count_text(count - MAX_ITEMS, f"more {noun}"), style="dim")
