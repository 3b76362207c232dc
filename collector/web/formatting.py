"""Instants, durations, counts and money as HTML for a person."""

import re
from typing import Final

from markupsafe import Markup

from collector.api.base.times import time_text
from collector.units import cost_text, count_text, duration_text, instant_text, usd_text

_US: Final = 1_000
_STEPS: Final = ((60, "s"), (60, "min"), (24, "h"), (30, "d"), (12, "mo"))
_NS: Final = 1_000_000_000
_KILO: Final = 1_000
_KIBI: Final = 1_024
_TEN: Final = 10
_HYPHEN: Final = re.compile(r"-(?=\d)")

UNKNOWN: Final = Markup('<span class="quiet">-</span>')


def _number(text: str) -> Markup:
    return Markup(f'<span class="number">{text}</span>')  # noqa: S704 - escaped, or made here


def moment(time_ns: int | None) -> Markup:
    """Render an instant in UTC, also as its title; the script shows it in the time zone of the browser."""
    if not time_ns:
        return UNKNOWN
    at, text = time_text(time_ns), instant_text(time_ns)
    return Markup(f'<time datetime="{at}" title="{text} UTC">{text} <abbr>UTC</abbr></time>')  # noqa: S704 - escaped, or made here


def moment_us(time_us: int | None) -> Markup:
    """Render an instant in UTC, from microseconds since the Unix epoch."""
    return moment(None if time_us is None else time_us * _US)


def ago(time_ns: int | None, now_ns: int) -> Markup:
    """Render how long ago an instant was, with the instant as its title."""
    if not time_ns:
        return UNKNOWN
    at, text = time_text(time_ns), instant_text(time_ns)
    return Markup(f'<time class="ago" datetime="{at}" title="{text} UTC">{ago_text(now_ns - time_ns)}</time>')  # noqa: S704 - escaped, or made here


def ago_text(passed_ns: int) -> str:
    """Format how long ago, or how far ahead, an instant is, in one unit."""
    passed = abs(passed_ns) // _NS
    if not passed:
        return "now"
    unit = "y"
    for size, name in _STEPS:
        if passed < size:
            unit = name
            break
        passed //= size
    return f"{passed} {unit} ago" if passed_ns > 0 else f"in {passed} {unit}"


def duration(duration_ms: float | None) -> Markup:
    """Render a duration with its unit."""
    return UNKNOWN if duration_ms is None else _number(duration_text(duration_ms))


def duration_ns(from_ns: int | None, to_ns: int | None) -> Markup:
    """Render the time between two instants."""
    return duration((to_ns - from_ns) / 1e6 if from_ns and to_ns else None)


def number(value: float | None, digits: int = 3) -> Markup:
    """Render a number with at most `digits` digits after the decimal point."""
    if value is None:
        return UNKNOWN
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return _number(text)


def short_count(value: int | None) -> Markup:
    """Render a count that need not be exact: 12.3k."""
    if value is None:
        return UNKNOWN
    return Markup(f'<span class="number" title="{value:,}">{rough_count(value)}</span>')  # noqa: S704 - escaped, or made here


def rough_count(value: int) -> str:
    """Format a count with about three digits."""
    text, size = str(value), float(value)
    for unit in ("k", "M", "G"):
        if size < _KILO:
            break
        size = float(f"{size / _KILO:.3g}")  # rounding may give 1,000, which the next unit shows as 1
        text = f"{size:.15g}{unit}"
    return text


def size(nbytes: int | None) -> Markup:
    """Render a size in the unit that leaves about three digits."""
    if nbytes is None:
        return UNKNOWN
    amount, unit = float(nbytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < _KIBI or unit == "TiB":
            break
        amount /= _KIBI
    return _number(f"{amount:.0f} {unit}" if amount >= _TEN else f"{amount:.2g} {unit}")


def usd(value: float | None) -> Markup:
    """Render an amount of money, with all of its digits as the title."""
    if value is None:
        return UNKNOWN
    return Markup(f'<span class="number" title="{value:,.8g} USD">{usd_text(value)}</span>')  # noqa: S704 - escaped, or made here


def cost(value: float, unpriced_calls: int) -> Markup:
    """Render an amount of money, as a lower bound or as unknown if some calls had no price."""
    return _number(cost_text(usd_text(value), value, unpriced_calls))


def percent(share: float | None) -> Markup:
    """Render a share in percent."""
    return UNKNOWN if share is None else _number(f"{100 * share:.1f} %")


def counted(value: int, one: str, many: str | None = None) -> str:
    """Format a number with its noun."""
    return count_text(value, one, many)


def minus(text: str) -> str:
    """Replace the hyphens before numbers by minus signs: as wide as a plus sign, and read out as “minus”."""
    return _HYPHEN.sub("\u2212", text)
