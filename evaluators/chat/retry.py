"""When to ask an endpoint again, as it said itself; pure."""

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

RETRYABLE = frozenset({"timeout", "unreachable", "rate_limited", "unavailable"})
"""The kinds of failure that another attempt may not meet."""


def wait_asked_for(headers: Mapping[str, str], now_s: float) -> float | None:
    """The seconds that `Retry-After` (or `retry-after-ms`) asks to wait; None where it is missing or nonsense."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_s)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
