"""A part of a job over the lake: some traces, matched and evaluated as the server does it, in a process of its own."""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from collector.conventions.own_keys import OwnKeys
from collector.conventions.prices import price_table
from collector.evaluation.rule_trial import sums_read_by
from collector.live.active import ActiveRule
from collector.live.jobs.work.examiner import Examiner
from collector.live.jobs.work.job_context import Task
from collector.live.jobs.work.retry_policy import RetryPolicy
from collector.live.rules.executor_kinds import executor_kind_of
from collector.settings_loading import environment_variable
from rules.conditions import fields_of
from rules.matching import decide
from rules.rule import Rule
from rules.rule_text import stored_rule
from storage.judging.job_results import RESULTS, results_table
from storage.judging.jobs import Job
from storage.judging.rule_trials import spans_to_decide
from storage.lake.jobs import LakeSnapshot
from storage.lake.scope import LakeScope

JOB_ROWS: Final = pa.schema(
    [
        ("job", pa.string()),
        ("tenant", pa.string()),
        ("project", pa.string()),
        ("trace_id", pa.string()),
        ("span_id", pa.string()),
        ("start_time", pa.timestamp("ns")),
        ("rule_id", pa.string()),
        ("revision", pa.int32()),
        ("rule", pa.string()),
        ("evaluator", pa.string()),
        *(each for each in RESULTS if each.name != "job_id"),
        ("created_at", pa.timestamp("us")),
        ("write_number", pa.int64()),
    ]
)
"""The columns of the table `backfill_result`."""

