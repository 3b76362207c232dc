"""Status of a server as a document."""

from collections.abc import Iterable

from collector.api.base.times import time_text
from collector.api.documents.rule_documents import ProblemOf
from collector.api.responses.judging import FileProblemDocument, SpendingDocument
from collector.api.responses.server import (
    ConditionDocument,
    DeletionCounts,
    JobCounts,
    LagDocument,
    LakeState,
    OutcomeCounts,
    RuleCounts,
    RunningServer,
    SettlingDocument,
    StatusDocument,
    StoredLogs,
    StoredSpans,
    UnableRule,
)
from collector.conditions import Lasting
from collector.live.rules.active_rules import LoadedRule
from collector.live.rules.rule_folder import FileProblem
from collector.live.upkeep.lake_publisher import LakePublisher
from rules.settling import Settling
from storage.operation.status import Lag, Status


def status_document(
    status: Status, rules: RuleCounts, *, server: RunningServer | None, settling: Settling, now_ns: int
) -> StatusDocument:
    """Describe the status at one moment; `server` is the part that only a running server knows."""
    totals = status.totals
    return StatusDocument(
        time=str(time_text(now_ns)),
        server=server,
        spans=StoredSpans.of(totals),
        logs=StoredLogs(stored=totals.logs_stored, already_present=totals.logs_already_present),
        traces=_lag(status.adding_up, now_ns),
        older_spans=status.older_spans,
        matching=_lag(status.matching, now_ns),
        rules=rules,
        jobs=JobCounts(
            **status.jobs,
            tried=status.tried_jobs,
            oldest_at=time_text(status.oldest_job_ns),
            oldest_seconds=_seconds_since(status.oldest_job_ns, now_ns),
        ),
        open_traces=status.open_traces,
        settling=SettlingDocument.of(settling),
        deletions=DeletionCounts(**status.deletions),
        last24h=OutcomeCounts(**status.outcomes),
        spent_today=SpendingDocument.of(status.spent_today),
    )


def rule_counts(
    kept: Iterable[LoadedRule], problems: Iterable[FileProblem], problem_of: ProblemOf, comparison_of: ProblemOf
) -> RuleCounts:
    """Count rules; list those that judge nothing or restart comparisons, and problems of files."""
    kept = list(kept)
    enabled = [each.stored.enabled for each in kept]
    return RuleCounts(
        in_force=enabled.count(True),
        disabled=enabled.count(False),
        unable=_noted(kept, problem_of),
        comparing_anew=_noted(kept, comparison_of),
        problems=[FileProblemDocument.of(problem, line=problem.line or None) for problem in problems],
    )


def condition_document(lasting: Lasting) -> ConditionDocument:
    """Serialize a condition that currently holds."""
    return ConditionDocument(name=lasting.name, message=lasting.message, since=str(time_text(lasting.since_ns)))


def lake_document(lake: LakePublisher | None) -> LakeState | None:
    """Describe the state of the lake, if there is one."""
    if lake is None:
        return None
    size, day = lake.mover.lake.size, lake.mover.lake.moved_before()
    return LakeState(
        lag_seconds=lake.lag_s,
        rows=sum(lake.rows.values()),
        waiting=lake.waiting,
        moved_before=None if day is None else day.isoformat(),
        files=None if size is None else size.files,
        size_bytes=None if size is None else size.nbytes,
        maintained_at=None if size is None else time_text(size.at_ns),
    )


def _noted(kept: Iterable[LoadedRule], note_of: ProblemOf) -> list[UnableRule]:
    """Return the enabled rules that have a note, each with its note."""
    return [
        UnableRule.of(each.stored, id=each.stored.rule_id, message=message)
        for each in kept
        if each.stored.enabled and (message := note_of(each.active)) is not None
    ]


def _lag(lag: Lag, now_ns: int) -> LagDocument:
    return LagDocument(spans_behind=lag.spans, seconds_behind=_seconds_since(lag.since_ns, now_ns) or 0.0)


def _seconds_since(time_ns: int | None, now_ns: int) -> float | None:
    return None if time_ns is None else max(now_ns - time_ns, 0) / 1e9
