"""Changes of numbers since an earlier period, in words."""

from dataclasses import dataclass
from typing import Final

_MANY_TIMES: Final = 10  # above which a percentage means little


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of a number since the previous period; `is_worse` is None if it is neither better nor worse."""

    text: str
    is_worse: bool | None
    beside: str = "against"  # the word between the change and the previous period


def share_change(now: float | None, before: float | None, *, more_is_worse: bool | None) -> Change | None:
    """Return the relative change of a number; None if there was none before."""
    if now is None or not before:
        return None
    share = round(100 * (now / before - 1))
    is_worse = None if more_is_worse is None or not share else (share > 0) == more_is_worse
    if now > _MANY_TIMES * before:
        return Change(text=f"over {_MANY_TIMES} times as much", beside="as", is_worse=is_worse)
    return Change(text=f"{share:+,} %" if share else "unchanged", is_worse=is_worse)


def point_change(now: float | None, before: float | None, *, more_is_worse: bool) -> Change | None:
    """Return the change of a share in percentage points."""
    if now is None or before is None:
        return None
    points = round(100 * (now - before), 1)
    return Change(
        text=f"{points:+.1f} points" if points else "unchanged",
        is_worse=(points > 0) == more_is_worse if points else None,
    )