_READ: Final = frozenset({"tenant", "trace_id", "span_id", "parent_span_id", "seq", "project"})
_GONE: Final = "target_gone"
_KILLED: Final = "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeJob:
    """Job that runs a rule or an evaluator over spans or traces of a period: all data that a worker needs."""

    uri: str
    scope: LakeScope
    own: Mapping[str, Any]  # the operator's own keys, and prices
    prices: Mapping[str, Any] | None
    rule: str  # its document as JSON
    rule_id: str | None  # None for a job with an evaluator instead of a stored rule, which has no revision either
    revision: int | None
    tenant: str
    from_ns: int
    to_ns: int
    id: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Derive the id from lake, rule, tenant and period, so that a job that is started again continues."""
        rule = stored_rule(self.rule).revision
        whole = [self.scope.directory_id, self.rule_id, self.revision, rule, self.tenant, self.from_ns, self.to_ns]
        object.__setattr__(self, "id", hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:16])

    @property
    def active(self) -> ActiveRule:
        """Return the rule for its evaluation."""
        rule = stored_rule(self.rule)
        return ActiveRule(
            tenant=self.tenant,
            rule_id=self.rule_id or "",
            revision=-1 if self.revision is None else self.revision,
            rule=rule,
            executor_kind=executor_kind_of(rule),
        )

    def snapshot(self) -> LakeSnapshot:
        """Open the lake."""
        return LakeSnapshot(self.uri, environment_variable("AWS_ENDPOINT_URL"), self.scope)


class CaseToJudge(NamedTuple):
    """The test case of a target for a judge."""

    number: int  # of the target
    text: str
    part: Sequence[int] | None  # spans read, and spans in all, of a trace that is too long


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBucket:
    """The targets of a rule in some traces, and their results; without a judge `cases` is empty."""

    targets: Sequence[tuple[Job, int, int]]  # with the start, and the number of the trace's last part
    results: pa.Table  # by the numbers of the targets
    cases: Sequence[CaseToJudge]

    def rows(self, job: LakeJob, table: pa.Table, *, now_us: int) -> pa.Table:
        """Return results of some targets as rows to publish."""
        targets, rule = [self.targets[number] for number in table.column("job_id").to_pylist()], job.active.rule
        columns: dict[str, Any] = {name: table.column(name) for name in RESULTS.names}
        for name in ("tenant", "project", "trace_id", "span_id"):
            columns[name] = [getattr(target, name) for target, _, _ in targets]
        columns["start_time"] = [start_ns for _, start_ns, _ in targets]
        columns["write_number"] = [number for _, _, number in targets]
        same = {"job": job.id, "rule_id": job.rule_id, "revision": job.revision, "evaluator": rule.evaluator}
        same |= {"rule": None if job.rule_id is None else rule.name, "created_at": now_us}
        columns |= {name: [value] * len(targets) for name, value in same.items()}
        arrays = [
            column if isinstance(column, pa.ChunkedArray) else pa.array(column, each.type)
            for each in JOB_ROWS
            for column in [columns[each.name]]
        ]
        return pa.table(arrays, schema=JOB_ROWS)


class LakeWorker:
    """Worker of one job: an open lake, and the process that makes cases and evaluates. For one thread."""

    def __init__(self, job: LakeJob) -> None:
        self._job, self._active = job, job.active
        self._snapshot = job.snapshot()
        own = OwnKeys(job.own, price_table(job.prices))
        self._examiner = Examiner(self._snapshot.windows, own, retry_policy=RetryPolicy())
        rule = self._active.rule
        columns = _READ | {column for each in fields_of(rule.clauses) for column in each.columns}
        self._select = spans_to_decide(sorted(columns), sums_read_by(rule))

    def stop(self) -> None:
        """End the process for good; safe to call from another thread."""
        self._examiner.kill()

    def close(self) -> None:
        """Release the process and the database."""
        self.stop()
        self._examiner.close()
        self._snapshot.close()

    def judge(self, traces: pa.Table) -> JudgedBucket:
        """Evaluate what the rule matches in some traces; of a rule with a judge, return the cases.

        Raises:
            Reopened: files of the lake have gone meanwhile, as after compaction; so it can be repeated.
            NotExamined: the process fails on every request.
        """
        targets = self._targets(traces)
        tasks = [Task(job, self._active) for job, _, _ in targets]
        if self._active.executor_kind == "check":
            results = pa.concat_tables([results_table(()), *self._results(tasks, again=True)])
            is_present = pc.not_equal(results.column("error_kind"), _GONE).fill_null(True)  # noqa: FBT003 - pyarrow's
            return JudgedBucket(targets=targets, results=results.filter(is_present), cases=())
        examined = list(self._examiner.cases(tasks))
        failed = [each.result() for each in examined if each.case_text is None]
        return JudgedBucket(
            targets=targets,
            results=results_table(each for each in failed if each.error_kind != _GONE),
            cases=[CaseToJudge(each.task.job.job_id, each.case_text, each.part) for each in examined if each.case_text],
        )

    def _targets(self, traces: pa.Table) -> list[tuple[Job, int, int]]:
        numbers = {(row["tenant"], row["trace_id"]): row["write_number"] for row in traces.to_pylist()}
        rows = self._snapshot.spans(traces.select(["tenant", "trace_id"]), self._select)
        targets: list[tuple[Job, int, int]] = []
        for key, group in itertools.groupby(rows, key=lambda row: (row["tenant"], row["trace_id"])):
            for row in _matched(self._active.rule, list(group), self._job.from_ns, self._job.to_ns):
                targets.append((self._of(row, len(targets)), row["start_ns"], numbers[key]))
        return targets

    def _of(self, row: Mapping[str, Any], number: int) -> Job:
        return Job(
            job_id=number,
            revision=self._active.revision,
            seq=row["seq"],
            tenant=row["tenant"],
            project=row["project"],
            trace_id=row["trace_id"],
            span_id=row["span_id"],
            session_id=None,
            attempts=1,
        )

    def _results(self, tasks: Sequence[Task], *, again: bool) -> list[pa.Table]:
        """Evaluate with checks. With `again`, tasks that a killed process had are repeated: another may be to blame."""
        tables, left, killed = list[pa.Table](), list(tasks), set[int]()
        while left:
            postponed: list[int] = []
            for results, later in self._examiner.judge(left):
                is_killed = pc.equal(results.column("error_kind"), _KILLED).fill_null(False)  # noqa: FBT003 - pyarrow's
                killed |= set(results.filter(is_killed).column("job_id").to_pylist() if again else ())
                tables.append(results.filter(pc.invert(is_killed)) if again else results)
                postponed += later
            left = [task for task in left if task.job.job_id in postponed]
        once_more = [task for task in tasks if task.job.job_id in killed]
        return [*tables, *(self._results(once_more, again=False) if once_more else ())]


def _matched(rule: Rule, rows: Sequence[Mapping[str, Any]], from_ns: int, to_ns: int) -> list[Mapping[str, Any]]:
    """Return what the rule matches of a trace: spans, or the trace as a row without a span."""
    within = [row for row in rows if from_ns <= row["start_ns"] < to_ns]
    if rule.target == "SPAN":
        return [row for row in within if decide(rule, [row]).outcome == "matched"]
    if not within or decide(rule, rows).outcome != "matched":
        return []
    first = next((row for row in rows if row["parent_span_id"] is None), rows[0])
    return [{**first, "span_id": None, "start_ns": rows[0]["start_ns"], "seq": max(row["seq"] for row in rows)}]


_kept: list[tuple[str, LakeWorker]] = []  # the worker of the latest job, with the job's id


def judge_bucket(job: LakeJob, traces: pa.Table) -> JudgedBucket:
    """Evaluate some traces in a process that is kept for the next ones: a task of Ray."""
    if not _kept or _kept[0][0] != job.id:
        _kept[:] = [(job.id, LakeWorker(job))]
    return _kept[0][1].judge(traces)
