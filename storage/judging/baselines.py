"""Baselines: results of a new evaluator on earlier traces, which monitors need before they can compare releases."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa

from storage import sql
from storage.ingest.known_times import within_known_times
from storage.judging.repeating import ids_table, repeat_jobs

_US_NS: Final = 1_000  # start times of results are cut to microseconds, so a span may start up to one later
_MOST_TARGETS: Final = 1_000
"""Maximum number of targets of one baseline, which bounds the cost of a rule with many services; they are chosen from
each service in turn. A guess."""

_LOOKED_AT: Final = 10
_MOST_ROWS: Final = 100_000
"""Candidates that are read for each result that a side needs, and their maximum for one side, which bound the memory.
Candidates beyond these limits are not read, even if none of those before them can be used. Guesses."""

_RELEASES: Final = pa.schema(
    [
        ("stream", pa.int32()),
        ("side", pa.int32()),
        *((name, pa.string()) for name in ("tenant", "project", "service", "release")),
    ]
)
_EVALUATORS: Final = pa.schema([("stream", pa.int32()), ("fingerprint", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStream:
    """A stream with a new evaluator: the releases that monitors compare, and the evaluator's fingerprints."""

    tenant: str
    project: str | None
    service: str | None
    before: tuple[str, ...]  # the releases that the current one is compared with
    current: tuple[str, ...]  # at most one release
    fingerprints: tuple[str, ...]  # empty before the evaluator's first result


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRequest:
    """A revision whose evaluator needs results of some releases, and their number for each side."""

    rule_id: str
    revision: int
    of_side: int
    streams: Sequence[ComparedStream]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineTargets:
    """Traces that lack results, and the time in which their targets started."""

    trace_ids: Sequence[str]
    from_ns: int
    to_ns: int  # excluded
    of_sessions: bool  # the targets are sessions; the latest trace of one may have started after `to_ns`
    again: Sequence[int]  # jobs to evaluate again, because they failed or another evaluator made their result
    count: int  # number of targets (traces, sessions or spans), of which some may have a result already


def targets_of_baseline(cursor: duckdb.DuckDBPyConnection, request: BaselineRequest) -> BaselineTargets | None:
    """Return the stored targets that lack a result of the revision; None if there are none."""
    numbered = list(enumerate(request.streams))
    releases = [
        {
            "stream": number,
            "side": side,
            "tenant": each.tenant,
            "project": each.project,
            "service": each.service,
            "release": release,
        }
        for number, each in numbered
        for side, names in enumerate((each.before, each.current))
        for release in names
    ]
    present = [{"stream": number, "fingerprint": each} for number, stream in numbered for each in stream.fingerprints]
    cursor.register("compared_releases", pa.Table.from_pylist(releases, schema=_RELEASES))
    cursor.register("present_evaluators", pa.Table.from_pylist(present, schema=_EVALUATORS))
    params = {
        "rule_id": request.rule_id,
        "revision": request.revision,
        "of_side": request.of_side,
        "targets": _MOST_TARGETS,
        "rows": min(_LOOKED_AT * request.of_side, _MOST_ROWS),
    }
    rows = cursor.execute(sql.query("targets_of_baseline"), params).fetchall()
    if not rows:
        return None
    trace_ids, job_ids, of_sessions, first_ns, last_ns = zip(*rows, strict=True)
    return BaselineTargets(
        trace_ids=list(dict.fromkeys(trace_ids)),
        from_ns=min(first_ns),
        to_ns=within_known_times(max(last_ns) + _US_NS),
        of_sessions=any(of_sessions),
        again=[each for each in job_ids if each is not None],
        count=len(rows),
    )


def judge_again(cursor: duckdb.DuckDBPyConnection, job_ids: Sequence[int], now_us: int) -> int:
    """Queue finished jobs again as jobs of a baseline, unless superseded; return how many. For the writer's thread."""
    if not job_ids:
        return 0
    cursor.register("incoming_jobs", ids_table(job_ids))
    late = {job_id for (job_id,) in cursor.execute(sql.query("superseded_among")).fetchall()}
    left = [job_id for job_id in job_ids if job_id not in late]
    repeat_jobs(cursor, left, now_us, "baseline")
    return len(left)


def take_results(cursor: duckdb.DuckDBPyConnection, revision: int, trace_ids: Sequence[str], now_us: int) -> int:
    """Let monitors count a revision's stored and pending results on traces; return how many were stored.

    Rows of results are never changed. So each is stored once more, as another round without calls and cost. For the
    writer's thread.
    """
    params = {"revision": revision, "trace_ids": list(trace_ids)}
    cursor.execute(sql.query("take_jobs_for_baseline"), params)
    job_ids = [job_id for (job_id,) in cursor.execute(sql.query("results_for_baseline"), params).fetchall()]
    if not job_ids:
        return 0
    cursor.register("repeated_jobs", ids_table(job_ids))
    ((last_job,),) = cursor.execute(sql.query("last_job")).fetchall()
    cursor.execute(sql.query("repeat_results"), {"now_us": now_us, "last_job": last_job})
    cursor.execute(sql.query("supersede_jobs"), {"now_us": now_us})
    cursor.execute(sql.query("raise_last_job"), {"jobs": len(job_ids)})
    cursor.execute(sql.query("raise_last_result"), {"results": len(job_ids)})
    return len(job_ids)
