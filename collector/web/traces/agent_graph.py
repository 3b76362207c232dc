"""The graph of a trace: its agents, models and tools, with calls and failures.

It takes time in proportion to the spans, and the size of the drawn graph is bounded.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from collector.span_tree import in_tree_order
from storage.query.outline import OutlineSpan

Kind: TypeAlias = Literal["agent", "llm", "tool", "retriever"]
Way: TypeAlias = Literal["call", "handoff"]

MOST_NODES: Final = 40
MOST_EDGES: Final = 120
"""Limits of a drawn graph: seldom called nodes of a kind become one node. Guesses: more than a person follows."""

_KINDS: Final[tuple[Kind, ...]] = ("agent", "llm", "tool", "retriever")
_HANDOFF: Final = re.compile(r"(?:hand[ _-]?off|transfer)[ _-]+to[ _:-]*(.*)", re.IGNORECASE | re.DOTALL)
_INVOKED: Final = "invoke_agent "
_LONGEST: Final = 200  # characters of a name that are read; a guess


@dataclass(slots=True)
class GraphNode:
    """An agent, a model, a tool or a retriever; or several seldom called ones of a kind."""

    kind: Kind
    label: str
    calls: int = 0
    errors: int = 0
    span_ids: list[str] = field(default_factory=list)  # the first two at most
    stands_for: int = 1  # the number of nodes that it merges


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """Calls or handovers between two nodes, with their number."""

    source: int
    target: int
    way: Way
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentGraph:
    """Nodes, and edges between their indexes."""

    nodes: Sequence[GraphNode]
    edges: Sequence[GraphEdge]
    hidden_edges: int  # number of edges beyond `MOST_EDGES`


_Key: TypeAlias = tuple[Kind, str]


def agent_graph(spans: Sequence[OutlineSpan]) -> AgentGraph:
    """Build the graph of the spans of one trace."""
    nodes: dict[_Key, GraphNode] = {}
    called: Counter[tuple[_Key, _Key, Way]] = Counter()
    handed: list[tuple[_Key, str, int]] = []  # the source, the name of the target, and the time
    started: list[tuple[int, _Key]] = []
    path: list[tuple[_Key | None, _Key | None]] = []  # for each ancestor the nearest node, and the nearest agent
    for node in in_tree_order(spans):
        del path[node.depth :]
        span, (caller, agent) = node.span, path[-1] if path else (None, None)
        to = _handoff(span)
        key = None if to is not None else _key(span)
        path.append((key or caller, key if key is not None and key[0] == "agent" else agent))
        if to is not None:
            if agent is not None:
                handed.append((agent, to, span.start_ns or 0))
            continue
        if key is None:
            continue
        _note(nodes.setdefault(key, GraphNode(*key)), span)
        if key[0] == "agent":
            started.append((span.start_ns or 0, key))
        if caller is not None and caller != key:
            called[caller, key, "call"] += 1
    for source, target in _handovers(handed, sorted(started)):
        called[source, target, "handoff"] += 1
    return _bounded(nodes, called)


def _note(node: GraphNode, span: OutlineSpan) -> None:
    node.calls += 1
    node.errors += span.is_error
    if len(node.span_ids) < 2:  # noqa: PLR2004 - one that is alone leads to its span
        node.span_ids.append(span.span_id)


def _key(span: OutlineSpan) -> _Key | None:
    """Return the node that a span is a call of; None if the graph does not show it."""
    name = span.name[:_LONGEST]
    match span.span_type:
        case "agent":
            return ("agent", name.removeprefix(_INVOKED) or name)
        case "llm":
            return ("llm", (span.model or name)[:_LONGEST])
        case "tool":
            return ("tool", (span.tool_name or name)[:_LONGEST])
        case "retriever":
            return ("retriever", name)
        case _:
            return None


def _handoff(span: OutlineSpan) -> str | None:
    """Return the agent that a span hands over to; None for any other span."""
    for name in (span.tool_name, span.name.removeprefix("execute_tool ")):
        match = _HANDOFF.fullmatch((name or "")[:_LONGEST])
        if match is not None:
            return match[1]
    return None


def _handovers(
    handed: Sequence[tuple[_Key, str, int]], started: Sequence[tuple[int, _Key]]
) -> Iterator[tuple[_Key, _Key]]:
    """Pair each handover with the agent of its name, else with the next agent that started."""
    by_name = {_plain(key[1]): key for _, key in started}
    began = [began_ns for began_ns, _ in started]
    others = [len(started)] * len(started)  # for each start the index of the next start of another agent
    for place in reversed(range(len(started) - 1)):
        is_same = started[place][1] == started[place + 1][1]
        others[place] = others[place + 1] if is_same else place + 1
    for source, name, at_ns in handed:
        target = by_name.get(_plain(name))
        if target is None:
            place = bisect_left(began, at_ns)
            if place < len(started) and started[place][1] == source:
                place = others[place]
            target = started[place][1] if place < len(started) else None
        if target is not None and target != source:
            yield (source, target)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def _bounded(nodes: Mapping[_Key, GraphNode], called: Mapping[tuple[_Key, _Key, Way], int]) -> AgentGraph:
    """Limit a graph to the nodes and edges that are drawn: the most called ones, agents first."""
    ranked = sorted(nodes, key=lambda key: (key[0] != "agent", -nodes[key].calls))
    room = MOST_NODES if len(ranked) <= MOST_NODES else MOST_NODES - len(_KINDS)
    kept = [key for key in nodes if key in set(ranked[:room])]
    places = {key: place for place, key in enumerate(kept)}
    shown = [nodes[key] for key in kept]
    rest: dict[Kind, list[_Key]] = defaultdict(list)
    for key in ranked[room:]:
        rest[key[0]].append(key)
    for kind, keys in rest.items():
        places |= dict.fromkeys(keys, len(shown))
        shown.append(_others(kind, [nodes[key] for key in keys]))
    edges: Counter[tuple[int, int, Way]] = Counter()
    for (source, target, way), count in called.items():
        if places[source] != places[target]:
            edges[places[source], places[target], way] += count
    listed = [GraphEdge(source=s, target=t, way=w, calls=count) for (s, t, w), count in edges.most_common(MOST_EDGES)]
    return AgentGraph(nodes=shown, edges=listed, hidden_edges=len(edges) - len(listed))


def _others(kind: Kind, hidden: Sequence[GraphNode]) -> GraphNode:
    """Merge seldom called nodes into one."""
    return GraphNode(
        kind=kind,
        label=f"{len(hidden):,} more",
        calls=sum(each.calls for each in hidden),
        errors=sum(each.errors for each in hidden),
        stands_for=len(hidden),
    )
