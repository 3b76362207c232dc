"""Trend charts: a number over time or releases, with its intervals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from collector.escaping import one_line
from collector.web.charts.svg import element, figure, frame, points

_WIDTH, _HEIGHT = 480.0, 180.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 12.0, 22.0, 22.0
_TICKS = 5
_LABEL_CHARACTERS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """A point of a trend, oldest first; without a value it is a gap.

    `low` and `high` are its interval, `href` is its link. A point with `begins` is not comparable with those before:
    the line is interrupted before it, and a vertical mark there has this text.
    """

    label: str  # an instant, or a release
    value: float | None
    low: float | None = None
    high: float | None = None
    count: int | None = None
    href: str | None = None
    is_bad: bool = False
    begins: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The vertical scale of a trend. `limit` is drawn as a line."""

    low: float = 0.0
    high: float = 1.0
    unit: str = ""
    limit: float | None = None

    def y(self, value: float) -> float:
        """Return the y coordinate of a value."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return _HEIGHT - _BOTTOM - min(max(share, 0.0), 1.0) * (_HEIGHT - _TOP - _BOTTOM)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    x: float
    value: float
    point: TrendPoint


def trend(data: Sequence[TrendPoint], *, scale: Scale, label: str, what: str = "Value") -> Markup:
    """Draw a line through the values within a band of their intervals, over equal steps."""
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(data) - 1, 1)
    xs = [_LEFT + number * step if len(data) > 1 else _WIDTH / 2 for number in range(len(data))]
    drawn = [*_axes(scale), *_ticks(data, xs), *_marks(data, xs)]
    for run in _runs(data, xs):
        if len(run) > 1:
            drawn += _line(run, scale)
    drawn += [_dot(x, point, scale) for x, point in zip(xs, data, strict=True)]
    role = "img" if all(point.href is None for point in data) else "group"
    picture = frame(*drawn, width=_WIDTH, height=_HEIGHT, label=label, role=role)
    titles = ("Of", what, "Interval", "Results", "")
    rows = [_row(point, scale) for point in data if point.value is not None]
    return figure(picture, titles=titles, rows=rows, label=label)


def _axes(scale: Scale) -> Iterator[Markup]:
    for share in (0.0, 0.5, 1.0):
        value = scale.low + share * (scale.high - scale.low)
        y = scale.y(value)
        yield element("line", x1=_LEFT, y1=y, x2=_WIDTH - _RIGHT, y2=y, class_="axis")
        yield element("text", f"{value:g}{scale.unit}", x=_LEFT - 6, y=y + 4, text_anchor="end")
    if scale.limit is not None:
        y = scale.y(scale.limit)
        yield element("line", x1=_LEFT, y1=y, x2=_WIDTH - _RIGHT, y2=y, class_="limit")


def _ticks(data: Sequence[TrendPoint], xs: Sequence[float]) -> Iterator[Markup]:
    """Draw the labels of some steps, the first and the last among them."""
    last = len(data) - 1
    every = max(-(-last // (_TICKS - 1)), 1)
    for number, point in enumerate(data):
        is_last = number == last
        if not is_last and (number % every or last - number < every * 0.7):
            continue
        anchor = "middle" if not last or 0 < number < last else "end" if is_last else "start"
        yield element("text", _short(point.label), x=xs[number], y=_HEIGHT - 5, text_anchor=anchor)


def _marks(data: Sequence[TrendPoint], xs: Sequence[float]) -> Iterator[Markup]:
    for number, point in enumerate(data):
        if point.begins is None:
            continue
        x = (xs[number - 1] + xs[number]) / 2 if number else xs[number]
        yield element("line", x1=x, y1=_TOP - 4, x2=x, y2=_HEIGHT - _BOTTOM, class_="mark")
        anchor = "start" if x < _WIDTH / 2 else "end"
        yield element("text", _short(point.begins), x=x, y=_TOP - 8, text_anchor=anchor)


def _runs(data: Sequence[TrendPoint], xs: Sequence[float]) -> list[list[_Placed]]:
    """Group neighbouring points that are comparable."""
    runs: list[list[_Placed]] = [[]]
    for x, point in zip(xs, data, strict=True):
        if point.value is None or point.begins is not None:
            runs.append([])
        if point.value is not None:
            runs[-1].append(_Placed(x=x, value=point.value, point=point))
    return runs


def _line(run: Sequence[_Placed], scale: Scale) -> Iterator[Markup]:
    for before, after in pairwise(run):
        corners = [
            (placed.x, edge)
            for placed, edge in ((before, before.point.low), (after, after.point.low))
            if edge is not None
        ]
        corners += [
            (placed.x, edge)
            for placed, edge in ((after, after.point.high), (before, before.point.high))
            if edge is not None
        ]
        if len(corners) == 4:  # noqa: PLR2004 - a quadrangle
            yield element("polygon", points=points([(x, scale.y(edge)) for x, edge in corners]), class_="band")
    yield element("polyline", points=points([(each.x, scale.y(each.value)) for each in run]), class_="series")


def _dot(x: float, point: TrendPoint, scale: Scale) -> Markup:
    if point.value is None:
        return Markup()
    title = element("title", ", ".join(str(cell) for cell in _cells(point, scale) if cell))
    whisker = (
        element("line", x1=x, x2=x, y1=scale.y(point.low), y2=scale.y(point.high), class_="band-edge")
        if point.low is not None and point.high is not None
        else Markup()
    )
    y = scale.y(point.value)
    dot = element("circle", cx=x, cy=y, r=3.5, class_="dot bad" if point.is_bad else "dot")
    if point.href is None:
        return element("g", title, whisker, dot)
    room = element("circle", cx=x, cy=y, r=9.0, class_="room")  # larger target for touch
    return element("a", title, whisker, dot, room, href=point.href, aria_label=one_line(point.label))


def _row(point: TrendPoint, scale: Scale) -> tuple[object, ...]:
    label, *rest = _cells(point, scale)
    if point.href is None:
        return (label, *rest)
    return (Markup('<a href="{}"><bdi>{}</bdi></a>').format(point.href, label), *rest)


def _cells(point: TrendPoint, scale: Scale) -> tuple[str, str, str, str, str]:
    known = point.low is not None and point.high is not None
    interval = f"{point.low:.3g} to {point.high:.3g}{scale.unit}" if known else "-"
    count = "-" if point.count is None else f"{point.count:,}"
    begins = "" if point.begins is None else one_line(point.begins)
    return one_line(point.label), f"{point.value:.3g}{scale.unit}", interval, count, begins


def _short(text: str) -> str:
    line = one_line(text[: _LABEL_CHARACTERS + 1])
    return line if len(line) <= _LABEL_CHARACTERS else line[: _LABEL_CHARACTERS - 1] + "…"
