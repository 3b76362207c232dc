"""Column charts: a number for each step of time, with links to the data behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from collector.web.charts.svg import element, figure, frame

_SIZE: Final = (400.0, 110.0)
_BELOW, _ABOVE, _GAP = 20.0, 18.0, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartColumn:
    """A column: `label` is the start of its time step in UTC, `text` its value in words, `href` leads to its data.

    `bad` and `within` are at most `value`, have its unit, and are drawn inside the column.
    """

    label: str
    value: float | None  # None: nothing is known
    text: str
    bad: float = 0.0
    within: float = 0.0
    href: str | None = None


def columns(
    data: Sequence[ChartColumn],
    *,
    label: str,
    most: str,
    titles: tuple[str, str],
    size: tuple[float, float] = _SIZE,
) -> Markup:
    """Draw columns over equal steps, oldest first; `most` is the highest value in words, "" if it stands elsewhere."""
    width, height = size
    above = _ABOVE if most else _GAP
    top = max((each.value or 0.0 for each in data), default=0.0) or 1.0
    wide = width / max(len(data), 1)
    floor = height - _BELOW
    drawn: list[Markup] = []
    for number, each in enumerate(data):
        x = number * wide
        title = f"{each.label} UTC: {each.text}"
        parts = [element("title", title)]
        parts += _column(each, x, wide, (above, floor), top)
        parts.append(element("rect", x=x, y=above, width=wide, height=floor - above, class_="room"))
        drawn.append(
            element("a", *parts, href=each.href, aria_label=title) if each.href and each.value else element("g", *parts)
        )
    drawn.append(element("line", x1=0, y1=floor, x2=width, y2=floor, class_="axis"))
    drawn.append(element("line", x1=0, y1=above, x2=width, y2=above, class_="axis top"))
    if most:  # Without the word “highest”, the number reads as the sum of all columns.
        drawn.append(element("text", f"highest: {most}", x=0, y=above - 4))
    if data:
        drawn.append(element("text", f"{data[0].label} UTC", x=0, y=height - 3))
        drawn.append(element("text", f"{data[-1].label} UTC", x=width, y=height - 3, text_anchor="end"))
    role = "group" if any(each.href for each in data) else "img"
    rows = [(_link(each), each.text) for each in data if each.value]
    picture = frame(*drawn, width=width, height=height, label=label, role=role)
    return figure(picture, titles=titles, rows=rows, label=label)


def _column(each: ChartColumn, x: float, wide: float, between: tuple[float, float], top: float) -> list[Markup]:
    above, floor = between
    place = {"x": x + _GAP / 2, "width": max(wide - _GAP, 1.0)}
    drawn = []
    for value, kind in ((each.value, "column"), (each.within, "column within"), (each.bad, "column bad")):
        tall = (value or 0.0) / top * (floor - above)
        if tall:
            drawn.append(element("rect", y=floor - tall, height=tall, class_=kind, **place))
    return drawn


def _link(each: ChartColumn) -> object:
    return Markup('<a href="{}">{}</a>').format(each.href, each.label) if each.href else each.label
