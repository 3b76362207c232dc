"""Reasons why spans or log records of a request are rejected, with counts that can be summed over its pieces."""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way in which spans or log records of a request are invalid."""

    reason: str
    noun: str  # "span" or "log record"
    count: int  # number of invalid elements
    first: int  # the number of the first of them in the request, from 1


def merge(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Merge faults by reason, in order of occurrence."""
    merged: dict[str, Fault] = {}
    for fault in faults:
        known = merged.get(fault.reason)
        merged[fault.reason] = fault if known is None else replace(known, count=known.count + fault.count)
    return tuple(merged.values())


def explain(faults: Iterable[Fault]) -> str:
    """Describe each fault with the number of affected elements and the place of the first."""
    parts = []
    for fault in faults:
        first = f"number {fault.first} of the request"
        which = f"{fault.noun} {first}" if fault.count == 1 else f"{fault.count} {fault.noun}s, the first is {first}"
        parts.append(f"{fault.reason} ({which})")
    return "; ".join(parts)


class Malformed(Exception):
    """Fault of the sender: the same bytes cannot succeed later. The message names the place."""
