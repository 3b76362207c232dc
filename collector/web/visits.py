"""Visits of Home by a browser, and what changed since the last one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import Request
from fastapi.responses import Response

from storage.alerting.alerts import Alert, AlertFilter
from storage.query.agents import ServiceSums
from storage.store import Store

_COOKIE: Final = "home_visit"
_YEAR_S: Final = 31_536_000
_NS: Final = 1_000_000_000
_DIGITS: Final = 11  # of seconds since the Unix epoch, at most

BREAK_S: Final = 1_800
"""Time without a request after which the next one is another visit. An open page requests itself every 30 s while it is
visible. A guess."""

_LONGEST_S: Final = 7 * 86_400
"""Time back to which changes are counted, so that a page costs as much after a long absence. A guess."""

_MOST_ALERTS: Final = 100  # the newest ones, which are searched for changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A visit. `since_s` is the end of the visit before, or the time when the visitor had seen all; None: the first."""

    since_s: int | None
    now_s: int

    @property
    def from_ns(self) -> int | None:
        """Return the time from which changes are counted."""
        return None if self.since_s is None else max(self.since_s, self.now_s - _LONGEST_S) * _NS


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Traces and alerts that are new since an instant."""

    since_ns: int
    is_cut: bool  # the last visit was longer ago
    services: Sequence[ServiceSums]
    opened: Sequence[Alert]
    recovered: Sequence[Alert]

    @property
    def traces(self) -> int:
        """Return the number of traces."""
        return sum(each.traces for each in self.services)

    @property
    def failed(self) -> int:
        """Return the number of traces with errors."""
        return sum(each.failed for each in self.services)


def visit_of(request: Request, now_ns: int) -> Visit:
    """Return the visit that a request belongs to, by its cookie."""
    now_s = now_ns // _NS
    since, _, seen = request.cookies.get(_COOKIE, "").partition(".")
    since_s, seen_s = _seconds(since), _seconds(seen)
    if since_s is None or seen_s is None or not since_s <= seen_s <= now_s:
        return Visit(since_s=None, now_s=now_s)
    if now_s - seen_s > BREAK_S:
        return Visit(since_s=seen_s, now_s=now_s)
    return Visit(since_s=since_s or None, now_s=now_s)


def remember(request: Request, response: Response, visit: Visit) -> None:
    """Have the browser remember the visit."""
    response.set_cookie(
        _COOKIE,
        f"{visit.since_s or 0}.{visit.now_s}",
        max_age=_YEAR_S,
        path=request.scope.get("root_path") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )


def news_of(store: Store, visit: Visit, *, project: str | None, tenant: str | None) -> News | None:
    """Return what changed since the visit before; None for a first visit."""
    since_ns = visit.from_ns
    if since_ns is None:
        return None
    newest = store.alerts.newest(AlertFilter(project=project), tenant=tenant, limit=_MOST_ALERTS)
    return News(
        since_ns=since_ns,
        is_cut=since_ns // _NS != visit.since_s,
        services=store.agents.since(since_ns, visit.now_s * _NS, project=project, tenant=tenant),
        opened=[each for each in newest if each.opened_at_ns >= since_ns],
        recovered=[each for each in newest if (each.recovered_at_ns or 0) >= since_ns],
    )


def _seconds(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
