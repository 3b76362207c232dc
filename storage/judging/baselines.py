"""Results of a new evaluator that monitors compare with, whether live, a backfill or a baseline produced them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa

from storage import sql
from storage.ingest.known_times import within_known_times
from storage.judging.repeating import ids_table, repeat_jobs

_US_NS: Final = 1_000  # results hold microseconds: a span may start later within the one that is stored
_MOST_TARGETS: Final = 1_000
"""The most targets of one baseline: a guess that bounds the bill of a rule with many services. Services take turns."""

_LOOKED_AT: Final = 10
_MOST_ROWS: Final = 100_000
"""Results that are read for each result that a side needs, and for a side in all, so that the memory for them has a
bound. Results beyond these limits are not read, even if none of those before can be used. Guesses."""

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
    before: tuple[str, ...]  # what the current release is compared with
    current: tuple[str, ...]  # one, if there is any
    fingerprints: tuple[str, ...]  # none before its first result


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
    of_sessions: bool  # whose latest trace may have started later
    again: Sequence[int]  # jobs that failed, or whose evaluator was another one: they are evaluated again
    count: int  # of the traces, sessions or spans that are judged, some of which may have been already


def targets_of_baseline(cursor: duckdb.DuckDBPyConnection, request: BaselineRequest) -> BaselineTargets | None:
    """Return the targets that lack results of a revision; None if no stored one is left."""
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
    """Make a baseline's jobs from finished jobs that still count; return how many. The writer's thread calls this."""
    if not job_ids:
        return 0
    cursor.register("incoming_jobs", ids_table(job_ids))
    late = {job_id for (job_id,) in cursor.execute(sql.query("superseded_among")).fetchall()}
    left = [job_id for job_id in job_ids if job_id not in late]
    repeat_jobs(cursor, left, now_us, "baseline")
    return len(left)


def take_results(cursor: duckdb.DuckDBPyConnection, revision: int, trace_ids: Sequence[str], now_us: int) -> int:
    """Let monitors count a revision's results on traces, present and pending; return how many are stored.

    Rows of results are never changed, so each is stored once more, as a further round that took nothing. The writer's
    thread calls this.
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
