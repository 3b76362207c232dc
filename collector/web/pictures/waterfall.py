"""When each span of a trace ran, a line for each."""

from markupsafe import Markup

from collector.web.pictures.svg import element

_WIDE, _HIGH, _LEAST = 1000.0, 10.0, 4.0


def span_bar(*, start: float, end: float | None, is_error: bool = False) -> Markup:
    """The bar of one span between two shares of the time of its trace; one that never ended is a mark.

    What it shows stands beside it in words, so it is nothing for screen readers.
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
