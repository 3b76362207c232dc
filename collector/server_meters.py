"""The metrics of a running server."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.access.authenticator import Authenticator
from collector.access.journal import AuditJournal
from collector.conditions import ServerConditions
from collector.exporters.results import ResultsExporter
from collector.ingest import Ingest
from collector.listeners.closed_connections import ClosedConnections
from collector.listeners.response_buffer import ResponseBufferLimit
from collector.live.budgets.budgets import Budgets
from collector.live.judges.failing_judges import FailingJudge
from collector.live.upkeep.lake_publisher import LakePublisher
from collector.live.upkeep.sweeper import Sweeper
from collector.machine import versions
from collector.meters import Labels, Meter, Traffic
from collector.otlp import wire
from collector.reading.spans import ReadingCounts
from storage.operation.gauges import Behind, WaitingCounts
from storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredServer:
    """The measured parts of a server."""

    data: Path
    store: Store
    ingest: Ingest
    authenticator: Authenticator
    budgets: Budgets
    sweeper: Sweeper
    exporter: ResultsExporter | None
    lake: LakePublisher | None
    conditions: ServerConditions
    failing_judges: Callable[[int], Sequence[FailingJudge]]  # at an instant
    rules_by_state: Callable[[int], Mapping[str, int]]  # at an instant
    reading: ReadingCounts
    closed: ClosedConnections
    answers: ResponseBufferLimit


def server_meters(measured: MeasuredServer) -> Sequence[Meter]:
    """Return all meters of a server."""
    look = measured.store.gauges.look
    return (
        *_ingest_meters(measured.ingest),
        *_traffic_meters(measured.authenticator.traffic),
        _connection_meter(measured.closed),
        *_answer_meters(measured.answers),
        *_store_meters(measured.store),
        *_reading_meters(measured.reading),
        *_behind("stale_trace", "traces", "committed and not in the sums of their traces yet", lambda: look().stale),
        *_behind("unmatched", "matching", "committed and not matched against rules yet", lambda: look().unmatched),
        *_work_meters(look),
        *_judge_meters(measured.budgets),
        *_failing_meters(measured.failing_judges),
        _rules_meter(measured.rules_by_state),
        *_sweep_meters(measured.sweeper),
        *_deletion_meters(measured.store, look),
        *_disk_meters(measured.store, measured.data),
        *_results_meters(look, measured.exporter),
        *_lake_meters(measured.lake),
        *_other_meters(measured.ingest, measured.authenticator.journal, measured.conditions),
    )


def _reading_meters(reading: ReadingCounts) -> Sequence[Meter]:
    return (
        Meter(
            name="tracejury_read_alone_total",
            text="Spans read one by one instead of in columns since startup, by reason.",
            read=lambda: {(("reason", reason),): count for reason, count in reading.spans.items()},
        ),
    )


def _ingest_meters(ingest: Ingest) -> Sequence[Meter]:
    return (
        Meter(
            name="tracejury_received_total",
            text="Spans and log records decoded since startup, by outcome.",
            read=lambda: {
                (("kind", noun), ("outcome", outcome)): count for (outcome, noun), count in ingest.outcomes.items()
            },
        ),
        Meter(
            name="tracejury_dropped_spans_total",
            text="Spans dropped by the setting drop_scopes since startup, by its project and scope.",
            read=lambda: {
                (("project", entry.project), ("scope", entry.scope)): count for entry, count in ingest.dropped.items()
            },
        ),
        Meter(
            name="tracejury_queue_bytes",
            text="Bytes of request bodies in progress.",
            read=lambda: ingest.budget.held,
        ),
        Meter(
            name="tracejury_decoder_panics_total",
            text=("Panics of the columnar decoder since startup; each request was decoded the slow way instead."),
            read=lambda: wire.panics.count,
        ),
    )


def _traffic_meters(traffic: Traffic) -> Sequence[Meter]:
    return (
        Meter(
            name="tracejury_undecoded_requests_total",
            text="Export requests refused before their spans or log records were counted.",
            read=traffic.undecoded_requests.read,
        ),
        Meter(
            name="tracejury_undecoded_bytes_total",
            text="Received body bytes of export requests refused before their spans or log records were counted.",
            read=traffic.undecoded_bytes.read,
        ),
        Meter(
            name="tracejury_http_requests_total",
            text="HTTP responses since startup.",
            read=traffic.http.read,
        ),
        Meter(
            name="tracejury_grpc_requests_total",
            text="gRPC responses since startup.",
            read=traffic.grpc.read,
        ),
    )


def _connection_meter(closed: ClosedConnections) -> Meter:
    return Meter(
        name="tracejury_closed_connections_total",
        text="Connections closed or refused by a listener because of a limit since startup.",
        read=lambda: {
            (("listener", listener), ("reason", reason)): count for (listener, reason), count in closed.counts.items()
        },
    )


def _answer_meters(answers: ResponseBufferLimit) -> Sequence[Meter]:
    return (
        Meter(
            name="tracejury_answer_bytes",
            text="Bytes of HTTP responses that clients have not read yet.",
            read=lambda: answers.held,
        ),
        Meter(
            name="tracejury_refused_answers_total",
            text="HTTP responses refused since startup because the client had too many unread ones.",
            read=lambda: answers.refused,
        ),
    )


def _store_meters(store: Store) -> Sequence[Meter]:
    return (
        Meter(
            name="tracejury_stored_total",
            text="Committed rows by outcome, over the life of the data directory.",
            read=lambda: _by(
                "outcome",
                {
                    "stored": store.totals.stored + store.totals.logs_stored,
                    "already_present": store.totals.already_present + store.totals.logs_already_present,
                    "set_aside": store.totals.set_aside,
                },
            ),
        ),
        Meter(
            name="tracejury_backlog_bytes",
            text="Bytes of durable spans and log records that wait for their commit.",
            read=lambda: store.backlog_bytes,
        ),
        Meter(
            name="tracejury_commits_failing",
            text="1 while commits fail and are retried.",
            read=lambda: int(store.failing is not None),
        ),
        Meter(
            name="tracejury_broken_queries_total",
            text="Client statements since startup that invalidated the database, which was then reopened.",
            read=lambda: store.queries.offences.count,
        ),
        Meter(
            name="tracejury_damage_errors_total",
            text="Errors since startup that reported damaged data.",
            read=lambda: store.damage.count,
        ),
        Meter(
            name="tracejury_lost_spans_total",
            text="Spans and log records lost in damaged records of the spool, met at the start; 1 for each that hides "
            "their number.",
            read=lambda: store.damage.lost_rows,
        ),
        Meter(
            name="tracejury_commit_seconds",
            text="Duration of transactions, from the first statement to the end of the commit.",
            read=lambda: store.gauges.commits,
        ),
    )


def _behind(waiting: str, what: str, state: str, look: Callable[[], Behind]) -> Sequence[Meter]:
    return (
        Meter(
            name=f"tracejury_{waiting}_spans",
            text=f"Spans that are {state}.",
            read=lambda: look().spans,
        ),
        Meter(
            name=f"tracejury_{what}_lag_seconds",
            text="Time since the arrival of the first span that still waits.",
            read=lambda: look().seconds,
        ),
    )


def _work_meters(look: Callable[[], WaitingCounts]) -> Sequence[Meter]:
    return (
        Meter(
            name="tracejury_jobs",
            text="Unfinished evaluations by job state.",
            read=lambda: _by("state", look().jobs),
        ),
        Meter(
            name="tracejury_results_total",
            text="Finished evaluations, over the life of the data directory.",
            read=lambda: look().results,
        ),
        Meter(
            name="tracejury_unwatched_results",
            text="Results that monitors have not checked yet.",
            read=lambda: look().unwatched_results,
        ),
        Meter(
            name="tracejury_alerts",
            text="Alerts that have not recovered.",
            read=lambda: _by("state", look().alerts),
        ),
        Meter(
            name="tracejury_webhook_deliveries",
            text="Alert deliveries of the last ninety days, by state.",
            read=lambda: _by("state", look().deliveries),
        ),
    )


def _judge_meters(budgets: Budgets) -> Sequence[Meter]:
    return (
        Meter(
            name="tracejury_judge_calls_total",
            text=("Judge requests since startup: answered; charged without a usable response; failed at no cost."),
            read=lambda: _by("outcome", budgets.taken.outcomes),
        ),
        Meter(
            name="tracejury_judge_seconds",
            text="Duration of judge requests, until the response or the failure.",
            read=lambda: budgets.taken.answers,
        ),
        Meter(
            name="tracejury_judge_tokens_total",
            text="Tokens used by judges since startup; the reserved ones if the endpoint reported none.",
            read=lambda: budgets.taken.tokens,
        ),
        Meter(
            name="tracejury_judge_usd_total",
            text="Cost of judge requests whose model has a price.",
            read=lambda: budgets.taken.usd,
        ),
        Meter(
            name="tracejury_judge_unpriced_calls_total",
            text="Judge calls with unknown cost, because the connection has no price.",
            read=lambda: budgets.taken.unpriced_calls,
        ),
    )


def _failing_meters(find: Callable[[int], Sequence[FailingJudge]]) -> Sequence[Meter]:
    def labels(each: FailingJudge) -> Labels:
        return (("cause", each.cause), ("kind", each.kind))

    def waiting() -> Mapping[Labels, float]:
        counts: Counter[Labels] = Counter()
        for each in find(time.time_ns()):
            counts[labels(each)] += each.waiting
        return counts

    def seconds() -> Mapping[Labels, float]:
        now_ns = time.time_ns()
        newest_first = sorted(find(now_ns), key=lambda each: -each.since_ns)
        return {labels(each): (now_ns - each.since_ns) / 1e9 for each in newest_first}

    return (
        Meter(
            name="tracejury_failing_judge_waiting",
            text="Evaluations waiting for a judge that gives no verdicts, by kind and cause.",
            read=waiting,
        ),
        Meter(
            name="tracejury_failing_judge_seconds",
            text=("Time since the first failure after the last verdict, of the judge that has failed for longest."),
            read=seconds,
        ),
    )


def _rules_meter(by_state: Callable[[int], Mapping[str, int]]) -> Meter:
    return Meter(
        name="tracejury_rules",
        text="Rules by state: judging, judging_nothing (active, without verdicts), disabled.",
        read=lambda: _by("state", by_state(time.time_ns())),
    )


def _sweep_meters(sweeper: Sweeper) -> Sequence[Meter]:
    return (
        Meter(
            name="tracejury_sweeps_total",
            text="Sweeps since startup.",
            read=lambda: _by("outcome", {"done": sweeper.counts["sweeps"], "failed": sweeper.counts["failures"]}),
        ),
        Meter(name="tracejury_sweep_seconds_total", text="Total time of sweeps.", read=lambda: sweeper.seconds),
        Meter(
            name="tracejury_swept_traces_total",
            text="Traces deleted by sweeps.",
            read=lambda: sweeper.counts["traces"],
        ),
        Meter(
            name="tracejury_swept_spans_total",
            text="Spans deleted by sweeps.",
            read=lambda: sweeper.counts["spans"],
        ),
        Meter(
            name="tracejury_swept_bytes_total",
            text="Bytes freed by sweeps.",
            read=lambda: sweeper.counts["freed_bytes"],
        ),
    )


def _deletion_meters(store: Store, look: Callable[[], WaitingCounts]) -> Sequence[Meter]:
    erasure = store.erasure
    return (
        Meter(
            name="tracejury_deletions",
            text="Unfinished deletions on request: deleting rows, or erasing bytes on disk.",
            read=lambda: _by("state", look().deletions),
        ),
        Meter(
            name="tracejury_deleted_traces_total",
            text="Traces deleted on request since startup.",
            read=lambda: erasure.counts["traces"],
        ),
        Meter(
            name="tracejury_deleted_spans_total",
            text="Spans deleted on request since startup.",
            read=lambda: erasure.counts["spans"],
        ),
        Meter(
            name="tracejury_row_groups_to_rewrite",
            text="Estimated number of row groups that the current erasure still has to rewrite.",
            read=lambda: erasure.progress.total - erasure.progress.done,
        ),
        Meter(
            name="tracejury_rewritten_row_groups_total",
            text="Row groups rewritten since startup, because rows in them were deleted.",
            read=lambda: erasure.rewritten,
        ),
    )


def _disk_meters(store: Store, data: Path) -> Sequence[Meter]:
    return (
        Meter(
            name="tracejury_database_bytes",
            text="Length of the database file, including freed blocks.",
            read=lambda: store.gauges.file_bytes,
        ),
        Meter(
            name="tracejury_disk_bytes",
            text="Disk usage of the data directory.",
            read=lambda: _by("part", store.gauges.disk_bytes),
        ),
        Meter(
            name="tracejury_disk_free_bytes",
            text="Free space on the disk of the data directory.",
            read=lambda: shutil.disk_usage(data).free,
        ),
    )


def _results_meters(look: Callable[[], WaitingCounts], exporter: ResultsExporter | None) -> Sequence[Meter]:
    if exporter is None:
        return ()
    return (
        Meter(
            name="tracejury_results_told_total",
            text="Exported results since startup, refused results, and retried requests.",
            read=lambda: _by("outcome", exporter.counts),
        ),
        Meter(
            name="tracejury_results_untold",
            text="Results not exported yet.",
            read=lambda: look().untold_results,
        ),
    )


def _lake_meters(lake: LakePublisher | None) -> Sequence[Meter]:
    if lake is None:
        return ()
    return (
        Meter(
            name="tracejury_lake_rows_total",
            text="Rows published in the lake since the start, by table.",
            read=lambda: _by("table", lake.rows),
        ),
        Meter(
            name="tracejury_lake_lag_seconds",
            text="Age of the latest commit that is surely in the lake with all before it.",
            read=lambda: lake.lag_s,
        ),
        Meter(
            name="tracejury_lake_failures_total",
            text="Publications in the lake that failed since the start; their rows are published later.",
            read=lambda: lake.failures,
        ),
        Meter(
            name="tracejury_lake_moved_total",
            text="What left the database for the lake since the start: traces, and their spans.",
            read=lambda: _by("what", lake.mover.counts),
        ),
        Meter(
            name="tracejury_lake_files",
            text="Files in the tables of the lake after the latest maintenance.",
            read=lambda: 0 if (size := lake.mover.lake.size) is None else size.files,
        ),
        Meter(
            name="tracejury_lake_bytes",
            text="Bytes of these files.",
            read=lambda: 0 if (size := lake.mover.lake.size) is None else size.nbytes,
        ),
        Meter(
            name="tracejury_lake_maintained_seconds",
            text="Time of the latest maintenance of the lake since the start, in seconds since 1970.",
            read=lambda: 0 if (size := lake.mover.lake.size) is None else size.at_ns / 1e9,
        ),
    )


def _other_meters(ingest: Ingest, journal: AuditJournal, conditions: ServerConditions) -> Sequence[Meter]:
    return (
        Meter(
            name="tracejury_conditions",
            text="Current conditions, by their name in the log.",
            read=lambda: _by("name", conditions.counts),
        ),
        Meter(
            name="tracejury_audited_total",
            text="Writes and refused requests since the start, by the status of their answers.",
            read=lambda: {(("status", str(status)),): count for status, count in list(journal.noted.items())},
        ),
        Meter(
            name="tracejury_redacted_values_total",
            text="Values redacted since the start.",
            read=lambda: ingest.redactor.count if ingest.redactor else 0,
        ),
        Meter(
            name="tracejury_build_info",
            text="1, with the versions that run.",
            read=lambda: {tuple(sorted((name.lower(), number) for name, number in versions())): 1},
        ),
    )


def _by(label: str, numbers: Mapping[str, float]) -> Mapping[Labels, float]:
    return {((label, value),): number for value, number in numbers.items()}
