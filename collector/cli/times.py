"""Times and durations as options of commands."""

import datetime as dt
import re
from typing import Any, Final, Literal

import click

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LONGEST_S: Final = 3_660 * 86_400
_LENGTH: Final = re.compile(r"([0-9]{1,9})([smhd])")
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?([Zz]|[+-][0-9]{2}:[0-9]{2})?)?"
)


class Duration(click.ParamType[float]):
    """A duration such as 30m, 24h or 7d, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's
        """Return the seconds."""
        seconds = _seconds(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a length of time such as 90s, 30m, 24h or 7d", param, ctx)
        return seconds


class Instant(click.ParamType[dt.datetime]):
    """An instant: a day or RFC 3339, in UTC unless it has an offset, or a distance from now such as 24h."""

    name = "time"

    def __init__(self, distance: Literal["ago", "from now"]) -> None:
        self._distance = distance

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dt.datetime:  # noqa: ANN401 - click's
        """Return the instant in UTC."""
        try:
            return self._read(str(value))
        except (ValueError, OverflowError):  # also for a date that does not exist or is out of range
            forms = "2026-11-21, 2026-11-21T10:00:00Z or 2026-11-21T11:00:00+01:00 (without an offset in UTC)"
            self.fail(f"{value!r} is not a time: write {forms}, or 24h or 7d {self._distance}", param, ctx)

    def _read(self, text: str) -> dt.datetime:
        seconds = _seconds(text)
        if seconds is not None:
            return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=-seconds if self._distance == "ago" else seconds)
        if not _TIME.fullmatch(text):
            raise ValueError(text)
        instant = dt.datetime.fromisoformat(text.upper())
        return (instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)


PAST: Final = Instant("ago")
COMING: Final = Instant("from now")


def _seconds(text: str) -> float | None:
    match = _LENGTH.fullmatch(text)
    seconds = int(match[1]) * _UNITS_S[match[2]] if match else 0
    return float(seconds) if 0 < seconds <= _LONGEST_S else None
