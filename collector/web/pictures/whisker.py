"""Where a rate lies inside of its interval, and how much evidence there is: as small as a cell of a table."""

import math

from markupsafe import Markup

from collector.web.pictures.svg import element, frame

_WIDTH, _HEIGHT = 120.0, 18.0
_BAR_HEIGHT = 10.0


def whisker(value: float, low: float, high: float, *, label: str, limit: float | None = None) -> Markup:
    """A share of one inside of its interval, on a scale from 0 to 1. What it shows is told in words beside it."""

    def place(share: float) -> float:
        return 3 + min(max(share, 0.0), 1.0) * (_WIDTH - 6)

    middle = _HEIGHT / 2
    drawn = [
        element("line", x1=place(0), x2=place(1), y1=middle, y2=middle, class_="axis"),
        element(
            "rect", x=place(low), y=middle - 3, width=max(place(high) - place(low), 1), height=6, rx=3, class_="band"
        ),
        element("circle", cx=place(value), cy=middle, r=3.5, class_="dot"),
    ]
    if limit is not None:
        drawn.append(element("line", x1=place(limit), x2=place(limit), y1=2, y2=_HEIGHT - 2, class_="limit"))
    return frame(*drawn, width=_WIDTH, height=_HEIGHT, label=label, class_="whisker")


def evidence_share(evidence: float | None, threshold: float) -> float:
    """How far evidence is on the way to its threshold, where each doubling is as far as the next: 0 is none."""
    if evidence is None or evidence <= 1 or threshold <= 1:
        return 0.0
    return min(math.log(evidence) / math.log(threshold), 1.0) if math.isfinite(evidence) else 1.0


def evidence_bar(evidence: float | None, threshold: float, *, label: str, is_good: bool = False) -> Markup:
    """How far evidence is on the way to its threshold. `is_good` where reaching it is good news."""
    share = evidence_share(evidence, threshold)
    is_full = share >= 1.0
    kind = "meter good" if is_good and is_full else "meter bad" if is_full else "meter"
    drawn = [
        element("rect", x=0, y=0, width=_WIDTH, height=_BAR_HEIGHT, class_="trough"),
        element("rect", x=0, y=0, width=share * _WIDTH, height=_BAR_HEIGHT, class_=kind),
    ]
    stretched = {"preserveAspectRatio": "none"}
    return frame(*drawn, width=_WIDTH, height=_BAR_HEIGHT, label=label, class_="evidence", **stretched)
