"""The conditions of a running server that are reported while they hold."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from collector.conditions import CANNOT_COMMIT, DAMAGED, RECORDED_TWICE, ServerCondition, Sighting, Sightings
from collector.escaping import one_line
from collector.ingest import Ingest
from collector.listeners.certificate import Certificate
from collector.listeners.closed_connections import LACKS_OF_ROOM, ClosedConnections, Reason
from collector.live.active import ActiveRule
from collector.live.judges.failing_judges import FailingJudge
from collector.live.upkeep.lake_publisher import LakePublisher
from collector.meters import Traffic
from collector.otlp.signals import TRACES
from collector.units import count_text, duration_text
from storage.ingest.windows import TraceKey
from storage.operation.gauges import RecordedTwice
from storage.store import Store

_BEGINS_AFTER_S: Final = 5.0
"""Delay of conditions. A guess: a commit that fails once, or a disk that is full for a moment, is not an emergency."""

_STUCK_S: Final = 30.0
"""Duration from which a transaction counts as stuck; it usually takes tenths of a second. A guess."""

_BEHIND_S: Final = 60.0
"""Lag from which matching, or the lake, is reported: a burst of some seconds often causes a lag of most of a minute."""

_QUIET_S: Final = 10.0
"""Time without a refusal, or another sign of it, after which a condition ends: refused senders retry within seconds. A
guess."""

_CROWD_S: Final = 60.0
"""Time without a cut connection after which `connections_refused` ends: clients reconnect within a minute. A guess."""

_CERTIFICATE_S: Final = 5.0
"""Interval of checks of a certificate's files, which are two calls of stat. A guess."""

_TWICE_S: Final = 60.0
"""Interval of checks for calls that were recorded twice: 13 ms of CPU each at 28 spans/s, 55 ms at 1,000.

A check takes 0.1 s at 500 calls/s, whether all calls have equal usage and last 2 s or all differ.
"""

_SHOWN: Final = 20
"""Pairs of scopes, or traces, that are reported one by one: a guess at what a page can show."""

_UNREPORTED: Final = frozenset({"unauthenticated", "forbidden"})
"""Refusals that are in the audit, with who was refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The watched parts of a server."""

    store: Store
    ingest: Ingest
    traffic: Traffic
    rules: Callable[[], Sequence[ActiveRule]]
    judge_problem: Callable[[ActiveRule], str | None]
    failing_judges: Callable[[int], Sequence[FailingJudge]] = lambda _: ()  # at an instant
    unbound_budgets: Callable[[], Mapping[str, str]] = dict  # by payer
    traces_set_aside: Callable[[], Mapping[TraceKey, str]] = dict
    certificate: Certificate | None = None
    closed: ClosedConnections = field(default_factory=ClosedConnections)
    stuck_s: float = _STUCK_S
    lake: LakePublisher | None = None


