"""Asks the examining process about jobs: their spans go in, test cases or outcomes come out."""

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from collector.children.process import ChildFailed, ChildProcess
from collector.conventions.own import OwnKeys
from collector.live.active import ActiveRule
from collector.live.jobs.work.desk import Task
from collector.live.jobs.work.patience import RetryPolicy
from collector.live.jobs.work.results import failed, result_of, skipped
from collector.live.jobs.work.target import POSTPONED, ExaminedTarget
from evaluators.outcome import Failure
from storage.ingest.windows import EVERYTHING, Limits, SessionKey, SpanWindow, TraceKey, Windows
from storage.judging.jobs import Job, JobResult

log = logging.getLogger(__name__)

PROGRAM = "from collector.live.jobs.work.child import main; main()"

LIMITS = Limits(rows=10_000, nbytes=64 << 20)
"""As a trace is added up for the view: of a longer one the first spans are looked at, and that is said."""

_TARGETS = 512
"""Targets that are examined together, fewer where they do not fit. To fetch traces of 8 spans took 150 µs each for 256
at once, 56 for 1,000; to examine 512 takes half a second."""

_IN_VAIN = 3
"""Starts of the process that may fail before anything is begun with. A guess."""

Wants: TypeAlias = Literal["outcome", "case"]


class NotExamined(Exception):
    """The process dies or hangs before it begins with anything."""


