"""Histograms of scores."""

from collections.abc import Sequence

from markupsafe import Markup

from collector.web.charts.svg import element, figure, frame

_WIDTH, _HEIGHT, _ABOVE, _BELOW, _GAP = 400.0, 130.0, 16.0, 18.0, 2.0


def histogram(
    counts: Sequence[int],
    *,
    low: float,
    high: float,
    threshold: float | None = None,
    label: str,
    hrefs: Sequence[str] | None = None,
) -> Markup:
    """Draw the counts of equal bins from `low` to `high`; a bin whose middle is below the threshold is coloured as bad.

    `hrefs` are the links of the bins.
    """
    most = max(counts, default=0) or 1
    wide = _WIDTH / max(len(counts), 1)
    step = (high - low) / max(len(counts), 1)
    floor = _HEIGHT - _BELOW
    drawn: list[Markup] = []
    rows: list[tuple[object, int]] = []
    for number, count in enumerate(counts):
        begin = low + number * step
        bounds = f"{_short(begin)} to {_short(begin + step)}"
        tall = count / most * (floor - _ABOVE)
        is_bad = threshold is not None and begin + step / 2 < threshold
        column = element(
            "rect",
            element("title", f"{bounds}: {count:,}"),
            x=number * wide + _GAP / 2,
            y=floor - tall,
            width=wide - _GAP,
            height=tall,
            rx=2,
            class_="column bad" if is_bad else "column",
        )
        if hrefs and count:
            room = element("rect", x=number * wide, y=_ABOVE, width=wide, height=floor - _ABOVE, class_="room")
            column = element("a", column, room, href=hrefs[number], aria_label=f"{bounds}: {count:,}")
        drawn.append(column)
        rows.append((Markup('<a href="{}">{}</a>').format(hrefs[number], bounds) if hrefs else bounds, count))
    drawn.append(element("line", x1=0, y1=floor, x2=_WIDTH, y2=floor, class_="axis"))
    drawn.append(element("text", f"{low:g}", x=0, y=_HEIGHT - 4))
    drawn.append(element("text", f"{high:g}", x=_WIDTH, y=_HEIGHT - 4, text_anchor="end"))
    if threshold is not None and low < threshold < high:
        drawn += _limit((threshold - low) / (high - low) * _WIDTH, f"threshold {threshold:g}", floor)
    role = "group" if hrefs and any(counts) else "img"
    picture = frame(*drawn, width=_WIDTH, height=_HEIGHT, label=label, role=role)
    return figure(picture, titles=("Score", "Count"), rows=rows, label=label)


def _limit(at: float, text: str, floor: float) -> list[Markup]:
    """Draw the threshold, with its name on the side that has more room."""
    is_left = at > _WIDTH / 2
    anchor, x = ("end", at - 5) if is_left else ("start", at + 5)
    return [
        element("line", x1=at, y1=0, x2=at, y2=floor, class_="limit"),
        element("text", text, x=x, y=_ABOVE - 5, text_anchor=anchor),
    ]


def _short(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
