"""Charts for a line of text or a table cell: sparklines, rates with intervals, bars of evidence and of shares."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from collector.web.charts.svg import element, frame, points

_WIDTH, _HEIGHT, _EDGE = 96, 22, 2


def sparkline(
    values: Sequence[float | None], *, label: str, least: float | None = None, most: float | None = None
) -> Markup:
    """Draw values as a small line, oldest first; None leaves a gap.

    Put the numbers in words beside it, or into `label`.
    """
    known = [value for value in values if value is not None]
    if not known:
        return Markup()
    low = min(known) if least is None else least
    high = max(known) if most is None else most
    step = (_WIDTH - 2 * _EDGE) / max(len(values) - 1, 1)
    span = (high - low) or 1.0

    def place(index: int, value: float) -> tuple[float, float]:
        return _EDGE + index * step, _HEIGHT - _EDGE - (value - low) / span * (_HEIGHT - 2 * _EDGE)

    lines: list[list[tuple[float, float]]] = []
    line: list[tuple[float, float]] = []
    for index, value in enumerate(values):
        if value is None:
            lines.append(line)
            line = []
        else:
            line.append(place(index, value))
    drawn = [element("polyline", points=points(each), class_="series") for each in [*lines, line] if len(each) > 1]
    last = max(index for index, value in enumerate(values) if value is not None)
    x, y = place(last, known[-1])
    dot = element("circle", cx=x, cy=y, r=2.0, class_="dot")
    return frame(*drawn, dot, width=_WIDTH, height=_HEIGHT, label=label, class_="spark", aria_label=label)


_WIDE, _HIGH = 100.0, 6.0
_NEARLY = 0.9


def share_bar(share: float) -> Markup:
    """Draw a bar that is full at 1. It is hidden from screen readers: put the number beside it."""
    filled = min(max(share, 0.0), 1.0)
    state = "used bad" if share >= 1 else "used warn" if share >= _NEARLY else "used"
    return element(
        "svg",
        element("rect", width=_WIDE, height=_HIGH, rx=3, class_="whole"),
        element("rect", width=filled * _WIDE, height=_HIGH, rx=3, class_=state),
        viewBox=f"0 0 {_WIDE:g} {_HIGH:g}",
        preserveAspectRatio="none",
        class_="share",
        aria_hidden="true",
        focusable="false",
    )


_CELL_WIDTH, _CELL_HEIGHT = 120.0, 18.0
_BAR_HEIGHT = 10.0


def whisker(value: float, low: float, high: float, *, label: str, limit: float | None = None) -> Markup:
    """Draw a share within its interval, on a scale from 0 to 1. Put the numbers in words beside it."""

    def place(share: float) -> float:
        return 3 + min(max(share, 0.0), 1.0) * (_CELL_WIDTH - 6)

    middle = _CELL_HEIGHT / 2
    drawn = [
        element("line", x1=place(0), x2=place(1), y1=middle, y2=middle, class_="axis"),
        element(
            "rect", x=place(low), y=middle - 3, width=max(place(high) - place(low), 1), height=6, rx=3, class_="band"
        ),
        element("circle", cx=place(value), cy=middle, r=3.5, class_="dot"),
    ]
    if limit is not None:
        drawn.append(element("line", x1=place(limit), x2=place(limit), y1=2, y2=_CELL_HEIGHT - 2, class_="limit"))
    return frame(*drawn, width=_CELL_WIDTH, height=_CELL_HEIGHT, label=label, class_="whisker")


def evidence_share(evidence: float | None, threshold: float) -> float:
    """Return how much of the threshold evidence has reached, 0 to 1, on a log scale: each doubling adds the same."""
    if evidence is None or evidence <= 1 or threshold <= 1:
        return 0.0
    return min(math.log(evidence) / math.log(threshold), 1.0) if math.isfinite(evidence) else 1.0


def evidence_bar(evidence: float | None, threshold: float, *, label: str, is_good: bool = False) -> Markup:
    """Draw evidence against its threshold. `is_good`: reaching the threshold is good news."""
    share = evidence_share(evidence, threshold)
    is_full = share >= 1.0
    kind = "meter good" if is_good and is_full else "meter bad" if is_full else "meter"
    drawn = [
        element("rect", x=0, y=0, width=_CELL_WIDTH, height=_BAR_HEIGHT, class_="trough"),
        element("rect", x=0, y=0, width=share * _CELL_WIDTH, height=_BAR_HEIGHT, class_=kind),
    ]
    stretched = {"preserveAspectRatio": "none"}
    return frame(*drawn, width=_CELL_WIDTH, height=_BAR_HEIGHT, label=label, class_="evidence", **stretched)
