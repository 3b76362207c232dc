"""The streams of results that monitors watch, one for each project, rule, service and evaluator fingerprint.

What a stream remembers follows from the results that count, in the order of their numbers, and from nothing else.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from pydantic import TypeAdapter

from collector.alert_lines import finding_line
from rules.monitoring import Monitoring
from rules.statistics.events import EpisodeEvent, StreamRate
from rules.statistics.monitor import Monitor, MonitoredResult, MonitorState
from rules.statistics.releases import NO_RELEASES, ReleasesState, order_of
from storage.alerting.alerts import AlertFinding, Escalation, alert_id_of
from storage.alerting.monitors import Counted, Happening, PastResult, Recovery, StreamKey, StreamRow
from storage.records import JsonValue, Measure, StreamStart

EDITION: Final = 4
"""Edition of the format of a state: with another one, all states are rebuilt from the stored results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSource:
    """Data of streams besides the new results."""

    monitoring_of: Callable[[int], Monitoring]  # the settings of a revision of a rule
    past: Callable[[StreamKey, str, int, int], Sequence[PastResult]]  # a stream's results between two numbers, in order


@dataclass(slots=True, kw_only=True)
class StreamState:
    """State of a stream as stored. Results change it in place, except `monitor`, which is replaced on storing."""

    monitor: MonitorState  # as of the last time that the stream was stored
    settings_of: int  # the revision whose settings are used
    newest_job: int  # largest id of a job with a result of round 0
    began: StreamStart
    replaced: str | None  # the fingerprint that results of the rule had before
    first: int  # the number of the first result that is compared with
    last: int
    rule: str  # its name at the last result
    revision: int
    evaluator: str
    alert_id: str | None  # of the episode
    order: ReleasesState = NO_RELEASES  # order of releases, from the evaluator before


_STATE: Final = TypeAdapter(StreamState)


def state_of(row: StreamRow) -> StreamState:
    """Parse the state of a stream."""
    return _STATE.validate_json(row.state)


def results_to_compare_with(row: StreamRow, minimum: int) -> int | None:
    """Count the results that the next ones of a new evaluator are compared with.

    None if the evaluator replaced no other, or while an episode is open.
    """
    state = state_of(row)
    releases = state.monitor.releases
    if state.began != "evaluator" or state.monitor.episode is not None:
        return None
    if releases.current is None:
        return state.monitor.scored
    return (releases.baseline if compared_releases(releases, minimum)[0] else releases.own).count


