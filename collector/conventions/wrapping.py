"""Which spans only repeat, or sum up, what spans below them tell."""

from collections.abc import Iterable

from collector.conventions.tree import Tree

_ACTORS = ("llm", "agent")


def repeating(tree: Tree, telling: Iterable[str]) -> set[str]:
    """The spans above those that tell something; a model's span does not repeat what its tools' models do.

    Linear in the size of the trace: each span is passed at most twice.
    """
    found: set[str] = set()
    passed: tuple[set[str], set[str]] = set(), set()
    for span_id in telling:
        is_within_tool = _is(tree, span_id, ("tool",))
        for above in tree.above(span_id):
            if above in passed[is_within_tool]:
                break
            passed[is_within_tool].add(above)
            if not (is_within_tool and _is(tree, above, ("llm",))):
                found.add(above)
            is_within_tool = is_within_tool or _is(tree, above, ("tool",))
    return found


def same_work(tree: Tree, span_id: str, limit: int) -> Iterable[str]:
    """The spans above one that are about the same work: up to the model or the agent that asked for it."""
    for above in tree.above(span_id, limit):
        if _is(tree, above, _ACTORS):
            return
        yield above


def _is(tree: Tree, span_id: str, kinds: tuple[str, ...]) -> bool:
    return tree.spans[span_id].span_type in kinds
