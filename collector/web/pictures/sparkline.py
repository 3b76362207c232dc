"""A line as small as a word."""

from collections.abc import Sequence

from markupsafe import Markup

from collector.web.pictures.svg import element, frame, points

_WIDTH, _HEIGHT, _EDGE = 96, 22, 2


def sparkline(
    values: Sequence[float | None], *, label: str, least: float | None = None, most: float | None = None
) -> Markup:
    """How a number went, oldest first; None leaves a gap. What it shows is told in words beside it, or by `label`."""
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
