"""Waterfall of a trace: a bar for the time of each span, and the time axis above the bars."""

import math

from markupsafe import Markup

from collector.units import duration_text
from collector.web.charts.svg import element

_WIDE, _HIGH, _LEAST = 1000.0, 10.0, 4.0
_TICKS = 4
_NEAR_THE_END = 0.9


def span_bar(*, start: float, end: float | None, is_error: bool = False) -> Markup:
    """Draw the bar of a span; `start` and `end` are shares of its trace's duration. Without `end`, draw a short mark.

    It is hidden from screen readers: put the times beside it.
    """
    left = min(max(start, 0.0), 1.0) * _WIDE
    right = left if end is None else min(max(end, 0.0), 1.0) * _WIDE
    wide = max(right - left, _LEAST)
    bar = element(
        "rect",
        x=min(left, _WIDE - _LEAST),
        y=1,
        width=min(wide, _WIDE - min(left, _WIDE - _LEAST)),
        height=_HIGH - 2,
        rx=1,
        class_="bar failed" if is_error else "bar",
    )
    return element(
        "svg",
        bar,
        viewBox="0 0 1000 10",
        preserveAspectRatio="none",
        class_="times",
        aria_hidden="true",
        focusable="false",
    )


def time_axis(length_ms: float) -> Markup:
    """Draw the time axis above the bars, at round numbers; trace.js redraws it on zoom."""
    step = _round_step(length_ms / _TICKS)
    drawn: list[Markup] = []
    for number in range(math.floor(length_ms / step) + 1):
        share = number * step / length_ms
        place = f"{100 * share:.3f}%"
        anchor = "end" if share > _NEAR_THE_END else "start" if number == 0 else "middle"
        drawn.append(element("line", x1=place, x2=place, y1=13, y2=18, class_="axis"))
        drawn.append(element("text", duration_text(number * step), x=place, y=10, text_anchor=anchor))
    return element("svg", *drawn, class_="time-axis", aria_hidden="true", focusable="false")


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(max(least, 1e-6)))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)
