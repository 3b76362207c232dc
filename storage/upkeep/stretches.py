"""Stretches of a table around deleted rows that are rewritten, so that none of these are left."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.engine.database import ROW_GROUP_ROWS

SMALL: Final = 4 * ROW_GROUP_ROWS
"""A table up to this length is rewritten as a whole, which takes about a second of the largest one."""

_BEFORE, _AFTER = 2 * ROW_GROUP_ROWS - 1, ROW_GROUP_ROWS
"""The rows rewritten around deleted rows: those that may be in the same row group, and the previous row group. DuckDB
may have written both with one checkpoint, into one block, when the later one was still small: in three trials with
100,000 rows in small commits up to 1 % of all rows had an older copy in a block of the row group before theirs, none
others."""

_NEAR: Final = 16 * ROW_GROUP_ROWS
"""Holes that are not farther apart are rewritten together, with the rows between them: each stretch leaves a part of a
row group with holes at both of its ends. With 5 million spans and 27 holes among the last 150 row groups, 66 groups
were written anew and 48 had holes then; with this, 129 and 39."""


class RowRange(NamedTuple):
    """Places of a table, the last one excluded."""

    first: int
    end: int


def around(holes: Sequence[RowRange], length: int, *, is_last: bool) -> list[RowRange]:
    """Return the stretches with all row groups that have holes, and one before each; of a small table all or nothing.

    Unless `is_last`, the rows behind the last hole of a stretch stay, and are left for the next call: rows that came
    later may be about to be deleted, and would be at the end of the table then.

    """
    if length <= SMALL:
        return [RowRange(0, length)] if holes or (is_last and length) else []
    after, near = (_AFTER, _NEAR) if is_last else (0, ROW_GROUP_ROWS)
    stretches: list[RowRange] = []
    for hole in holes:
        wide = RowRange(max(0, hole.first - _BEFORE), min(length, hole.end + after))
        if stretches and stretches[-1].first - wide.end <= near:
            wide = RowRange(wide.first, stretches.pop().end)
        stretches.append(wide)
    return stretches


def missing(rows: NDArray[np.int64], within: RowRange) -> list[RowRange]:
    """Return the stretches without rows, the last one first."""
    around = np.concatenate([[within.first - 1], np.sort(rows), [within.end]])
    gaps = np.nonzero(np.diff(around) > 1)[0][::-1]
    return [RowRange(int(around[gap]) + 1, int(around[gap + 1])) for gap in gaps]


def count_cells(holes: Iterable[RowRange]) -> int:
    """Count the row groups that the holes are in, roughly."""
    cells = {
        cell for hole in holes for cell in range(hole.first // ROW_GROUP_ROWS, (hole.end - 1) // ROW_GROUP_ROWS + 1)
    }
    return len(cells)


def count_groups(stretches: Iterable[RowRange]) -> int:
    """Count the row groups that these fill."""
    return sum(-(-(each.end - each.first) // ROW_GROUP_ROWS) for each in stretches)
