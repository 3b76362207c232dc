"""Pairing the elements of two lists: in order, or as many as possible in any order."""

from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from evaluators.errors import TooMuchToCompare
from storage.limit import Limit

MOST_COMPARISONS: Final = 4_000_000
_LIMIT: Final = Limit(value=MOST_COMPARISONS, unit="comparisons", remedy="expect fewer steps, or compare fewer calls")
"""Comparisons of two elements that one pairing may take: two seconds, at half a microsecond each."""

Matches: TypeAlias = Callable[[int, int], bool]
"""Predicate: an element of the one list, by its index, matches an element of the other."""


def longest_common(rows: int, columns: int, matches: Matches) -> list[tuple[int, int]]:
    """Return the pairs of a longest common subsequence, in order.

    If there are several, the walk back from the ends drops the last column rather than the last row.

    """
    shorter = min(rows, columns)
    head = next((index for index in range(shorter) if not matches(index, index)), shorter)
    left = shorter - head
    tail = next((index for index in range(left) if not matches(rows - 1 - index, columns - 1 - index)), left)
    middle = _walk_back(
        rows - head - tail, columns - head - tail, lambda row, column: matches(head + row, head + column)
    )
    return [
        *((index, index) for index in range(head)),
        *((head + row, head + column) for row, column in middle),
        *((rows - tail + index, columns - tail + index) for index in range(tail)),
    ]


def _walk_back(rows: int, columns: int, matches: Matches) -> list[tuple[int, int]]:
    if not rows or not columns:
        return []
    refuse_more(rows * columns)
    lengths = [[0] * (columns + 1)]
    for row in range(rows):
        above, line = lengths[-1], [0]
        for column in range(columns):
            line.append(above[column] + 1 if matches(row, column) else max(line[column], above[column + 1]))
        lengths.append(line)
    pairs = []
    row, column = rows, columns
    while row and column:
        if matches(row - 1, column - 1):
            row, column = row - 1, column - 1
            pairs.append((row, column))
        elif lengths[row - 1][column] > lengths[row][column - 1]:
            row -= 1
        else:
            column -= 1
    return pairs[::-1]


def refuse_more(comparisons: int) -> None:
    """Refuse comparisons that would take too long.

    Raises:
        TooMuchToCompare: more comparisons are needed than the limit.
    """
    if comparisons > MOST_COMPARISONS:
        raise TooMuchToCompare(f"{comparisons:,} comparisons are needed, which is more than {_LIMIT}")


def most_pairs(
    rows: int, columns: int, matches: Matches, start: Mapping[int, int] = MappingProxyType({})
) -> list[int | None]:
    """Return for each row its column, so that no column is used twice and as many rows as possible have one.

    `start` are pairs that are known to match. Then rows are served in order and take the first free column that
    matches; a later row may move an earlier one. A row of `start` is only compared if a later row may move it.
    """
    pairing = _Pairing(columns, matches, column_of=[start.get(row) for row in range(rows)])
    for row in range(rows):
        if pairing.column_of[row] is None:
            pairing.serve(row)
    return pairing.column_of


class _Pairing:
    """A pairing that grows by augmenting paths."""

    def __init__(self, columns: int, matches: Matches, column_of: list[int | None]) -> None:
        self.column_of = column_of
        self._columns = columns
        self._matches = matches
        self._row_of: dict[int, int] = {column: row for row, column in enumerate(column_of) if column is not None}
        self._edges: dict[int, list[int]] = {}
        self._compared = 0

    def serve(self, start: int) -> None:
        """Assign a column to one more row: a free one, else by moving others along the shortest alternating path."""
        self._count()
        for column in range(self._columns):
            if column not in self._row_of and self._matches(start, column):
                self.column_of[start], self._row_of[column] = column, start
                return
        parents: dict[int, int] = {}  # the row from which a column was reached
        waiting = deque([start])
        while waiting:
            row = waiting.popleft()
            for column in self._edges_of(row):
                if column in parents:
                    continue
                parents[column] = row
                holder = self._row_of.get(column)
                if holder is None:
                    self._shift(column, parents)
                    return
                waiting.append(holder)

    def _edges_of(self, row: int) -> list[int]:
        if row not in self._edges:
            self._count()
            self._edges[row] = [column for column in range(self._columns) if self._matches(row, column)]
        return self._edges[row]

    def _count(self) -> None:
        self._compared += self._columns
        refuse_more(self._compared)

    def _shift(self, free: int, parents: Mapping[int, int]) -> None:
        """Follow the path back to its start, and give each row the column that was reached from it."""
        column: int | None = free
        while column is not None:
            row = parents[column]
            self._row_of[column] = row
            column, self.column_of[row] = self.column_of[row], column
