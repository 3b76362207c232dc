"""Trees of lists and maps from flattened attributes, such as `llm.input_messages.0.message.role`.

The shape of a tree depends on the keys alone, so it is built once for all spans with the same keys: `planted` builds
it with the positions of values as its leaves, and `grown` puts the values of a span in their place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from collector.conventions.values import clean
from storage.records import AttributeValue, JsonValue


@dataclass(frozen=True, slots=True)
class Branches:
    """A map: its keys, and the node below each of them."""

    below: "tuple[tuple[str, Node], ...]"


Node: TypeAlias = "int | Branches | list[Node]"
"""The position of a value in `NumberedValues`; a map; a list."""


class NumberedValues(Protocol):
    """The attribute values of a span, by their position in the plan."""

    def __getitem__(self, at: int, /) -> AttributeValue:
        """Return one value, with lists and maps cleaned."""


def planted(places: Sequence[tuple[Sequence[str], int]]) -> Node:
    """Build the tree from the steps of each key and position of its value; if keys conflict, the first counts."""
    tree: dict[str, object] = {}
    for steps, at in places:
        node = tree
        for step in steps[:-1]:
            below = node.setdefault(step, {})
            if not isinstance(below, dict):
                break
            node = below
        else:
            node.setdefault(steps[-1], at)
    return _node(tree)


def grown(node: Node, values: NumberedValues) -> JsonValue:
    """Fill the tree with its values."""
    kind = type(node)
    if kind is Branches:
        return {key: grown(below, values) for key, below in node.below}  # type: ignore[union-attr] # it is one
    if kind is list:
        return [grown(below, values) for below in node]  # type: ignore[union-attr] # it is one
    value = values[node]  # type: ignore[index] # the number of a value
    return value if isinstance(value, str | dict | list) else clean(value)  # type: ignore[return-value] # clean, so JSON


def places_in(node: Node) -> Iterator[int]:
    """Yield the numbers of all values in a tree."""
    match node:
        case int():
            yield node
        case Branches():
            for _, below in node.below:
                yield from places_in(below)
        case _:
            for below in node:
                yield from places_in(below)


def _node(tree: object) -> Node:
    """Make a node; a map whose keys are all numbers is a list in their order."""
    if not isinstance(tree, dict):
        return int(str(tree))
    if tree and all(key.isdecimal() and key.isascii() for key in tree):
        return [_node(tree[key]) for key in sorted(tree, key=int)]
    return Branches(tuple((key, _node(below)) for key, below in tree.items()))
