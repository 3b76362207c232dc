"""The thread that follows results as they are stored, and raises alerts when they become worse."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from collector.follower import CatchUpBarrier, FollowerThread, IngestPriority
from collector.live.active import ActiveRule
from collector.live.monitors.streams import EDITION, EpisodeAlarm, Happened, MonitoredStream, StreamSource, log_text
from rules.monitoring import AS_USUAL, Monitoring
from rules.statistics.events import StreamRate
from rules.statistics.sample import ResultRange
from storage.alerting.alerts import AlertFinding, ComparedSide, Escalation
from storage.alerting.monitors import (
    Counted,
    Cursor,
    Monitors,
    StreamKey,
    StreamPart,
    WatchStep,
    is_of_scores,
    numbers_of_alert,
)

log = logging.getLogger(__name__)

_MOST: Final = 4096
"""Results in one transaction. Each took 9 µs of processor time if all were of one stream, 20 µs with a hundred streams;
with 512 results in a transaction 27 and 43 µs, with 16,384 9 and 13 µs."""

_STREAMS: Final = 2_000
"""Streams that are kept in memory; with more, all are dropped, and read again when needed. A guess: a stored one has 2
to 11 kB."""


_PAUSE_S: Final = 1.0
_TICK_S: Final = 1.0
_GATHER_S: Final = 1.0
"""Time for which results are gathered, since each check is a transaction: a guess at an unnoticed delay."""

Group = dict[str, MonitoredStream]


class MonitorThread:
    """Thread that watches each counted result exactly once, in the order of storage."""

    def __init__(
        self,
        monitors: Monitors,
        revision: Callable[[int], ActiveRule | None],
        *,
        ingest_is_behind: Callable[[], bool] = lambda: False,
        count_scores: Callable[[], int] = lambda: 0,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Set up the monitors. `revision` returns any revision that ever existed.

        `count_scores` turns scores into results.
        """
        self._monitors = monitors
        self._revision = revision
        self._source = StreamSource(monitoring_of=self._monitoring_of, past=monitors.past)
        self._ingest_first = IngestPriority(ingest_is_behind)
        self._count_scores = count_scores
        self._clock = clock
        self._groups: dict[StreamKey, Group] = {}
        self._caught_up = CatchUpBarrier()
        self._wait_ended = threading.Event()  # set by a caller of `wait_watched`, so that gathering ends
        self._thread = FollowerThread(
            self._watch_on, name="monitors", doing="watching results", log=log, pause_s=_PAUSE_S
        )

    def start(self) -> None:
        """Continue from where the last process stopped."""
        self._thread.start()

    def close(self) -> None:
        """Stop; the next start continues with the rest."""
        self._thread.close(self._end_waits)

    def wait_watched(self, timeout_s: float) -> bool:
        """Wait until every result stored before was watched; False after the timeout."""
        return self._caught_up.wait(timeout_s, self._end_waits)

    def _end_waits(self) -> None:
        self._wait_ended.set()
        self._monitors.wake()

    def _watch_on(self) -> None:
        self._groups.clear()  # a step that failed may be stored all the same, or not
        self._monitors.begin(EDITION)
        cursor = self._monitors.cursor()
        while not self._thread.stopping.is_set():
            self._ingest_first.wait(self._thread.stopping)
            requested = self._caught_up.requested
            self._count_scores()
            until = self._step(cursor)
            if until > cursor.number:
                cursor = Cursor(number=until, announced=cursor.announced)
                continue
            self._ingest_first.caught_up()
            for alert_id in self._monitors.end_alerts_of_deleted_rules(self._clock()):
                log.info("alert %s recovered (its rule was deleted)", alert_id)
            self._caught_up.tell(requested)
            self._monitors.wait_for_results(_TICK_S)
            self._wait_ended.wait(_GATHER_S)
            self._wait_ended.clear()

    def _step(self, cursor: Cursor) -> int:
        """Watch the next results; return up to which number."""
        results, until = self._monitors.results(cursor.number, _MOST)
        if until == cursor.number:
            return until
        self._recall({result.key for result in results})
        touched: dict[int, MonitoredStream] = {}
        happened: list[Happened] = []
        for result in results:
            group = self._groups[result.key]
            stream = group.get(result.fingerprint)
            if stream is None:
                before = max(_evaluators(group, result.fingerprint), key=lambda each: each.state.last, default=None)
                stream = group[result.fingerprint] = MonitoredStream.new(result, before, self._source)
            touched[id(stream)] = stream
            news = [each for each in stream.add(result) if not self._takes_over(each, stream, group, touched)]
            # Repeated judgements may show that an open alert still holds: it stays open until live results come.
            if stream.is_established and not result.is_baseline:
                news += self._end_others(stream, group, result, touched)
            happened += news if result.number > cursor.announced else ()
        step = WatchStep(
            after=cursor.number,
            until=until,
            streams=[stream.row for stream in touched.values()],
            happened=[self._to_store(each) if isinstance(each, EpisodeAlarm) else each for each in happened],
            at_ns=self._clock(),
        )
        self._monitors.store(step)
        for each in step.happened:
            log.info("%s", log_text(each))
        return until

    def _recall(self, keys: set[StreamKey]) -> None:
        """Load the stored streams of these rules into memory, if they are not there."""
        if sum(map(len, self._groups.values())) > _STREAMS:
            self._groups.clear()
        unknown = keys - self._groups.keys()
        if not unknown:
            return
        self._groups |= {key: {} for key in unknown}
        for row in self._monitors.streams(unknown):
            self._groups[row.key][row.fingerprint] = MonitoredStream.of(row, self._source)

    @staticmethod
    def _takes_over(
        happened: Happened, stream: MonitoredStream, group: Group, touched: dict[int, MonitoredStream]
    ) -> bool:
        """Let `stream` take over the open alert of another evaluator about the same drop; True if it did."""
        if not isinstance(happened, EpisodeAlarm) or happened.open_alert_id is not None:
            return False
        for other in _evaluators(group, stream.fingerprint):
            if other is not stream and other.is_about(happened.event):
                stream.state.alert_id = other.hand_over()
                touched[id(other)] = other
                return True
        return False

    @staticmethod
    def _end_others(
        stream: MonitoredStream, group: Group, result: Counted, touched: dict[int, MonitoredStream]
    ) -> Iterator[Happened]:
        for other in _evaluators(group, stream.fingerprint):
            if other.state.alert_id is not None and other.state.last < stream.state.first:
                touched[id(other)] = other
                yield from other.end("evaluator", result.number)

    def _monitoring_of(self, revision: int) -> Monitoring:
        active = self._revision(revision)
        return AS_USUAL if active is None else active.rule.monitoring

    def _to_store(self, alarm: EpisodeAlarm) -> AlertFinding | Escalation:
        finding = self._finding(alarm)
        if alarm.open_alert_id is None:
            return finding
        return Escalation(tenant=alarm.key.tenant, alert_id=alarm.open_alert_id, finding=finding)

    def _finding(self, alarm: EpisodeAlarm) -> AlertFinding:
        """Return the alert, with the evidence to check it."""
        event, result, key = alarm.event, alarm.result, alarm.key
        sides = {"baseline": _parts(event.of_baseline), "candidate": _parts(event.of_candidate)}
        worst = self._monitors.worst(
            key,
            result.fingerprint,
            sides["candidate"][0],
            alarm.measure,
            lower_is_better=alarm.monitoring.settings.lower_is_better,
        )
        by_release = event.kind == "release"
        return AlertFinding(
            tenant=key.tenant,
            episode=alarm.episode,
            project=key.project,
            rule_id=key.rule_id,
            rule=result.rule,
            revision=result.revision,
            kind=event.kind,
            evaluator=result.evaluator,
            fingerprint=result.fingerprint,
            measure=alarm.measure,
            baseline=_side(event.baseline, ", ".join(event.against) if by_release and event.against else None),
            candidate=_side(event.candidate, event.release if by_release else None),
            regressed_count=worst.not_passed,
            evidence=event.evidence,
            evidence_threshold=event.threshold,
            severity=alarm.monitoring.severity,
            document={
                "examples": [dict(each) for each in worst.examples],
                "sql": numbers_of_alert(key, result.fingerprint, alarm.measure, sides),
                **({"service": key.service} if key.service else {}),
                "resultNumber": result.number,
                "replacedFingerprint": alarm.replaced,
                "alpha": alarm.monitoring.settings.alpha,
                "margin": alarm.monitoring.settings.margin,
            },
        )


def _evaluators(group: Group, fingerprint: str) -> list[MonitoredStream]:
    if is_of_scores(fingerprint):
        return []
    return [stream for stream in group.values() if not is_of_scores(stream.fingerprint)]


def _side(rate: StreamRate, release: str | None) -> ComparedSide:
    return ComparedSide(
        release=release, rate=rate.mean, low=rate.interval.low, high=rate.interval.high, count=rate.count
    )


def _parts(stretches: tuple[ResultRange, ...]) -> list[StreamPart]:
    return [StreamPart(after=each.after, until=each.until, releases=each.releases) for each in stretches]
