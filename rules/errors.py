"""Errors in the text of a rule."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem: its place, and how to fix it."""

    line: int  # from 1
    key: str  # as in `conditions[0].op`; empty for the text as a whole
    message: str
    parts: tuple[tuple[str, str], ...] = ()  # the keys below `key`, each with its part of `message`

    def __str__(self) -> str:
        place = f"line {self.line}"
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class BadRule(Exception):
    """A text that is not a rule; the message names everything that is wrong with the text."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(map(str, self.problems)))


class BadPattern(Exception):
    """A pattern that is refused; the message says how to write it."""