class ExaminedPart(NamedTuple):
    """Of a trace or session that is too long, how many spans were looked at, and how many there are."""

    seen: int
    there: int

    def told_in(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The document of an outcome, in which it is said."""
        told = f"Only the first {self.seen} of {self.there} spans were looked at. {document['reason'] or ''}".strip()
        metadata = {**document["metadata"], "spansSeen": self.seen, "spanCount": self.there}
        return {**document, "reason": told, "metadata": metadata}


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What came of examining a job."""

    task: Task
    document: Mapping[str, Any] | None  # of its outcome, or `{"case": …}`; None where nothing of its target is stored
    latency_ms: float = 0.0
    part: ExaminedPart | None = None

    @property
    def case(self) -> Mapping[str, Any] | None:
        """The document of the test case, where there is one."""
        return None if self.document is None else self.document.get("case")

    @property
    def postponed(self) -> bool:
        """Whether it was left for later, because its evaluator took too long for another job of the batch."""
        return self.document is not None and POSTPONED in self.document

    def result(self) -> JobResult:
        """What came of the job, where no case was made."""
        job, active = self.task
        if self.document is None:
            return skipped(job, active, "target_gone", "not evaluated, because nothing of it is stored any more")
        if self.postponed:
            return failed(job, active, "timeout", "not evaluated, because the evaluator took too long just before")
        document = self.document if self.part is None else self.part.told_in(self.document)
        return result_of(job, document, latency_ms=self.latency_ms)


class Examiner:
    """Examines jobs, a group of targets at a time.

    What hangs or kills the process is found: what had not been told before it is asked about again, one by one, and of
    each is told when it begins, so the last that began is to blame; the others are none the worse for it.
    """

    def __init__(
        self, windows: Windows, own: OwnKeys, wants: Wants, *, patience: RetryPolicy, program: str = PROGRAM
    ) -> None:
        greeting = {"own": own.projects, "prices": own.prices.told, "cpu_s": patience.check_cpu_s}
        self._windows = windows
        self._wants = wants
        self._at: int | None = None  # the job that the process says it has begun with
        self._child = ChildProcess(program, greeting, timeout_s=patience.child_s)

    def examine(self, tasks: Sequence[Task]) -> Iterator[Examined]:
        """What comes of each, in any order.

        Raises:
            ChildFailed: it was closed meanwhile; what was not told is not examined.
            NotExamined: the process fails whatever it is asked.
        """
        of_sessions = [task for task in tasks if task.job.session_id is not None]
        of_traces = [task for task in tasks if task.job.span_id is None and task.job.session_id is None]
        of_spans = [task for task in tasks if task.job.span_id is not None]
        yield from self._by_windows(of_sessions, _session_key, self._sessions)
        yield from self._by_windows(of_traces, _trace_key, self._traces)
        yield from self._by_windows(of_spans, _seq, self._spans)

    def kill(self) -> None:
        """End the process for good; safe to call from another thread."""
        self._child.kill()

    def close(self) -> None:
        """Let go of the process, once nobody examines."""
        self._child.close()

    def _by_windows(
        self,
        tasks: Sequence[Task],
        target_of: Callable[[Job], Any],
        fetch: Callable[[Sequence[Any]], SpanWindow | None],
    ) -> Iterator[Examined]:
        by_target: dict[Any, list[Task]] = {}
        for task in tasks:
            by_target.setdefault(target_of(task.job), []).append(task)
        left = [list(by_target)[at : at + _TARGETS] for at in range(0, len(by_target), _TARGETS)][::-1]
        while left:
            targets = left.pop()
            window = fetch(targets)
            if window is not None and window.is_cut and len(targets) > 1:  # it is not known which of them are whole
                middle = len(targets) // 2
                left += [targets[middle:], targets[:middle]]
                continue
            yield from self._examine_window([task for target in targets for task in by_target[target]], window)

    def _traces(self, keys: Sequence[TraceKey]) -> SpanWindow | None:
        return self._windows.traces(keys, until=EVERYTHING, limits=LIMITS)

    def _sessions(self, keys: Sequence[SessionKey]) -> SpanWindow | None:
        return self._windows.sessions(keys, limits=LIMITS)

    def _spans(self, numbers: Sequence[int]) -> SpanWindow | None:
        return self._windows.spans(numbers, limits=LIMITS)

    def _examine_window(self, tasks: Sequence[Task], window: SpanWindow | None) -> Iterator[Examined]:
        there = set() if window is None else _targets(window)
        for task in tasks:
            if _target(task.job) not in there:
                yield Examined(task=task, document=None)
        found = [task for task in tasks if _target(task.job) in there]
        if window is None or not found:
            return
        part = self._part(window, found[0].job) if window.is_cut else None
        for task, document, latency_ms in self._ask(found, window):
            yield Examined(task=task, document=document, latency_ms=latency_ms, part=part)

    def _part(self, window: SpanWindow, job: Job) -> ExaminedPart | None:
        """What there is of a trace or session that did not fit."""
        if job.span_id is not None:
            return None
        traces = [job.trace_id] if job.session_id is None else window.sessions[_session_key(job)]
        there = self._windows.span_count([TraceKey(job.tenant, trace_id) for trace_id in traces])
        part = ExaminedPart(window.spans.num_rows, there)
        return part if part.seen < part.there else None

    def _ask(self, tasks: Sequence[Task], window: SpanWindow) -> Iterator[tuple[Task, Mapping[str, Any], float]]:
        left = {task.job.job_id: task for task in tasks}
        tells_each, in_vain = False, 0
        while left:
            try:
                for job_id, document, latency_ms in self._answers(list(left.values()), window, tells_each=tells_each):
                    yield left.pop(job_id), document, latency_ms
            except ChildFailed as error:
                if self._child.closed:
                    raise
                if not tells_each:
                    log.warning("checking %d jobs failed, and is tried again one by one: %s", len(left), error)
                    tells_each = True
                    continue
                culprit = left.pop(self._at, None) if self._at is not None else None
                if culprit is None:  # it had not begun with any, as on a machine that is far too busy
                    in_vain += 1
                    if in_vain > _IN_VAIN:
                        raise NotExamined(str(error)) from error
                    continue
                log.error("job %d cannot be evaluated: %s", culprit.job.job_id, error)  # noqa: TRY400 - the text says it
                yield culprit, _killed(culprit, error), 0.0

    def _answers(
        self, tasks: Sequence[Task], window: SpanWindow, *, tells_each: bool
    ) -> Iterator[tuple[int, Mapping[str, Any], float]]:
        header = {
            "wants": self._wants,
            "tells_each": tells_each,
            "rules": {str(task.active.revision): _rule(task.active) for task in tasks},
            "jobs": [[job.job_id, job.revision, *_target(job)] for job, _ in tasks],
            "sessions": [[*key, list(traces)] for key, traces in window.sessions.items()],
        }
        tables = [window.spans, window.logs]
        self._at = None
        for answer, _ in self._child.ask(header, tables):
            self._at = answer.get("at")
            yield from answer["answers"]


def _trace_key(job: Job) -> TraceKey:
    return TraceKey(job.tenant, job.trace_id)


def _session_key(job: Job) -> SessionKey:
    return SessionKey(job.tenant, job.session_id or "")


def _seq(job: Job) -> int:
    return job.seq


def _target(job: Job) -> ExaminedTarget:
    if job.session_id is not None:
        return ExaminedTarget(job.tenant, None, None, job.session_id)
    return ExaminedTarget(job.tenant, job.trace_id, job.span_id, None)


def _targets(window: SpanWindow) -> set[ExaminedTarget]:
    tenants, traces, ids = (window.spans.column(name).to_pylist() for name in ("tenant", "trace_id", "span_id"))
    spans = {ExaminedTarget(*row) for row in zip(tenants, traces, ids, itertools.repeat(None))}
    sessions = {ExaminedTarget(key.tenant, None, None, key.session_id) for key in window.sessions}
    return {*spans, *(each._replace(span_id=None) for each in spans), *sessions}


def _rule(active: ActiveRule) -> dict[str, Any]:
    rule = active.rule
    return {
        "evaluator": rule.evaluator,
        "config": dict(rule.configuration),
        "tools": None if rule.tools is None else [dict(tool) for tool in rule.tools],
        "expected": None if rule.expected is None else dict(rule.expected),
    }


def _killed(task: Task, error: ChildFailed) -> dict[str, Any]:
    rule = task.active.rule
    message = f"it ended or hung the process that evaluates: {error}"
    name = str(rule.configuration.get("name") or rule.evaluator)
    return Failure(name=name, fingerprint=None, kind="killed", message=message, usage=None).to_document()
