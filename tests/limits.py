"""Limits for tests."""

from storage.limit import Limit


def a_limit(nbytes: int) -> Limit:
    """Return a limit of bytes."""
    return Limit(value=nbytes, unit="bytes", remedy="send less")
