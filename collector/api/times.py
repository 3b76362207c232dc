"""Instants as the API writes them: RFC 3339 in UTC with nine digits."""

import datetime as dt

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def time_text(time_ns: int | None) -> str | None:
    """An instant as RFC 3339 in UTC with nanoseconds; None and 0, which is OTLP for "not set", are None."""
    if not time_ns:
        return None
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    instant = _EPOCH + dt.timedelta(seconds=seconds)
    return f"{instant:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"


def instant_ns(text: str) -> int:
    """RFC 3339 in UTC, with any number of digits, as nanoseconds since the Unix epoch.

    Raises:
        ValueError: it is no such text.
    """
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    whole = dt.datetime.fromisoformat(f"{seconds}+00:00") - _EPOCH
    return (whole.days * 86_400 + whole.seconds) * 1_000_000_000 + int(f"{fraction:0<9}"[:9])
