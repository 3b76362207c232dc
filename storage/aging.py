"""Expiry by age, suspended while the clock of the machine is in doubt.

A clock that is wrong only once, years ahead, would make all data expire. So the clock is compared with the uptime of
the machine, which cannot be set, and at a start with the last trusted time in the database. ADR 066 has the rules.
"""

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from storage import sql
from storage.clock import Clock, uptime_ns
from storage.engine.database import Database
from storage.errors import Overloaded
from storage.ingest.state import newest_receipt_us
from storage.ingest.writer import Writer

log = logging.getLogger(__name__)

_HOUR_NS: Final = 3600 * 10**9
_DAY_NS: Final = 24 * _HOUR_NS

_ABSORBED_NS: Final = 60 * 10**9
"""Corrections of the clock up to this, such as those of NTP, are not accumulated. A guess."""

_FEW: Final = {"spans": 1_000, "runs": 10}
"""Number of rows that may always expire, whatever their share: all data of a small server is often from one day. A
guess."""

_LOOK_NS: Final = 60 * 10**9
_COMMITS: Final = 256
_TRACES: Final = 10
"""The clock is trusted again only if the latest `_COMMITS` commits have at least this many traces. A guess."""

HOW_TO_CONFIRM: Final = "if it is right, confirm it with `tracejury sweep --yes`"


