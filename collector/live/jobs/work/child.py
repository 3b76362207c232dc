"""The examining process: spans and jobs in, test cases or results out, until its input ends."""

import asyncio
import importlib
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any, BinaryIO, Protocol, Self, TypeAlias

import pyarrow as pa

from collector.children.process import MORE
from collector.conventions.columnar.stored_trace import StoredTrace, stored_spans
from collector.conventions.member import TraceMember
from collector.conventions.own_keys import OwnKeys
from collector.conventions.prices import price_table
from collector.evaluation.session_case import case_of_session
from collector.evaluation.trace_case import case_of_stored, whole_case
from collector.live.jobs.work.storable import result_of
from collector.live.jobs.work.target import (
    POSTPONED,
    ExaminedPart,
    ExaminedTarget,
    asks_for_input,
    case_for_rule,
    case_of_target,
    with_judged,
)
from collector.memory import collect_rarely
from evaluators.errors import EvaluationError
from evaluators.evaluator import Evaluator, run
from evaluators.model import Case, text_of
from evaluators.outcome import Failure
from evaluators.registry import build
from storage import child_process
from storage.judging.job_results import JobResult, results_table
from storage.query.rows import logs_of, spans_of
from storage.records import LogRecord, Span
from storage.wire import receive, send

_TELL_S = 0.05
"""Interval at which answers are sent, unless each is sent at once. A guess: rare enough that messages cost nothing."""

_IMPORTS = {"tool_call_validity": "evaluators.full_schema"}
"""Modules that evaluators import when first needed, which would cost the first check a tenth of a second."""

_KEPT = 1000  # evaluators, of as many revisions. A guess

_LONG = 500
"""Spans of a trace beyond which its case is made whole before any evaluator runs, so that this does not use up the
processor time of an evaluator. A guess: fewer take some milliseconds.
"""

Answer: TypeAlias = tuple[int, dict[str, Any], float]
"""The id of a job, the document of its outcome or of its test case, and the milliseconds that it took."""


class TooLong(EvaluationError):
    """Limit of a check's processor time exceeded."""

    kind = "timeout"


class Targets(Protocol):
    """Spans or stored readings to examine."""

    def case(self, target: ExaminedTarget, own: OwnKeys) -> Case:
        """Return the test case of a target."""


class StoredTargets:
    """Traces and single spans whose stored readings suffice."""

    def __init__(self, rows: pa.Table) -> None:
        """Set up with all spans of some traces, or spans to examine by themselves."""
        self._members: dict[tuple[str, str], list[TraceMember]] = defaultdict(list)
        for tenant, trace_id, member in stored_spans(rows):
            self._members[tenant, trace_id].append(member)

    def case(self, target: ExaminedTarget, own: OwnKeys) -> Case:  # noqa: ARG002 - they are read already
        """Return the test case of a target; all parts of the case of a long trace are made at once."""
        trace_id = target.trace_id or ""
        members = self._members[target.tenant, trace_id]
        if target.span_id is not None:
            members = [member for member in members if member.span_id == target.span_id]
        case = case_of_stored(StoredTrace(trace_id, members))
        return case if len(members) <= _LONG else whole_case(case)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedSpans:
    """Spans to read, with log records, by trace and by span; and the traces of sessions."""

    spans: Mapping[ExaminedTarget, list[Span]]
    logs: Mapping[ExaminedTarget, list[LogRecord]]
    sessions: Mapping[ExaminedTarget, list[ExaminedTarget]]

    @classmethod
    def of(cls, header: Mapping[str, Any], tables: Sequence[pa.Table]) -> Self:
        """Group the rows by target: each under its trace, and under its span."""
        rows, log_rows = tables
        spans: dict[ExaminedTarget, list[Span]] = defaultdict(list)
        for span in spans_of(rows):
            for span_id in (None, span.span_id):
                spans[ExaminedTarget(span.tenant, span.trace_id, span_id, None)].append(span)
        logs: dict[ExaminedTarget, list[LogRecord]] = defaultdict(list)
        for record in logs_of(log_rows):
            for span_id in (None, record.span_id):
                logs[ExaminedTarget(record.tenant, record.trace_id, span_id, None)].append(record)
        sessions = {
            ExaminedTarget(tenant, None, None, session_id): [
                ExaminedTarget(tenant, trace_id, None, None) for trace_id in trace_ids
            ]
            for tenant, session_id, trace_ids in header["sessions"]
        }
        return cls(spans=spans, logs=logs, sessions=sessions)

    def case(self, target: ExaminedTarget, own: OwnKeys) -> Case:
        """Return the test case of a target."""
        if target.session_id is None:
            return case_of_target(self.spans[target], self.logs[target], own)
        traces = [(self.spans[trace], self.logs[trace]) for trace in self.sessions[target] if trace in self.spans]
        return case_of_session(target.session_id, traces, own)