def server_conditions(watched: ServerState) -> Sequence[ServerCondition]:
    """Return all conditions of a server."""
    store = watched.store
    return (
        ServerCondition(name="turned_away", look=_Refusals(watched).look, ends_after_s=_QUIET_S),
        ServerCondition(name="connections_refused", look=_Crowds(watched.closed).look, ends_after_s=_CROWD_S),
        ServerCondition(name="disk_full", look=lambda: _disk_full(store), ends_after_s=_QUIET_S),
        ServerCondition(
            name=CANNOT_COMMIT, look=lambda: _cannot_commit(store, watched.stuck_s), begins_after_s=_BEGINS_AFTER_S
        ),
        ServerCondition(name=DAMAGED, look=lambda: _damaged(store)),
        ServerCondition(name="erasure_blocked", look=lambda: _blocked(store)),
        ServerCondition(name="memory_raised", look=lambda: _memory_raised(store)),
        ServerCondition(name="matching_behind", look=lambda: _behind(store), every_s=10.0, ends_after_s=_QUIET_S),
        ServerCondition(name="trace_set_aside", look=lambda: _set_aside(watched.traces_set_aside())),
        ServerCondition(name="deletion_held", look=lambda: _held(store), every_s=5.0),
        ServerCondition(name="judge_unable", look=lambda: _unable(watched), every_s=5.0),
        ServerCondition(name="budget_unbound", look=watched.unbound_budgets, every_s=5.0),
        ServerCondition(name="judge_failing", look=lambda: _failing(watched), ends_after_s=_QUIET_S),
        ServerCondition(
            name=RECORDED_TWICE, look=lambda: _recorded_twice(store, time.time_ns() // 1000), every_s=_TWICE_S
        ),
        ServerCondition(
            name="lake_behind", look=lambda: _unpublished(watched.lake), every_s=5.0, begins_after_s=_BEHIND_S
        ),
        ServerCondition(name="lake_not_set", look=lambda: _noted(store.left_behind)),
        ServerCondition(name="certificate", look=lambda: _certificate(watched.certificate), every_s=_CERTIFICATE_S),
    )


class _Refusals:
    """Refused export requests since the last look, by reason."""

    def __init__(self, watched: ServerState) -> None:
        self._watched = watched
        self._seen: Counter[str] = Counter()

    def look(self) -> Sightings:
        counts: Counter[str] = Counter()
        for labels, count in self._watched.traffic.undecoded_requests.read().items():
            counts[dict(labels)["reason"]] += int(count)
        refused = self._watched.ingest.outcomes["refused", TRACES.noun]
        grown = {reason for reason, count in counts.items() if count > self._seen[reason]} - _UNREPORTED
        if refused > self._seen["refused spans"]:
            grown.add("overloaded")
        self._seen = counts | Counter({"refused spans": refused})
        return {reason: self._reason_text(reason, counts[reason], refused) for reason in grown}

    def _reason_text(self, reason: str, requests: int, refused: int) -> str:
        since_start = f"{count_text(requests, 'export request')} since the start"
        if reason != "overloaded":
            return f"{reason.replace('_', ' ')}: {since_start}"
        why = (
            self._watched.store.overload
            or "senders had more under way than their shares of queue_bytes and backlog_bytes"
        )
        return f"{why}; refused were {since_start}, and {count_text(refused, 'decoded span')}"


class _Crowds:
    """Watcher of connections that were closed since the previous check because there are too many."""

    def __init__(self, closed: ClosedConnections) -> None:
        self._closed = closed
        self._seen: Counter[tuple[str, Reason]] = Counter()

    def look(self) -> Sightings:
        counts = Counter({key: count for key, count in self._closed.counts.items() if key[1] in LACKS_OF_ROOM})
        grown, self._seen = counts - self._seen, counts
        return {
            f"{listener}/{reason}": f"the listener {listener} cuts connections: {self._closed.why(listener, reason)};"
            f" {counts[listener, reason]:,} since the start"
            for listener, reason in grown
        }


def _disk_full(store: Store) -> Sightings:
    free = f"{store.disk_free_bytes >> 20} MiB are left"
    stuck = store.lack_of_room
    room = f". Deletions and expiry make no room without a checkpoint: {stuck}" if stuck else ""
    if store.disk_is_full:
        kept = "kept for spans that wait for their commit; new ones are refused until there is more"
        return {"": f"{free}, and {kept}{room}"}
    if store.is_short_of_room:
        kept = "kept for spans: rules, results and changes are stored again once there is more"
        return {"": f"{free}, and {kept}{room}"}
    return {"": f"{free}{room}"} if stuck else {}


def _cannot_commit(store: Store, stuck_s: float) -> Sightings:
    writing_s = store.writing_s
    if store.disk_is_full:
        return {"": "the disk is full"}
    if store.failing is not None:
        return {"": f"the database cannot be written: {store.failing}"}
    if writing_s is not None and writing_s > stuck_s:
        return {"": f"one transaction has been under way for more than {stuck_s:g} s"}
    return {}


def _damaged(store: Store) -> Sightings:
    return {place: f"{place}: {message}" for place, message in store.damage.places.items()}


def _blocked(store: Store) -> Sightings:
    return {} if store.erasure.blocked is None else {"": f"no deletion can end: {store.erasure.blocked}"}


def _memory_raised(store: Store) -> Sightings:
    if store.raised_bytes is None:
        return {}
    mib = store.raised_bytes >> 20
    return {"": f"duckdb_memory was too small for the stored data and is exceeded: set duckdb_memory: {mib}MiB"}


def _behind(store: Store) -> Sightings:
    behind = store.gauges.unmatched()
    if behind.seconds < _BEHIND_S:
        return {}
    waits = duration_text(behind.seconds * 1e3)
    return {"": f"{count_text(behind.spans, 'span')} wait to be matched, the first of them for {waits}"}


def _unpublished(lake: LakePublisher | None) -> Sightings:
    if lake is None:
        return {}
    if lake.failing is not None:
        waits = duration_text(lake.lag_s * 1e3)
        return {"": f"nothing was published in the lake for {waits}: {one_line(lake.failing)}"}
    if lake.held is not None:
        return {"moving": f"traces of more than {lake.mover.hot_days} days stay in the database: {one_line(lake.held)}"}
    if lake.mover.shortage is not None:
        return {"room": f"{one_line(lake.mover.shortage)}; it grows until there is room, or the disk is full"}
    return {}


def _noted(text: str | None) -> Sightings:
    return {} if text is None else {"": text}


def _certificate(certificate: Certificate | None) -> Sightings:
    return {} if certificate is None else certificate.look()


def _recorded_twice(store: Store, now_us: int) -> Sightings:
    pairs = store.gauges.calls_recorded_twice(now_us)
    sightings = {
        f"{each.tenant}/{each.project}/{each.scope}/{each.other_scope}": _twice_text(each) for each in pairs[:_SHOWN]
    }
    others = len(pairs) - len(sightings)
    return (
        sightings
        if others <= 0
        else sightings | {"": f"{count_text(others, 'more pair')} of scopes and projects do so"}
    )


def _twice_text(pair: RecordedTwice) -> str:
    scopes = f"{one_line(pair.scope)} and {one_line(pair.other_scope)}"
    calls = f"{'at least ' if pair.is_sample else ''}{count_text(pair.calls, 'call')}"
    which = "one of them in drop_scopes; both recorded as much beside these calls"
    if pair.expendable is not None:
        which = f"{one_line(pair.expendable)} in drop_scopes; the other one recorded more beside these calls"
    return (
        f"{scopes} recorded {calls} of models of project {pair.project!r} in two traces each in the last hour, which"
        f" doubles tokens and cost: name {which}"
    )


def _set_aside(traces: Mapping[TraceKey, str]) -> Sightings:
    sightings = {
        f"{key.tenant}/{key.trace_id}": f"trace {key.trace_id} of tenant {key.tenant!r} cannot be added up, and has no"
        f" input, output, usage or tool calls: {why}"
        for key, why in islice(traces.items(), _SHOWN)
    }
    others = len(traces) - len(sightings)
    return sightings if others <= 0 else sightings | {"": f"{count_text(others, 'more trace')} cannot be added up"}


def _held(store: Store) -> Sightings:
    held = store.aging.held
    return {} if held is None else {"": held}


def _failing(watched: ServerState) -> Sightings:
    failing = watched.failing_judges(time.time_ns())
    return {each.about: Sighting(each.text, each.since_ns, each.cause) for each in failing}


def _unable(watched: ServerState) -> Sightings:
    problems = {rule.rule_id: (rule, watched.judge_problem(rule)) for rule in watched.rules()}
    return {
        rule_id: f"the rule {rule.rule.name!r} judges nothing: {problem}"
        for rule_id, (rule, problem) in problems.items()
        if problem is not None
    }
