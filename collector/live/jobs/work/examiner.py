"""Client of the examining process: rows of spans go in, test cases or results come out."""

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from collector.children.process import ChildFailed, ChildProcess
from collector.conventions.own_keys import OwnKeys
from collector.live.active import ActiveRule
from collector.live.jobs.work.job_context import Task, skipped
from collector.live.jobs.work.retry_policy import RetryPolicy
from collector.live.jobs.work.storable import result_of
from collector.live.jobs.work.target import ExaminedPart, ExaminedTarget
from evaluators.outcome import Failure
from storage.ingest.windows import Limits, MeaningWindow, SessionKey, SpanWindow, TraceKey, Windows
from storage.judging.job_results import JobResult, results_table
from storage.judging.jobs import Job

log = logging.getLogger(__name__)

PROGRAM = "from collector.live.jobs.work.child import main; main()"

LIMITS = Limits(rows=10_000, nbytes=64 << 20)
"""Limits of the spans of a target, as for the sums of a trace. Of a longer trace only the spans with its input and
output are read; values that are spread over all spans are not judged.
"""

_TARGETS = 512
"""Traces or sessions that are examined together, fewer if they do not fit. To fetch traces of 8 spans took 83 µs each
for 256 at once, 50 for 512, 41 for 1,024; of traces of more than 10 spans, 1,024 would not fit."""

_SPANS = 2048
"""Single spans that are examined together. Fetching took 17 µs each for 512 at once, 6 for 2,048, 5 for 4,096."""

_IN_VAIN = 3
"""Starts of the process that may fail before it begins any job. A guess."""

Wants: TypeAlias = Literal["outcome", "case"]
_AnyWindow: TypeAlias = MeaningWindow | SpanWindow


class NotExamined(Exception):
    """Failure of a process that dies or hangs before it begins with anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The test case of a job, or the reason why there is none."""

    task: Task
    document: Mapping[str, Any] | None  # `{"case": …}`, or that of a failure; None if nothing of the target is stored
    part: ExaminedPart | None = None

    @property
    def case_text(self) -> str | None:
        """Return the document of the test case as JSON, if there is one."""
        return None if self.document is None else self.document.get("case")

    def result(self) -> JobResult:
        """Return the result of a job for which no case was made."""
        if self.document is None:
            return _gone(self.task)
        document = self.document if self.part is None else self.part.noted_in(self.document)
        return result_of(self.task.job.job_id, document, latency_ms=0.0)


class JudgedJobs(NamedTuple):
    """Results of some jobs, and the jobs that were postponed because their evaluator just took too long."""

    results: pa.Table  # in the columns of `job_results.RESULTS`
    postponed: Sequence[int]


class _Reply(NamedTuple):
    """One message of the process."""

    cases: Sequence[tuple[int, Mapping[str, Any], float]]
    judged: JudgedJobs


class _Batch(NamedTuple):
    """Jobs, and the rows of their targets, as stored readings or spans; None if there are no rows."""

    tasks: Sequence[Task]
    window: _AnyWindow | None


_NOTHING: Final = JudgedJobs(results_table(()), ())


