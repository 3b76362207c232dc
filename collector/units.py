"""Durations, offsets, instants and counts as a person reads them."""

import datetime as dt
import math
from collections.abc import Callable, Mapping
from typing import Final

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_THREE_DIGITS = 100
_MS_PER_S = 1_000
_S_PER_MIN = 60
_S_PER_H = 3_600


def duration_text(duration_ms: float | None) -> str:
    """Format a duration with about three digits and a unit; a dash if it is unknown."""
    if duration_ms is None:
        return "-"
    if abs(duration_ms) < _MS_PER_S:
        return f"{_three_digits(duration_ms)} ms"
    if abs(duration_ms) < _S_PER_MIN * _MS_PER_S:
        return f"{_three_digits(duration_ms / _MS_PER_S)} s"
    seconds = round(duration_ms / _MS_PER_S)
    sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
    hours, minutes = seconds // _S_PER_H, seconds % _S_PER_H // _S_PER_MIN
    if hours:
        return f"{sign}{hours} h {minutes:02} min"
    return f"{sign}{minutes} min {seconds % _S_PER_MIN:02} s"


def offset_text(from_ns: int | None, to_ns: int | None) -> str:
    """Return the time from the first instant to the second as text; "" if either is unknown."""
    if from_ns is None or to_ns is None:
        return ""
    text = duration_text((to_ns - from_ns) / 1e6)
    return text if text.startswith("-") else f"+{text}"


def instant_text(time_ns: int | None, *, short: bool = False) -> str:
    """Format an instant in UTC to the second; `short` leaves the year out."""
    if time_ns is None:
        return "-"
    instant = _EPOCH + dt.timedelta(seconds=time_ns // 1_000_000_000)
    return f"{instant:%m-%d %H:%M:%S}" if short else f"{instant:%Y-%m-%d %H:%M:%S}"


def count_text(number: int, one: str, many: str | None = None) -> str:
    """Format a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


_LEAST_USD: Final = 0.0001
"""Smallest amount of US dollars that is rounded to four decimals; of less, the first digit is kept."""


def usd_text(usd: float) -> str:
    """Format an amount of US dollars: two decimals, or two digits and at most four decimals, such as $0.0007."""
    if usd == 0:
        return "$0"
    amount, sign = abs(usd), "-" if usd < 0 else ""
    about = float(f"{amount:.2g}")
    first = -math.floor(math.log10(about))  # the decimal with the first digit
    return f"{sign}${amount:,.{max(2, min(first + 1, 4)) if about >= _LEAST_USD else first}f}"


def cost_text(amount: str, usd: float, unpriced_calls: int) -> str:
    """Return an amount of USD as a lower bound, or as unknown, if some calls had no price."""
    if not unpriced_calls:
        return amount
    calls = count_text(unpriced_calls, "call")
    return f"at least {amount}; {calls} without a price" if usd else f"cost unknown; {calls} without a price"


def estimate_text(evaluations: int, averaged: int, tokens: float | None, usd: float | None) -> str:
    """Write an estimate of the evaluations by a judge, from the tokens and cost of the latest ones."""
    amount = f"at most {count_text(evaluations, 'evaluation')} by a judge"
    if tokens is None and usd is None:
        return f"{amount}, whose cost is unknown"
    cost = "cost unknown" if usd is None else f"some {usd_text(usd)}"
    counted = "" if tokens is None else f"some {tokens:,.0f} tokens, "
    return f"{amount}: {counted}{cost}, as the latest {averaged:,} took"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= _THREE_DIGITS else f"{value:.3g}"


_UNITS: Final[Mapping[str, Callable[[float], str]]] = {
    "share": lambda value: f"{100 * value:.4g} %",
    "ms": duration_text,
    "usd": usd_text,
    "tokens": lambda value: f"{value:,.0f} tokens",
    "count": lambda value: f"{value:,.0f}",
}


def metric_text(value: float, unit: str) -> str:
    """Format a metric with its unit."""
    return _UNITS.get(unit, "{:.6g}".format)(value)