def compared_releases(releases: ReleasesState, minimum: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the releases that the current one is compared with, and the current one, if there is one.

    `minimum` is the rule's current one; the stream's last result may have come under another.
    """
    current = () if releases.current is None else (releases.current,)
    return tuple(each for each in releases.against(minimum) if each not in current), current


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeAlarm:
    """Begin of an episode, or an escalation."""

    key: StreamKey
    event: EpisodeEvent
    measure: Measure
    monitoring: Monitoring
    result: Counted  # that raised it
    replaced: str | None
    open_alert_id: str | None = None  # of an escalation: the alert that is open already

    @property
    def episode(self) -> str:
        """Return the unique name of an episode, the same for each pass over the same results."""
        return json.dumps([*self.key.rule, self.result.fingerprint, self.event.kind, self.result.number])

    @property
    def alert_id(self) -> str:
        """Return the id of the alert."""
        return alert_id_of(self.key.tenant, self.episode)


Happened: TypeAlias = EpisodeAlarm | Recovery


class MonitoredStream:
    """The monitors of one stream."""

    def __init__(self, key: StreamKey, fingerprint: str, state: StreamState, source: StreamSource) -> None:
        self.key, self.fingerprint, self.state = key, fingerprint, state
        self._source = source
        self._monitoring = source.monitoring_of(state.settings_of)
        self._monitor = Monitor(self._monitoring.settings, state.monitor)
        self.since_us = self.updated_us = 0

    @classmethod
    def new(cls, result: Counted, before: "MonitoredStream | None", source: StreamSource) -> "MonitoredStream":
        """Create the stream of a first result; `before` is the stream of the evaluator that it replaces."""
        order = NO_RELEASES if before is None else before.order_for_another(result.number - 1)
        state = StreamState(
            monitor=MonitorState(releases=order),
            settings_of=result.revision,
            newest_job=-1,
            began="first" if before is None else "evaluator",
            replaced=None if before is None else before.fingerprint,
            first=result.number,
            last=result.number,
            rule=result.rule,
            revision=result.revision,
            evaluator=result.evaluator,
            alert_id=None,
            order=order,
        )
        stream = cls(result.key, result.fingerprint, state, source)
        stream.since_us = result.created_us
        return stream

    @classmethod
    def of(cls, row: StreamRow, source: StreamSource) -> "MonitoredStream":
        """Restore a stream from its row."""
        stream = cls(row.key, row.fingerprint, state_of(row), source)
        stream.since_us, stream.updated_us = row.since_us, row.updated_us
        return stream

    @property
    def row(self) -> StreamRow:
        """Return the row to store."""
        state = replace(self.state, monitor=self._monitor.state)
        return StreamRow(
            key=self.key,
            fingerprint=self.fingerprint,
            state=_STATE.dump_json(state).decode(),
            since_us=self.since_us,
            updated_us=self.updated_us,
        )

    @property
    def releases(self) -> ReleasesState:
        """Return the record of releases."""
        return self._monitor.state.releases

    def order_for_another(self, after: int) -> ReleasesState:
        """Return which release came after which, for another evaluator that begins after a number."""
        is_bad = self._monitor.state.episode is not None
        return order_of(self.releases, after, bad=is_bad)

    @property
    def is_established(self) -> bool:
        """Return True once the stream has replaced another: it then has as many results as a baseline needs."""
        return self.state.replaced is not None and self._monitor.scored >= self._monitoring.settings.minimum

    def add(self, result: Counted) -> Iterator[Happened]:
        """Add a result; return what happened."""
        state = self.state
        if result.round == 0 and result.job_id > state.newest_job:
            state.newest_job = result.job_id
            if result.revision != state.settings_of:
                yield from self._follow_settings(result)
        if not self._monitor.results:
            state.first, self.since_us = result.number, result.created_us
        state.last, self.updated_us = result.number, result.created_us
        state.rule, state.revision, state.evaluator = result.rule, result.revision, result.evaluator
        event = self._monitor.add(_measured(result, self._monitoring.of), result.number)
        if event is None:
            return
        match event.change:
            case "opened":
                alarm = self._alarm(event, result)
                state.alert_id = alarm.alert_id
                yield alarm
            case "escalated" if state.alert_id is not None:
                yield replace(self._alarm(event, result), open_alert_id=state.alert_id)
            case _:
                yield from self._recover(_recovery_document(event))

    def end(self, how: str, number: int) -> Iterator[Happened]:
        """Forget the earlier results, which ends an open episode, for the reason `how`."""
        self._monitor = Monitor(self._monitoring.settings)
        yield from self._recover({"how": how, "at": number})

    def is_about(self, event: EpisodeEvent) -> bool:
        """Return whether an alert is open for the same kind of drop, and in the same release if it came with one."""
        episode = self._monitor.state.episode
        if self.state.alert_id is None or episode is None or episode.kind != event.kind:
            return False
        return event.kind != "release" or self.releases.current == event.release

    def hand_over(self) -> str | None:
        """Return the open alert, for another stream to continue, and forget the earlier results."""
        alert_id, self.state.alert_id = self.state.alert_id, None
        self._monitor = Monitor(self._monitoring.settings)
        return alert_id

    def _alarm(self, event: EpisodeEvent, result: Counted) -> EpisodeAlarm:
        return EpisodeAlarm(
            key=self.key,
            event=event,
            measure=self._monitor.measure or "passed",
            monitoring=self._monitoring,
            result=result,
            replaced=self.state.replaced,
        )

    def _follow_settings(self, result: Counted) -> Iterator[Happened]:
        before, self.state.settings_of = self._monitoring, result.revision
        self._monitoring = self._source.monitoring_of(result.revision)
        if replace(self._monitoring, scores=before.scores, severity=before.severity) != before:
            yield from self._rebuild(result)

    def _rebuild(self, result: Counted) -> Iterator[Happened]:
        """Replay the results before `result` with the changed settings, so that a drop is still compared with them.

        Episodes that are over are not reported. Afterwards an alert is open exactly if an episode is going on by these
        settings.
        """
        first = self.state.first if self._monitor.results else result.number
        past = self._source.past(self.key, self.fingerprint, first, result.number)
        self._monitor = Monitor(self._monitoring.settings, MonitorState(releases=self.state.order))
        ongoing: EpisodeEvent | None = None
        for each in past:
            event = self._monitor.add(_measured(each, self._monitoring.of), each.number)
            if event is not None:
                ongoing = event if event.change in {"opened", "escalated"} else None
        if past:
            self.state.first, self.since_us = past[0].number, past[0].created_us
        if ongoing is None:
            yield from self._recover({"how": "settings", "at": result.number})
        elif self.state.alert_id is None:
            alarm = self._alarm(ongoing, result)
            self.state.alert_id = alarm.alert_id
            yield alarm

    def _recover(self, document: Mapping[str, JsonValue]) -> Iterator[Happened]:
        if self.state.alert_id is not None:
            yield Recovery(tenant=self.key.tenant, alert_id=self.state.alert_id, document=document)
            self.state.alert_id = None


def _measured(result: Counted | PastResult, of: Measure | None) -> MonitoredResult:
    score = result.score
    fits = score is not None and 0 <= score <= 1
    return MonitoredResult(
        result.release,
        None if of == "score" else result.passed,
        score if fits and of != "passed" else None,
        result.is_baseline,
    )


def _recovery_document(event: EpisodeEvent) -> dict[str, JsonValue]:
    return {
        "how": event.change,
        "at": event.at,
        "release": event.release,
        "baseline": rate_document(event.baseline),
        "candidate": rate_document(event.candidate),
        "evidence": event.evidence,
        "evidenceThreshold": event.threshold,
    }


def rate_document(rate: StreamRate) -> dict[str, JsonValue]:
    """Return a rate with its interval and count, for an alert."""
    return {"rate": rate.mean, "low": rate.interval.low, "high": rate.interval.high, "count": rate.count}


def log_text(happened: Happening) -> str:
    """Return the log line for a change of an alert."""
    match happened:
        case Recovery():
            return f"alert {happened.alert_id} is over ({happened.document['how']})"
        case Escalation():
            return f"alert {happened.alert_id} is worse than before: {finding_line(happened.finding)}"
        case AlertFinding():
            return f"alert {happened.alert_id} ({happened.metric or happened.kind}): {finding_line(happened)}"
        case _:
            assert_never(happened)