def main() -> None:
    """Answer requests on standard input until it ends."""
    collect_rarely()
    child_process.run(serve)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input ends; the first one has the operator's own keys, and the limits."""
    asyncio.run(_serve(requests, answers))


async def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    first = receive(requests)
    if first is None:
        return
    examination = Examination(own=OwnKeys(first[0]["own"], price_table(first[0]["prices"])), cpu_s=first[0]["cpu_s"])
    signal.signal(signal.SIGPROF, ring)
    while (request := receive(requests)) is not None:
        header, tables = request
        begin: Callable[[int], None] = partial(_tell_begin, answers) if header["tells_each"] else _nothing
        outbox = _Outbox(answers, header)
        async for answer in examination.answers(header, tables, begin):
            outbox.add(answer)
        outbox.send(more=False)


def _tell_begin(answers: BinaryIO, job_id: int) -> None:
    send(answers, {"at": job_id, MORE: True}, [])


def _nothing(_job_id: int) -> None:
    return None


class _Outbox:
    """Sender of answers, in batches or one by one: cases as documents, outcomes as rows."""

    def __init__(self, answers: BinaryIO, header: Mapping[str, Any]) -> None:
        self._answers = answers
        self._tells_each: bool = header["tells_each"]
        self._wants_cases = header["wants"] == "case"
        self._part = None if header["part"] is None else ExaminedPart(*header["part"])
        self._cases: list[Answer] = []
        self._results: list[JobResult] = []
        self._postponed: list[int] = []
        self._sent_at_s = time.monotonic()

    def add(self, answer: Answer) -> None:
        """Add an answer; it may be sent later."""
        job_id, document, latency_ms = answer
        if self._wants_cases:
            self._cases.append(answer)
        elif POSTPONED in document:
            self._postponed.append(job_id)
        else:
            noted = document if self._part is None else self._part.noted_in(document)
            self._results.append(result_of(job_id, noted, latency_ms=latency_ms))
        if self._tells_each or time.monotonic() - self._sent_at_s > _TELL_S:
            self.send(more=True)

    def send(self, *, more: bool) -> None:
        """Send the answers that are not sent yet."""
        header = {"cases": self._cases, "postponed": self._postponed, MORE: more}
        send(self._answers, header, [] if self._wants_cases else [results_table(self._results)])
        self._cases, self._results, self._postponed = [], [], []
        self._sent_at_s = time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Revision:
    """Facts about a revision of a rule that do not depend on a case."""

    name: str
    evaluator: Evaluator | EvaluationError
    asks_for_input: bool
    cpu_s: float

    @classmethod
    def of(cls, rule: Mapping[str, Any], cpu_s: float) -> Self:
        """Build the evaluator of a rule, or keep the error that it raises."""
        if rule["evaluator"] in _IMPORTS:
            importlib.import_module(_IMPORTS[rule["evaluator"]])
        try:
            evaluator: Evaluator | EvaluationError = build(
                rule["evaluator"], rule["config"], additions=rule["additions"]
            )
        except EvaluationError as broken:
            evaluator = broken
        name = str(rule["config"].get("name") or rule["evaluator"])
        return cls(name=name, evaluator=evaluator, asks_for_input=asks_for_input(rule), cpu_s=cpu_s)


