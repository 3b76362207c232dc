"""Spans that only repeat, or sum up, the spans below them."""

from collections.abc import Iterable, Mapping
from typing import Final

from collector.conventions.names import LAST_STEP_SCOPES
from collector.conventions.tree import Tree

_ACTORS = ("llm", "agent")


def repeating(tree: Tree, telling: Iterable[str]) -> set[str]:
    """Return the ancestors of the spans with amounts (`telling`), which repeat these amounts.

    A model's span does not repeat those of models that its tools called. Linear in the size of the trace: each span is
    passed at most twice.
    """
    repeated: set[str] = set()
    passed: tuple[set[str], set[str]] = set(), set()
    for span_id in telling:
        is_within_tool = _is(tree, span_id, ("tool",))
        for above in tree.above(span_id):
            if above in passed[is_within_tool]:
                break
            passed[is_within_tool].add(above)
            if not (is_within_tool and _is(tree, above, ("llm",))):
                repeated.add(above)
            is_within_tool = is_within_tool or _is(tree, above, ("tool",))
    return repeated


def last_steps(tree: Tree, amounts: Mapping[str, float]) -> set[str]:
    """Return the model spans that have only the last of several calls, if the agent above them has more tokens.

    The model spans of an agent that has another agent below it are not among them.
    """
    below: dict[str, list[str]] = {}
    with_agents: set[str] = set()
    for span_id in amounts:
        span = tree.spans[span_id]
        if not (span.scope or "").startswith(LAST_STEP_SCOPES):
            continue
        agent = next((above for above in tree.above(span_id, _MAX_LEVELS) if _is(tree, above, ("agent",))), None)
        if agent is None:
            continue
        if span.span_type == "agent":
            with_agents.add(agent)
        elif agent in amounts and span.span_type == "llm":
            below.setdefault(agent, []).append(span_id)
    return {
        span_id
        for agent, models in below.items()
        if agent not in with_agents and sum(amounts[span_id] for span_id in models) < amounts[agent]
        for span_id in models
    }


_MAX_LEVELS: Final = 16  # a guess: spans between a model and its agent


def same_work(tree: Tree, span_id: str, limit: int) -> Iterable[str]:
    """Yield the spans above one that are about the same work: up to the model or the agent that requested it."""
    for above in tree.above(span_id, limit):
        if _is(tree, above, _ACTORS):
            return
        yield above


def _is(tree: Tree, span_id: str, kinds: tuple[str, ...]) -> bool:
    return tree.spans[span_id].span_type in kinds
