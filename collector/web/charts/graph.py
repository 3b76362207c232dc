"""Boxes in columns with lines between them: callers on the left, callees on the right."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from collector.escaping import one_line
from collector.web.charts.svg import element, figure, frame

_WIDE: Final = 190.0
_HIGH: Final = 46.0
_BETWEEN: Final = 90.0
_APART: Final = 18.0
_EDGE: Final = 12.0
_BELOW: Final = 14.0  # space below the boxes for lines back to a caller
_MOST_COLUMNS: Final = 9  # the style sheet has no class `wide-N` beyond
_CHARACTERS: Final = 25  # of a label that fit into a box


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A node; `kind` is its CSS class, which has a colour."""

    kind: str
    label: str
    detail: str  # below the label
    href: str
    is_bad: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An edge between two boxes."""

    source: int
    target: int
    label: str
    is_dashed: bool
    title: str


def boxes(nodes: Sequence[Box], lines: Sequence[Line], *, label: str, rows: Sequence[Sequence[object]]) -> Markup:
    """Draw the graph, with `rows` as a table behind it: the name, kind, calls, failures and callers of each node."""
    columns = _columns(len(nodes), lines)
    tallest = max((len(column) for column in columns), default=0)
    width = 2 * _EDGE + len(columns) * _WIDE + max(len(columns) - 1, 0) * _BETWEEN
    height = 2 * _EDGE + tallest * _HIGH + max(tallest - 1, 0) * _APART
    places: dict[int, tuple[float, float]] = {}
    for number, column in enumerate(columns):
        used = len(column) * _HIGH + (len(column) - 1) * _APART
        for at, box in enumerate(column):
            x = _EDGE + number * (_WIDE + _BETWEEN)
            places[box] = (x, (height - used) / 2 + at * (_HIGH + _APART))
    drawn = [
        *(_line(each, places) for each in lines),
        *(_box(each, places[number]) for number, each in enumerate(nodes)),
    ]
    picture = frame(*drawn, width=width, height=height + _BELOW, label=label, class_="graph", role="group")
    sized = element("div", picture, class_=f"graph-box wide-{min(len(columns), _MOST_COLUMNS)}")
    held = element("div", sized, class_="table graph-scroll", tabindex="0", role="region", aria_label=f"{label}, drawn")
    return figure(held, titles=("Who", "What", "Calls", "Failed", "Called by"), rows=rows, label=label)


def _columns(count: int, lines: Sequence[Line]) -> list[list[int]]:
    """Group boxes by their distance from a box without a caller; an unreached cycle starts at its first box."""
    below: dict[int, list[int]] = defaultdict(list)
    called = set()
    for line in lines:
        below[line.source].append(line.target)
        called.add(line.target)
    far: dict[int, int] = {}
    for start in [*(box for box in range(count) if box not in called), *range(count)]:
        if start in far:
            continue
        far[start] = 0
        waiting = deque([start])
        while waiting:
            box = waiting.popleft()
            for other in below[box]:
                if other not in far:
                    far[other] = far[box] + 1
                    waiting.append(other)
    columns: list[list[int]] = [[] for _ in range(max(far.values(), default=-1) + 1)]
    for box in range(count):
        columns[far[box]].append(box)
    return columns


def _box(box: Box, place: tuple[float, float]) -> Markup:
    x, y = place
    label = one_line(box.label)
    short = label if len(label) <= _CHARACTERS else f"{label[: _CHARACTERS - 1]}…"
    return element(
        "a",
        element("title", f"{label}: {box.detail}"),
        element("rect", x=x, y=y, width=_WIDE, height=_HIGH, rx=7, class_="box"),
        element("rect", x=x, y=y, width=5.0, height=_HIGH, rx=2, class_="mark"),
        element("text", short, x=x + 15, y=y + 19, class_="label"),
        element("text", box.detail, x=x + 15, y=y + 36, class_="bad" if box.is_bad else None),
        href=box.href,
        class_=f"node {box.kind}",
    )


def _line(line: Line, places: dict[int, tuple[float, float]]) -> Markup:
    (x, y), (to_x, to_y) = places[line.source], places[line.target]
    if to_x > x:
        begin, end = (x + _WIDE, y + _HIGH / 2), (to_x, to_y + _HIGH / 2)
        bend = (end[0] - begin[0]) / 2
        path = _curve(begin, (begin[0] + bend, begin[1]), (end[0] - bend, end[1]), end)
        at = ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2 - 4)
    else:  # to the left, or within a column: the curve passes below the boxes
        begin, end = (x + _WIDE / 2, y + _HIGH), (to_x + _WIDE / 2, to_y + (_HIGH if to_y <= y else 0.0))
        deep = max(begin[1], end[1]) + 16
        path = _curve(begin, (begin[0], deep), (end[0], deep), end)
        at = ((begin[0] + end[0]) / 2, deep - 4)
    drawn = [
        element("title", line.title),
        element("path", d=path, class_="edge dashed" if line.is_dashed else "edge"),
        element("circle", cx=end[0], cy=end[1], r=3, class_="end"),
    ]
    if line.label:
        drawn.append(element("text", line.label, x=at[0], y=at[1], text_anchor="middle", class_="count"))
    return element("g", *drawn)


def _curve(*points: tuple[float, float]) -> str:
    begin, *others = (f"{x:.1f},{y:.1f}" for x, y in points)
    return f"M{begin} C{' '.join(others)}"
