"""Typed access to the members of a tree that collects all problems instead of stopping at the first."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from rules.errors import Problem
from rules.tree import ValueNode
from storage.records import JsonValue

_SHOWN_CHARACTERS: Final = 60


class Members:
    """Reader of the members of a mapping; `unknown` reports those that were not read.

    A member that cannot be used is noted as a problem, and read as if it were absent.

    """

    def __init__(self, node: ValueNode, place: str, problems: list[Problem]) -> None:
        self.problems = problems
        self.line = node.line
        self._place = place
        self._members = dict(node.value) if isinstance(node.value, Mapping) else {}
        self._known: list[str] = []
        if not isinstance(node.value, Mapping):
            problems.append(Problem(line=node.line, key=place, message=f"must be {A_MAPPING} (got {shown(node)})"))

    def place(self, key: str) -> str:
        """Return the full name of a member."""
        return f"{self._place}.{key}" if self._place else key

    def take(self, key: str) -> ValueNode | None:
        """Return the member, or None if it is absent or null."""
        self._known.append(key)
        node = self._members.pop(key, None)
        return None if node is None or (node.value is None and node.text is not None) else node

    def wrong(self, key: str, message: str, node: ValueNode | None = None) -> None:
        """Note a problem with a member, or with one that is missing."""
        self.problems.append(
            Problem(line=self.line if node is None else node.line, key=self.place(key), message=message)
        )

    def text(self, key: str, *, most: int) -> str | None:
        """Read a text that is not blank."""
        node = self.take(key)
        if node is None:
            return None
        if not isinstance(node.value, str):
            self.wrong(key, f"must be a text; put quotes around it (got {shown(node)})", node)
        elif not node.value.strip() or len(node.value) > most:
            self.wrong(key, f"must have 1 to {most} characters that are not all blank (got {shown(node)})", node)
        else:
            return node.value
        return None

    def choice(self, key: str, choices: Iterable[str]) -> str | None:
        """Read one of a few texts."""
        node = self.take(key)
        listed = list(choices)
        if node is None or node.value in listed:
            return None if node is None else str(node.value)
        self.wrong(key, f"must be one of {', '.join(listed)} (got {shown(node)})", node)
        return None

    def flag(self, key: str) -> bool | None:
        """Read a boolean."""
        node = self.take(key)
        if node is None or isinstance(node.value, bool):
            return None if node is None else bool(node.value)
        self.wrong(key, f"must be true or false (got {shown(node)})", node)
        return None

    def number(self, key: str, *, least: float, most: float, whole: bool = False) -> float | None:
        """Read a number within bounds."""
        node = self.take(key)
        if node is None:
            return None
        value = node.value
        fits = isinstance(value, int) if whole else isinstance(value, int | float)
        if isinstance(value, int | float) and fits and not isinstance(value, bool) and least <= value <= most:
            return value if whole else float(value)
        kind = "a whole number" if whole else "a number"
        self.wrong(key, f"must be {kind} from {least:.16g} to {most:.16g} (got {shown(node)})", node)
        return None

    def mapping(self, key: str) -> dict[str, JsonValue] | None:
        """Read a mapping with any content."""
        node = self.take(key)
        plain = None if node is None else node.plain()
        if node is None or isinstance(plain, dict):
            return plain if isinstance(plain, dict) else None
        self.wrong(key, f"must be {A_MAPPING} (got {shown(node)})", node)
        return None

    def unknown(self) -> None:
        """Note each member that was not read as a problem."""
        for key, node in self._members.items():
            close = difflib.get_close_matches(key, self._known, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            self.wrong(key[:_SHOWN_CHARACTERS], f"unknown key; {meant}there are: {', '.join(self._known)}", node)


def shown(node: ValueNode) -> str:
    """Quote a value for a problem's message."""
    match node.value:
        case tuple():
            return "a list"
        case Mapping():
            return "a mapping"
        case str() as text:
            return repr(text) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!r}…"
        case _:
            return (node.text or "nothing")[:_SHOWN_CHARACTERS]


A_MAPPING: Final = "a mapping, `key: value`"
