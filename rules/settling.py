"""Settling: when a trace counts as complete, so that no half of a trace is judged."""

from dataclasses import dataclass

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """Waiting times before a trace or a session counts as complete."""

    after_root_s: float = 10.0  # without anything new, once the root has ended
    quiet_s: float = 180.0  # without anything new, while it has not
    missing_s: float = 30.0  # for a trace that never arrived, since the end of the run whose item names it
    longest_s: float = 3600.0  # since the first span
    session_s: float = 900.0  # without anything new of a session, if the rule sets no time


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Arrival times of a trace by our own clock, as clocks of senders may be wrong.

    For a trace that was judged and is open again, `first_ns` is the first arrival since: otherwise a trace that goes on
    for longer than the longest wait would be judged again with each of its spans.

    """

    root_ended: bool
    first_ns: int
    last_ns: int


def settles_at_ns(arrivals: Arrivals, settling: Settling) -> int:
    """Return when the trace settles if no more of it arrives, in ns since the Unix epoch."""
    waits = [settling.quiet_s, settling.after_root_s] if arrivals.root_ended else [settling.quiet_s]
    quiet_ns = arrivals.last_ns + round(min(waits) * _NS)
    return min(quiet_ns, arrivals.first_ns + round(settling.longest_s * _NS))