class Examiner:
    """Examination of jobs in a child process, a group of targets at a time, while the next rows are read.

    If the process hangs or dies, the unanswered jobs are sent again together. The process then reports each job that it
    begins. If it fails again, the job begun last is to blame, and the others are sent once more.
    """

    def __init__(self, windows: Windows, own: OwnKeys, *, retry_policy: RetryPolicy, program: str = PROGRAM) -> None:
        greeting = {"own": own.projects, "prices": own.prices.settings, "cpu_s": retry_policy.check_cpu_s}
        self._windows = windows
        self._at: int | None = None  # the job that the process reported to have begun
        self._child = ChildProcess(program, greeting, timeout_s=retry_policy.child_s)
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="windows")

    @property
    def pid(self) -> int | None:
        """Return the id of the process; None while there is none."""
        return self._child.pid

    def cases(self, tasks: Sequence[Task]) -> Iterator[Examined]:
        """Yield the test case of each task, in any order.

        Raises:
            ChildFailed: the process was closed meanwhile; missing tasks are not examined.
            NotExamined: the process fails on every request.
        """
        of = {task.job.job_id: task for task in tasks}
        for batch in self._ahead(self._batches(tasks)):
            present, gone = _parted(batch)
            yield from (Examined(task=task, document=None) for task in gone)
            part = self._part(batch.window, present)
            for reply in self._ask("case", present, batch.window, part):
                yield from (
                    Examined(task=of[job_id], document=document, part=part) for job_id, document, _ in reply.cases
                )

    def judge(self, tasks: Sequence[Task]) -> Iterator[JudgedJobs]:
        """Evaluate tasks by checks, in any order.

        Raises:
            ChildFailed, NotExamined: as for `cases`.
        """
        for batch in self._ahead(self._batches(tasks)):
            present, gone = _parted(batch)
            if gone:
                yield JudgedJobs(results_table(map(_gone, gone)), ())
            for reply in self._ask("outcome", present, batch.window, self._part(batch.window, present)):
                yield reply.judged

    def kill(self) -> None:
        """End the process for good; safe to call from another thread."""
        self._child.kill()

    def close(self) -> None:
        """Release the process once no examination runs."""
        self._child.close()
        self._reading.shutdown()

    def _ahead(self, batches: Iterator[_Batch]) -> Iterator[_Batch]:
        following = self._reading.submit(next, batches, None)
        while (batch := following.result()) is not None:
            following = self._reading.submit(next, batches, None)
            yield batch

    def _batches(self, tasks: Sequence[Task]) -> Iterator[_Batch]:
        of_sessions = [task for task in tasks if task.job.session_id is not None]
        of_traces = [task for task in tasks if task.job.span_id is None and task.job.session_id is None]
        of_spans = [task for task in tasks if task.job.span_id is not None]
        yield from _windowed(of_sessions, _session_key, self._sessions)
        yield from self._by_meaning(of_traces, _trace_key, self._meanings_of_traces, self._traces, _TARGETS)
        yield from self._by_meaning(of_spans, _seq, self._meanings_of_spans, self._spans, _SPANS)

    def _by_meaning(
        self,
        tasks: Sequence[Task],
        target_of: Callable[[Job], Any],
        fetch_meanings: Callable[[Sequence[Any]], MeaningWindow | None],
        fetch: Callable[[Sequence[Any]], SpanWindow | None],
        at_once: int,
    ) -> Iterator[_Batch]:
        """Yield batches of jobs with stored readings of their targets, or with spans if the readings do not suffice."""
        unread: list[Task] = []
        for batch in _windowed(tasks, target_of, fetch_meanings, at_once):
            if batch.window is None or pc.all(batch.window.spans.column("is_complete")).as_py():
                yield batch
                continue
            is_complete = batch.window.spans.column("is_complete")
            incomplete = _targets(batch.window.spans.filter(pc.invert(is_complete)), batch.tasks)
            unread += [task for task in batch.tasks if _target(task.job) in incomplete]
            yield batch._replace(tasks=[task for task in batch.tasks if _target(task.job) not in incomplete])
        yield from _windowed(unread, target_of, fetch)

    def _meanings_of_traces(self, keys: Sequence[TraceKey]) -> MeaningWindow | None:
        return self._windows.meanings_of_traces(keys, limits=LIMITS)

    def _meanings_of_spans(self, numbers: Sequence[int]) -> MeaningWindow | None:
        return self._windows.meanings_of_spans(numbers, limits=LIMITS)

    def _traces(self, keys: Sequence[TraceKey]) -> SpanWindow | None:
        return self._windows.traces(keys, limits=LIMITS)

    def _sessions(self, keys: Sequence[SessionKey]) -> SpanWindow | None:
        return self._windows.sessions(keys, limits=LIMITS)

    def _spans(self, numbers: Sequence[int]) -> SpanWindow | None:
        return self._windows.spans(numbers, limits=LIMITS)

    def _part(self, window: _AnyWindow | None, tasks: Sequence[Task]) -> ExaminedPart | None:
        """Return which part of a trace or session was read, if it did not fit."""
        if window is None or not window.is_cut or not tasks or tasks[0].job.span_id is not None:
            return None
        job = tasks[0].job
        traces = [job.trace_id]
        if job.session_id is not None and isinstance(window, SpanWindow):
            traces = [*window.sessions[_session_key(job)]]
        total = self._windows.span_count([TraceKey(job.tenant, trace_id) for trace_id in traces])
        part = ExaminedPart(window.spans.num_rows, total)
        return part if part.seen < part.total else None

    def _ask(
        self, wants: Wants, tasks: Sequence[Task], window: _AnyWindow | None, part: ExaminedPart | None
    ) -> Iterator[_Reply]:
        left = {task.job.job_id: task for task in tasks}
        tells_each, in_vain = False, 0
        while left and window is not None:
            header = _header(wants, list(left.values()), window, part) | {"tells_each": tells_each}
            try:
                for reply in self._replies(header, window):
                    for job_id in _ids(reply):
                        del left[job_id]
                    yield reply
            except ChildFailed as error:
                if self._child.closed:
                    raise
                if not tells_each:
                    log.warning("a batch of %d checks failed; retrying one by one: %s", len(left), error)
                    tells_each = True
                    continue
                culprit = left.pop(self._at, None) if self._at is not None else None
                if culprit is None:  # it had begun no job, for example on an overloaded machine
                    in_vain += 1
                    if in_vain > _IN_VAIN:
                        raise NotExamined(str(error)) from error
                    continue
                log.error("job %d cannot be evaluated: %s", culprit.job.job_id, error)  # noqa: TRY400 - the message has the reason
                yield _killed(wants, culprit, error)

    def _replies(self, header: Mapping[str, Any], window: _AnyWindow) -> Iterator[_Reply]:
        tables = [window.spans] if isinstance(window, MeaningWindow) else [window.spans, window.logs]
        self._at = None
        for answer, results in self._child.ask(dict(header), tables):
            self._at = answer.get("at")
            if self._at is None:
                judged = JudgedJobs(results[0], answer["postponed"]) if results else _NOTHING
                yield _Reply(answer["cases"], judged)


