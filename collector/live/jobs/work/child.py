"""The examining process: spans and jobs in, test cases or outcomes out, until its input ends."""

import asyncio
import importlib
import json
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any, BinaryIO, Self, TypeAlias

import pyarrow as pa

from collector.children import inside
from collector.children.process import MORE
from collector.children.wire import receive, send
from collector.conventions.own import OwnKeys
from collector.conventions.prices import price_table
from collector.evaluation.session_case import case_of_session
from collector.live.jobs.work.target import POSTPONED, ExaminedTarget, case_for_rule, case_of_target
from evaluators.errors import Broken
from evaluators.evaluator import Evaluator, run
from evaluators.model import Case, text_of
from evaluators.outcome import Failure
from evaluators.registry import build, kind_of
from storage.query.rows import logs_of, spans_of
from storage.records import LogRecord, Span

_TELL_S = 0.05
"""What is done is told so often, unless after each job. A guess: enough for neither side to notice the messages."""

_IMPORTS = {"tool_call_validity": "evaluators.tool_schema"}
"""What evaluators import when they first need it, and what would take a second and a half of the first check's time."""

_KEPT = 1000  # evaluators, of as many revisions. A guess

Answer: TypeAlias = tuple[int, dict[str, Any], float]
"""The id of a job, the document of its outcome or of its test case, and the milliseconds that it took."""


class TooLong(Broken):
    """It took more processor time than a check may."""

    kind = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedSpans:
    """What came to be examined: the spans and log records of traces and of single spans, and the traces of sessions."""

    spans: Mapping[ExaminedTarget, list[Span]]
    logs: Mapping[ExaminedTarget, list[LogRecord]]
    sessions: Mapping[ExaminedTarget, list[ExaminedTarget]]

    @classmethod
    def of(cls, header: Mapping[str, Any], tables: Sequence[pa.Table]) -> Self:
        """The rows by what they can be part of: their trace, and one span."""
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
        """The test case that one of them is."""
        if target.session_id is None:
            return case_of_target(self.spans[target], self.logs[target], own)
        traces = [(self.spans[trace], self.logs[trace]) for trace in self.sessions[target] if trace in self.spans]
        return case_of_session(target.session_id, traces, own)


def main() -> None:
    """Answer requests on standard input until it ends."""
    inside.run(serve)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more; the first says which keys are the operator's own, and the bounds."""
    asyncio.run(_serve(requests, answers))


async def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    first = receive(requests)
    if first is None:
        return
    examination = Examination(own=OwnKeys(first[0]["own"], price_table(first[0]["prices"])), cpu_s=first[0]["cpu_s"])
    signal.signal(signal.SIGPROF, _ring)
    while (request := receive(requests)) is not None:
        header, tables = request
        tells_each = bool(header["tells_each"])
        begin: Callable[[int], None] = partial(_tell_begin, answers) if tells_each else _nothing
        told: list[Answer] = []
        told_at_s = time.monotonic()
        async for answer in examination.answers(header, tables, begin):
            told.append(answer)
            if tells_each or time.monotonic() - told_at_s > _TELL_S:
                send(answers, {"answers": told, MORE: True}, [])
                told, told_at_s = [], time.monotonic()
        send(answers, {"answers": told}, [])


def _tell_begin(answers: BinaryIO, job_id: int) -> None:
    send(answers, {"answers": [], "at": job_id, MORE: True}, [])


def _nothing(_job_id: int) -> None:
    return None


@dataclass(slots=True, kw_only=True)
class Examination:
    """Makes test cases of spans, and judges them by evaluators that ask nobody."""

    own: OwnKeys
    cpu_s: float
    evaluators: dict[int, Evaluator | Broken] = field(default_factory=dict)

    async def answers(
        self, header: Mapping[str, Any], tables: Sequence[pa.Table], begin: Callable[[int], None]
    ) -> AsyncIterator[Answer]:
        """What came of each job, or the test case that it is about, in order of their targets.

        `begin` is told of each job when it is, or its target. Of a revision that took too long once, the later jobs are
        postponed: others wait for one of them and not for all.
        """
        there = ExaminedSpans.of(header, tables)
        of_target: dict[ExaminedTarget, list[tuple[int, int]]] = defaultdict(list)
        for job_id, revision, *target in header["jobs"]:
            of_target[ExaminedTarget(*target)].append((job_id, revision))
        rules: Mapping[str, Mapping[str, Any]] = header["rules"]
        slow: set[int] = set()
        for target, jobs in of_target.items():
            begin(jobs[0][0])
            case = self._case(there, target)
            for job_id, revision in jobs:
                begin(job_id)
                began_s = time.perf_counter()
                if revision in slow:
                    yield job_id, {POSTPONED: True}, 0.0
                    continue
                rule, wants_case = rules[str(revision)], header["wants"] == "case"
                document = await self._answer(revision, rule, case, wants_case=wants_case)
                if (document.get("failure") or {}).get("kind") == TooLong.kind:
                    slow.add(revision)
                yield job_id, document, (time.perf_counter() - began_s) * 1000

    def _case(self, there: ExaminedSpans, target: ExaminedTarget) -> Case | Broken:
        try:
            try:
                signal.setitimer(signal.ITIMER_PROF, self.cpu_s)
                return there.case(target, self.own)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except Broken as broken:
            return broken
        except Exception as error:  # noqa: BLE001 - one target that cannot be read must not hide all others
            return Broken(f"the target could not be read: {type(error).__name__}: {error}")

    async def _answer(
        self, revision: int, rule: Mapping[str, Any], case: Case | Broken, *, wants_case: bool
    ) -> dict[str, Any]:
        name = str(rule["config"].get("name") or rule["evaluator"])
        if isinstance(case, Broken):
            return _broken(name, case)
        whole = case_for_rule(case, rule)
        if wants_case:
            return {"case": json.loads(text_of(whole))}
        evaluator = self._evaluator(revision, rule)
        if isinstance(evaluator, Broken):
            return _broken(name, evaluator)
        try:
            try:
                signal.setitimer(signal.ITIMER_PROF, min(self.cpu_s, kind_of(rule["evaluator"]).cpu_s))
                outcome = await run(evaluator, whole)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except Broken as broken:
            return _broken(evaluator.name, broken)
        return outcome.to_document()

    def _evaluator(self, revision: int, rule: Mapping[str, Any]) -> Evaluator | Broken:
        if revision not in self.evaluators:
            if len(self.evaluators) >= _KEPT:
                self.evaluators.clear()
            if rule["evaluator"] in _IMPORTS:
                importlib.import_module(_IMPORTS[rule["evaluator"]])
            try:
                self.evaluators[revision] = build(rule["evaluator"], rule["config"])
            except Broken as broken:
                self.evaluators[revision] = broken
        return self.evaluators[revision]


def _ring(_number: int, _frame: FrameType | None) -> None:
    raise TooLong("took longer than a check may, in processor time")


def _broken(name: str, broken: Broken) -> dict[str, Any]:
    return Failure(name=name, fingerprint=None, kind=broken.kind, message=str(broken), usage=None).to_document()
