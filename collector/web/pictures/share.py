"""How much of something is used up."""

from markupsafe import Markup

from collector.web.pictures.svg import element

_WIDE, _HIGH = 100.0, 6.0
_NEARLY = 0.9


def share_bar(share: float) -> Markup:
    """A bar that is full at 1. What it shows stands beside it in words, so it is nothing for screen readers."""
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