def _windowed(
    tasks: Sequence[Task],
    target_of: Callable[[Job], Any],
    fetch: Callable[[Sequence[Any]], _AnyWindow | None],
    at_once: int = _TARGETS,
) -> Iterator[_Batch]:
    """Yield batches of jobs with the rows of their targets, as many targets as fit, at least one."""
    by_target: dict[Any, list[Task]] = {}
    for task in tasks:
        by_target.setdefault(target_of(task.job), []).append(task)
    left = [list(by_target)[at : at + at_once] for at in range(0, len(by_target), at_once)][::-1]
    while left:
        targets = left.pop()
        window = fetch(targets)
        if window is not None and window.is_cut and len(targets) > 1:  # it is not known which of them are whole
            middle = len(targets) // 2
            left += [targets[middle:], targets[:middle]]
            continue
        yield _Batch([task for target in targets for task in by_target[target]], window)


def _parted(batch: _Batch) -> tuple[list[Task], list[Task]]:
    """Split a batch into jobs whose targets are stored, and the others."""
    window = batch.window
    targets = set() if window is None else _targets(window.spans, batch.tasks)
    if isinstance(window, SpanWindow):
        targets |= {ExaminedTarget(key.tenant, None, None, key.session_id) for key in window.sessions}
    present: list[Task] = []
    gone: list[Task] = []
    for task in batch.tasks:
        (present if _target(task.job) in targets else gone).append(task)
    return present, gone


def _header(wants: Wants, tasks: Sequence[Task], window: _AnyWindow, part: ExaminedPart | None) -> dict[str, Any]:
    sessions = window.sessions.items() if isinstance(window, SpanWindow) else ()
    revisions = {task.active.revision: task.active for task in tasks}
    return {
        "wants": wants,
        "are_meanings": isinstance(window, MeaningWindow),
        "part": part,
        "rules": {str(number): _rule(active) for number, active in revisions.items()},
        "jobs": [[job.job_id, job.revision, *_target(job)] for job, _ in tasks],
        "sessions": [[*key, list(traces)] for key, traces in sessions],
    }


def _ids(reply: _Reply) -> Iterator[int]:
    judged: list[int] = reply.judged.results.column("job_id").to_pylist()
    return itertools.chain((job_id for job_id, *_ in reply.cases), judged, reply.judged.postponed)


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


def _targets(spans: pa.Table, tasks: Sequence[Task]) -> set[ExaminedTarget]:
    """Return which targets of the jobs have rows: traces, or spans."""
    of_spans = any(task.job.span_id is not None for task in tasks)
    columns = ("tenant", "trace_id", "span_id") if of_spans else ("tenant", "trace_id")
    rows = set(zip(*(spans.column(name).to_pylist() for name in columns), strict=True))
    return {
        ExaminedTarget(tenant, trace_id, span_id[0] if span_id else None, None) for tenant, trace_id, *span_id in rows
    }


def _rule(active: ActiveRule) -> dict[str, Any]:
    rule = active.rule
    return {
        "evaluator": rule.evaluator,
        "config": dict(rule.configuration),
        "additions": rule.additions,
    }


def _gone(task: Task) -> JobResult:
    job, active = task
    return skipped(job, active, "target_gone", "not evaluated, because its data is no longer stored")


def _killed(wants: Wants, task: Task, error: ChildFailed) -> _Reply:
    job, rule = task.job, task.active.rule
    message = f"it ended or hung the process that evaluates: {error}"
    name = str(rule.configuration.get("name") or rule.evaluator)
    document = Failure(name=name, fingerprint=None, kind="killed", message=message, usage=None).to_document()
    if wants == "case":
        return _Reply([(job.job_id, document, 0.0)], _NOTHING)
    return _Reply((), JudgedJobs(results_table([result_of(job.job_id, document, latency_ms=0.0)]), ()))
