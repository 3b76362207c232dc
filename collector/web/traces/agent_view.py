"""The graph view of a trace: its agents, models and tools, each with a link to its spans."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from collector.escaping import one_line
from collector.web.charts.graph import Box, Line, boxes
from collector.web.charts.svg import element
from collector.web.traces.agent_graph import AgentGraph, GraphEdge, GraphNode, agent_graph
from collector.web.visitor import with_query
from storage.query.outline import Outline

_NAMES: Final[Mapping[str, str]] = {"agent": "agent", "llm": "model", "tool": "tool", "retriever": "retriever"}
_MANY: Final[Mapping[str, str]] = {"agent": "agents", "llm": "models", "tool": "tools", "retriever": "retrievers"}


def agents_of(outline: Outline, tenant: str | None) -> dict[str, object]:
    """Return the variables of the template."""
    graph = agent_graph(outline.spans)
    return {"graph": graph, "picture": _picture(graph, outline, tenant) if graph.nodes else None}


def _picture(graph: AgentGraph, outline: Outline, tenant: str | None) -> Markup:
    hrefs = [_href(each, outline.summary.trace_id, tenant) for each in graph.nodes]
    drawn = [
        Box(kind=each.kind, label=_label(each), detail=_summary(each), href=href, is_bad=each.errors > 0)
        for each, href in zip(graph.nodes, hrefs, strict=True)
    ]
    lines = [
        Line(
            source=each.source,
            target=each.target,
            label=f"{each.calls:,} times" if each.calls > 1 else "",
            is_dashed=each.way == "handoff",
            title=_title(graph, each),
        )
        for each in graph.edges
    ]
    return boxes(drawn, lines, label="Agents, models and tools, and who called whom", rows=_rows(graph, hrefs))


def _rows(graph: AgentGraph, hrefs: Sequence[str]) -> list[Sequence[object]]:
    callers: dict[int, list[str]] = defaultdict(list)
    for each in graph.edges:
        way = ", who handed over" if each.way == "handoff" else ""
        times = "once" if each.calls == 1 else f"{each.calls:,} times"
        callers[each.target].append(f"{one_line(_label(graph.nodes[each.source]))}{way}, {times}")
    return [
        (
            element("a", one_line(_label(each)), href=href),
            _NAMES[each.kind],
            f"{each.calls:,}",
            f"{each.errors:,}",
            "; ".join(callers[place]),
        )
        for place, (each, href) in enumerate(zip(graph.nodes, hrefs, strict=True))
    ]


def _label(node: GraphNode) -> str:
    return f"{node.label} {_MANY[node.kind]}" if node.stands_for > 1 else node.label


def _summary(node: GraphNode) -> str:
    calls = "1 call" if node.calls == 1 else f"{node.calls:,} calls"
    return f"{_NAMES[node.kind]} · {calls}" + (f" · {node.errors:,} failed" if node.errors else "")


def _title(graph: AgentGraph, edge: GraphEdge) -> str:
    way = "handed over to" if edge.way == "handoff" else "called"
    source, target = (one_line(_label(graph.nodes[place])) for place in (edge.source, edge.target))
    return f"{source} {way} {target}: {edge.calls:,}"


def _href(node: GraphNode, trace_id: str, tenant: str | None) -> str:
    path = f"/traces/{trace_id}"
    if len(node.span_ids) == 1 and node.calls == 1:
        return with_query(path, span=node.span_ids[0], tenant=tenant or None)
    return with_query(path, find=node.kind if node.stands_for > 1 else node.label, tenant=tenant or None)