def boot_id() -> str | None:
    """Return an id of this boot of the machine, or None if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgingOptions:
    """Bounds of deletions by age, and the source of time."""

    interval_s: float = 3600.0  # between two sweeps
    most_share: float = 0.5  # of the stored rows, in one sweep
    wall_ns: Clock = time.time_ns
    steady_ns: Clock = uptime_ns
    boot_id: str | None = field(default_factory=boot_id)

    @property
    def tolerance_ns(self) -> int:
        """Return the error of the clock that is tolerated, in nanoseconds."""
        return _HOUR_NS + int(self.interval_s * 1e9)


@dataclass(frozen=True, slots=True)
class _Anchor:
    """A moment whose time is trusted."""

    wall_ns: int
    steady_ns: int
    may_be_pause: bool = False  # the stored time may be long past: the machine was off, or it is another machine


@dataclass(slots=True)
class _Doubt:
    """A doubt about the clock: when it began, and by how much the clock was then ahead."""

    since_steady_ns: int
    forward_ns: int
    batch: int
    looked_steady_ns: int = 0


class Aging:
    """Decides whether anything may be deleted because of its age. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer, options: AgingOptions) -> None:
        self._database, self._writer, self._options = database, writer, options
        self._lock = threading.RLock()
        self._anchor = self._remembered()
        self._doubt: _Doubt | None = None
        self._confirmed_steady_ns: int | None = None
        self._too_much: Mapping[str, str] = {}

    @property
    def held(self) -> str | None:
        """Return why expired data stays and how to resolve it, or None if nothing is held."""
        return self.doubt() or next(iter(self._too_much.values()), None)

    def doubt(self) -> str | None:
        """Return why the clock is in doubt, and what resolves it; None if it is trusted."""
        with self._lock:
            forward_ns = self._forward_ns()
            if abs(forward_ns) <= self._options.tolerance_ns:
                self._doubt = None
                return None
            if self._doubt is None or abs(self._doubt.forward_ns - forward_ns) > _ABSORBED_NS:
                steady_ns = self._options.steady_ns()
                self._doubt = _Doubt(steady_ns, forward_ns, self._writer.totals.batch, steady_ns)
            if self._clients_agree(self._doubt):
                log.warning("the clock is trusted again: received spans have agreed with it for hours")
                self._trust()
                return None
            return self._text(forward_ns)

    def refusal(self, what: str, expired: int, stored: int) -> str | None:
        """Return why this many expired rows may not be deleted now because of their age, or None."""
        doubt = self.doubt()
        share = expired / stored if stored else 0.0
        with self._lock:
            others = {name: text for name, text in self._too_much.items() if name != what}
            self._too_much = others
            if doubt is not None:
                return doubt
            if share <= self._options.most_share or expired <= _FEW[what] or self._is_confirmed():
                return None
            text = (
                f"{share:.0%} of all {what} have expired at once ({expired:,} of {stored:,}; sweep_share allows "
                f"{self._options.most_share:.0%}): they stay; {HOW_TO_CONFIRM}"
            )
            self._too_much = others | {what: text}
            return text

    def confirm(self) -> None:
        """Trust the clock, as an operator confirmed it, and let any share of rows expire for the next `tolerance_ns`.

        Raises:
            Overloaded: the confirmation could not be stored.
        """
        with self._lock:
            self._trust()
            self._confirmed_steady_ns = self._options.steady_ns()
            self._too_much = {}
        log.warning("the clock was confirmed to be right")
        self._store()

    def note(self) -> None:
        """Remember the time as right, unless it is in doubt."""
        if self.doubt() is not None:
            return
        with self._lock:
            if abs(self._forward_ns()) <= _ABSORBED_NS or self._anchor.may_be_pause:
                self._trust()
            else:  # keep a tolerated step in the difference, or many small steps would add up to a large one
                passed_ns = self._options.steady_ns() - self._anchor.steady_ns
                self._anchor = _Anchor(self._anchor.wall_ns + passed_ns, self._anchor.steady_ns + passed_ns)
        with suppress(Overloaded):  # the next sweep stores the time again
            self._store()

    def _forward_ns(self) -> int:
        options, anchor = self._options, self._anchor
        return options.wall_ns() - anchor.wall_ns - (options.steady_ns() - anchor.steady_ns)

    def _trust(self) -> None:
        self._anchor = _Anchor(self._options.wall_ns(), self._options.steady_ns())
        self._doubt = None

    def _is_confirmed(self) -> bool:
        since_ns = self._confirmed_steady_ns
        return since_ns is not None and self._options.steady_ns() - since_ns <= self._options.tolerance_ns

    def _remembered(self) -> _Anchor:
        """Return the last trusted time of the file, else the time at which its newest span was received."""
        wall_ns, steady_ns = self._options.wall_ns(), self._options.steady_ns()
        with self._database.cursor() as cursor:
            row = cursor.execute(sql.query("trusted_time")).fetchone()
        if row is None or row[0] is None:
            newest_us = newest_receipt_us(self._database)
            return _Anchor(wall_ns if newest_us is None else newest_us * 1000, steady_ns, may_be_pause=True)
        trusted_us, boot, uptime_us = row
        if boot is not None and boot == self._options.boot_id and uptime_us * 1000 <= steady_ns:
            return _Anchor(trusted_us * 1000, uptime_us * 1000)
        return _Anchor(trusted_us * 1000, steady_ns, may_be_pause=True)

    def _clients_agree(self, doubt: _Doubt) -> bool:
        """Return True if the clock is ahead because the machine was off: spans received since then agree with it."""
        steady_ns = self._options.steady_ns()
        is_due = steady_ns - doubt.since_steady_ns >= self._options.tolerance_ns
        is_pause = self._anchor.may_be_pause and doubt.forward_ns > 0
        if not (is_due and is_pause and steady_ns - doubt.looked_steady_ns >= _LOOK_NS):
            return False
        doubt.looked_steady_ns = steady_ns
        commits = {"after": doubt.batch, "last": self._writer.totals.batch, "commits": _COMMITS}
        with self._database.cursor() as cursor:
            ((traces, spans, agreeing),) = cursor.execute(sql.query("client_times"), commits).fetchall()
        return bool(traces >= _TRACES and agreeing * 2 > spans)

    def _text(self, forward_ns: int) -> str:
        by, now = _duration(abs(forward_ns)), f"{datetime.fromtimestamp(self._options.wall_ns() / 1e9, UTC):%F %H:%MZ}"
        what = f"was set {'forward' if forward_ns > 0 else 'back'} by {by}"
        if self._anchor.may_be_pause:
            what = f"is {by} {'after' if forward_ns > 0 else 'before'} what the data directory remembers"
        return f"the clock of this machine ({now}) {what}: nothing is deleted because of its age; {HOW_TO_CONFIRM}"

    def _store(self) -> None:
        anchor = self._anchor
        values = {
            "at_us": anchor.wall_ns // 1000,
            "boot_id": self._options.boot_id,
            "uptime_us": anchor.steady_ns // 1000,
        }
        self._writer.store(lambda cursor: cursor.execute(sql.query("trust_time"), values), 1)


def _duration(ns: int) -> str:
    return f"{ns / _DAY_NS:.1f} days" if ns >= 2 * _DAY_NS else f"{ns / _HOUR_NS:.1f} hours"
