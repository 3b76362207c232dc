"""Tool runs that spans of two libraries report side by side."""

from bisect import bisect, insort
from typing import Final

from collector.conventions.message_calls import lone_value
from collector.conventions.pairing import ReportedRun

_MAX_NEAR: Final = 16  # a guess: runs of one name that are compared with one, on each side of it in time
_TOLERANCE_NS: Final = 50_000_000  # a guess: how much later a library that is called back can notice an end


class Beside:
    """The runs of a trace that spans of another library may repeat, each library once."""

    def __init__(self) -> None:
        self._runs: dict[str, list[tuple[int, int, ReportedRun]]] = {}  # by name: (start, order, run), sorted
        self._libraries: dict[int, set[str | None]] = {}  # by the identity of a run: the libraries that report it

    def add(self, run: ReportedRun) -> None:
        """Add a run that no earlier span reported."""
        insort(self._runs.setdefault(run.span.tool_name or "", []), (run.span.start_ns, len(self._libraries), run))
        self._libraries[id(run)] = {run.span.scope}

    def of(self, run: ReportedRun) -> ReportedRun | None:
        """Return the known run that `run` reports again; None if it is a new one."""
        known = self._runs.get(run.span.tool_name or "")
        if not known:
            return None
        place = bisect(known, (run.span.start_ns, len(self._libraries)))
        near = (one for _, _, one in known[max(place - _MAX_NEAR, 0) : place + _MAX_NEAR])
        alike = [one for one in near if run.span.scope not in self._libraries[id(one)] and _is_one(one, run)]
        if not alike:
            return None
        match = next((one for one in alike if one.call_id is not None and one.call_id == run.call_id), alike[0])
        self._libraries[id(match)].add(run.span.scope)
        return match


def _is_one(run: ReportedRun, other: ReportedRun) -> bool:
    if run.call_id is None or other.call_id is None:
        return _fit(run, other) and (_is_within(run, other) or _is_within(other, run))
    return run.call_id == other.call_id and _fit(run, other) and _overlap(run, other)


def _fit(run: ReportedRun, other: ReportedRun) -> bool:
    if run.key is None or other.key is None or run.key == other.key:
        return True
    both = run.span.tool_arguments, other.span.tool_arguments
    return any(isinstance(one, str) for one in both) and lone_value(both[0]) == lone_value(both[1])


def _is_within(run: ReportedRun, other: ReportedRun) -> bool:
    if run.span.end_ns is None or other.span.end_ns is None:
        return False
    begins, ends = other.span.start_ns, other.span.end_ns + _TOLERANCE_NS
    return begins <= run.span.start_ns and run.span.end_ns <= ends


def _overlap(run: ReportedRun, other: ReportedRun) -> bool:
    first, second = sorted((run.span, other.span), key=lambda span: span.start_ns)
    return first.end_ns is None or second.start_ns <= first.end_ns + _TOLERANCE_NS
