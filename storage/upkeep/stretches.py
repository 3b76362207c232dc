"""Choice of the ranges of rows (stretches) to rewrite, so that few row groups with deleted rows are left."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.engine.database import ROW_GROUP_ROWS

SMALL: Final = 4 * ROW_GROUP_ROWS
"""A table up to this length is rewritten as a whole, which takes about a second for the table with the largest rows."""

_BEFORE, _AFTER = 2 * ROW_GROUP_ROWS - 1, ROW_GROUP_ROWS
"""Numbers of rows that are rewritten, too, before and after deleted rows: rows that may be in the same row group, and
the row group before. While a row group is small, a checkpoint may write it into one block with the previous one. In
three trials with 100,000 rows in small commits, up to 1 % of the rows had an older copy in a block of the row group
before theirs, and none in other blocks."""

_NEAR: Final = 16 * ROW_GROUP_ROWS
"""Holes that are at most this far apart are rewritten in one stretch, with the rows between them, because each stretch
leaves a row group with a hole at both of its ends. With 5 million spans and 27 holes among the last 150 row groups,
separate stretches rewrote 66 row groups and left 48 with holes; joined ones rewrote 129 and left 39."""


class RowRange(NamedTuple):
    """A range of row ids of a table, without `end`."""

    first: int
    end: int


def around(holes: Sequence[RowRange], length: int, *, is_last: bool) -> list[RowRange]:
    """Return stretches that contain all row groups with holes, and the row group before each.

    A small table is one stretch, or none. Unless `is_last`, a stretch ends with its last hole, and the rows after it
    are left for a later call: they may be deleted soon, and should not be moved to the end of the table before.

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
    """Return the ranges of row ids in `within` that are not in `rows`, the last one first."""
    around = np.concatenate([[within.first - 1], np.sort(rows), [within.end]])
    gaps = np.nonzero(np.diff(around) > 1)[0][::-1]
    return [RowRange(int(around[gap]) + 1, int(around[gap + 1])) for gap in gaps]


def count_cells(holes: Iterable[RowRange]) -> int:
    """Count the row groups with holes, as if each row group began at a multiple of its size."""
    cells = {
        cell for hole in holes for cell in range(hole.first // ROW_GROUP_ROWS, (hole.end - 1) // ROW_GROUP_ROWS + 1)
    }
    return len(cells)


def count_groups(stretches: Iterable[RowRange]) -> int:
    """Count the row groups that the rows of the stretches fill."""
    return sum(-(-(each.end - each.first) // ROW_GROUP_ROWS) for each in stretches)