@dataclass(slots=True, kw_only=True)
class Examination:
    """Maker of test cases from spans, and runner of the evaluators that need no model."""

    own: OwnKeys
    cpu_s: float
    revisions: dict[int, _Revision] = field(default_factory=dict)

    async def answers(
        self, header: Mapping[str, Any], tables: Sequence[pa.Table], begin: Callable[[int], None]
    ) -> AsyncIterator[Answer]:
        """Yield the answer to each job, or its test case, in order of their targets.

        `begin` is called with a job before its evaluation, and with a target's first job before its case is made. Once
        an evaluation took too long, later jobs of its revision are postponed, so that others need not wait for them.
        """
        targets: Targets = StoredTargets(tables[0]) if header["are_meanings"] else ExaminedSpans.of(header, tables)
        of_target: dict[ExaminedTarget, list[tuple[int, int]]] = defaultdict(list)
        for job_id, revision, *target in header["jobs"]:
            of_target[ExaminedTarget(*target)].append((job_id, revision))
        rules: Mapping[str, Mapping[str, Any]] = header["rules"]
        wants_case = header["wants"] == "case"
        part = None if header["part"] is None else ExaminedPart(*header["part"])
        slow: set[int] = set()
        for target, jobs in of_target.items():
            begin(jobs[0][0])
            case = self._case(targets, target, part)
            for job_id, revision in jobs:
                begin(job_id)
                began_s = time.perf_counter()
                if revision in slow:
                    yield job_id, {POSTPONED: True}, 0.0
                    continue
                document = await self._answer(revision, rules[str(revision)], case, wants_case=wants_case)
                if (document.get("failure") or {}).get("kind") == TooLong.kind:
                    slow.add(revision)
                yield job_id, document, (time.perf_counter() - began_s) * 1000

    def _case(self, targets: Targets, target: ExaminedTarget, part: ExaminedPart | None) -> Case | EvaluationError:
        try:
            try:
                signal.setitimer(signal.ITIMER_PROF, self.cpu_s)
                case = targets.case(target, self.own)
                return case if part is None else part.case(case)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except EvaluationError as broken:
            return broken
        except Exception as error:  # noqa: BLE001 - one target that cannot be read must not hide all others
            return EvaluationError(f"the target could not be read: {type(error).__name__}: {error}")

    async def _answer(
        self, number: int, rule: Mapping[str, Any], case: Case | EvaluationError, *, wants_case: bool
    ) -> dict[str, Any]:
        revision = self._revision(number, rule)
        if isinstance(case, EvaluationError):
            return _broken(revision.name, case)
        whole = case_for_rule(case, rule, asks_for_input=revision.asks_for_input)
        if wants_case:
            return {"case": text_of(whole_case(whole))}
        if isinstance(revision.evaluator, EvaluationError):
            return _broken(revision.name, revision.evaluator)
        try:
            try:
                signal.setitimer(signal.ITIMER_PROF, revision.cpu_s)
                outcome = await run(revision.evaluator, whole)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except EvaluationError as broken:
            return _broken(revision.evaluator.name, broken)
        return dict(with_judged(outcome.to_document(), whole.actual_outputs))

    def _revision(self, number: int, rule: Mapping[str, Any]) -> _Revision:
        if number not in self.revisions:
            if len(self.revisions) >= _KEPT:
                self.revisions.clear()
            self.revisions[number] = _Revision.of(rule, self.cpu_s)
        return self.revisions[number]


def ring(_number: int, _frame: FrameType | None) -> None:
    """Handle SIGPROF: end a check that takes too much processor time."""
    raise TooLong("took longer than a check may, in processor time")


def _broken(name: str, broken: EvaluationError) -> dict[str, Any]:
    return Failure(name=name, fingerprint=None, kind=broken.kind, message=str(broken), usage=None).to_document()
