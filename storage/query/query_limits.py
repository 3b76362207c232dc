"""Error messages for statements of clients that exceed a limit, in the server and in child processes."""

from storage.limit import Limit


def late(seconds: float) -> str:
    """Return the message of a query that took longer than it may."""
    remedy = "ask about a shorter time or fewer columns"
    limit = Limit(value=seconds, unit="s", setting="sql_seconds", remedy=remedy)
    return f"the query was stopped because it ran longer than {limit}"


def too_large(nbytes: int) -> str:
    """Return the message of an answer that is larger than it may be."""
    return f"the answer is larger than {Limit(value=nbytes, unit='bytes', remedy='ask for fewer rows or columns')}"
