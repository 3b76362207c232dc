"""The driver of a job over the lake: it hands out traces in order, and publishes their results in the same order."""

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Final, TypeAlias

import pyarrow as pa

from collector.live.jobs.lake_bucket import CaseToJudge, JudgedBucket, LakeJob, LakeWorker, judge_bucket
from collector.live.jobs.work.examiner import NotExamined
from collector.machine import checking_processes
from collector.result_labels import PASSED
from evaluators.chat.pace import ANOTHER_MAY_ANSWER
from storage.errors import Reopened
from storage.judging.job_results import JobResult, results_table
from storage.judging.jobs import Job
from storage.lake.jobs import JobResults

Begin: TypeAlias = Callable[[pa.Table], Callable[[], JudgedBucket]]
"""Function that begins with some traces, and returns what waits for their results."""

Target: TypeAlias = tuple[str, str, str | None]
"""Tenant, trace and span of a target; a target that is a trace has no span."""

Ask: TypeAlias = Callable[[Job, CaseToJudge], JobResult]
"""Function that has a judge evaluate the case of a target. Raises `JobStopped` if it cannot be called now."""

Counting: TypeAlias = Callable[[int, bool], AbstractContextManager[Callable[[int], None]]]
"""Function that shows a number of traces, and True if they are the rest; it returns what counts those that are done."""

_TRACES: Final = 512
"""Traces of one bucket: as many as an examining process is sent at once."""

_CASES: Final = 24  # traces of one bucket of a rule with a judge, which takes long for each; a guess
_CALLS_AT_ONCE: Final = 3  # of the four calls that the server makes at once for trials
_TRIES: Final = 10  # of a bucket whose worker died; a guess
_FAILURES: Final = 20
"""Failures of a judge in a row after which the job stops. A guess: as many calls are paid for nothing. If a fifth of
all calls fails by chance, 20 in a row do once in 10^14."""

_NAME: Final = ("tenant", "trace_id")
_COMMIT_S: Final = 5.0
"""Time between commits, each of which makes a file; a driver that is killed loses so much. A guess."""

WAITS: Final = ANOTHER_MAY_ANSWER | {"over_budget", "budget_held", "bad_configuration"}
"""Failures of a judge after which the rest is left for another start."""


class JobStopped(Exception):
    """The rest of a job is left, for a reason; what is published stays."""


def run_job(job: LakeJob, ask: Ask | None, ray: str | None, counting: Counting, counts: Counter[str]) -> None:
    """Evaluate what is left of a job, with `ask` if its rule has a judge, and then again what had failed before.

    `ray` is the address of a cluster. `counting` shows the progress over a number of traces. `counts` gets the numbers
    of results by ending.

    Raises:
        StorageError: the lake cannot be read or written now.
        JobStopped: Ray cannot be used, or the judge cannot be called now, or answers nothing that is a verdict.
        NotExamined: processes that evaluate die whenever they are started; `ChildFailed`, too.
    """
    results = JobResults(job.uri, job.scope, job.id)
    with ExitStack() as stack:
        snapshot = stack.enter_context(job.snapshot())
        results.forget_removed()
        position = results.begin()
        failed = results.failed()
        traces_after = partial(snapshot.traces, from_ns=job.from_ns, to_ns=job.to_ns, tenant=job.active.judges)
        traces = traces_after(after=position)
        again = _of(failed, traces_after(after=0)) if failed else traces.slice(0, 0)
        advance = stack.enter_context(counting(traces.num_rows + again.num_rows, position > 0))
        if not traces.num_rows and not again.num_rows:
            return
        begin, at_once = stack.enter_context(_on_this_machine(job) if ray is None else _on_ray(job, ray))
        judged = frozenset() if ask is None else results.judged_after(position)
        publisher = _Publisher(job=job, results=results, last=position, judged=judged, counts=counts)
        size = _TRACES if ask is None else _CASES
        some = [table.slice(first, size) for table in (traces, again) for first in range(0, table.num_rows, size)]
        coming, waiting = iter(some), deque[Callable[[], JudgedBucket]]()
        new = -(-traces.num_rows // size)
        try:
            for number, bucket in enumerate(some):
                waiting += [begin(each) for each in islice(coming, at_once - len(waiting))]
                if number == new:
                    publisher.commit()
                    publisher.again = frozenset(failed)
                publisher.take(bucket, waiting.popleft()(), ask)
                advance(bucket.num_rows)
        except BaseException:  # raised again: what is judged, and perhaps paid, stays
            publisher.commit()
            raise
        publisher.commit()


def _of(targets: Sequence[Target], traces: pa.Table) -> pa.Table:
    places = {
        name: place for place, name in enumerate(zip(*(traces.column(each).to_pylist() for each in _NAME), strict=True))
    }
    return traces.take(list(dict.fromkeys(places[target[:2]] for target in targets if target[:2] in places)))


@dataclass(slots=True, kw_only=True)
class _Publisher:
    """Publisher of results in the order of their traces."""

    job: LakeJob
    results: JobResults
    last: int  # number up to which all traces are judged
    counts: Counter[str]
    judged: AbstractSet[Target]  # after the position
    again: AbstractSet[Target] | None = None  # that failed, after all new ones: the only ones to judge from then on
    _failed_in_row: int = 0
    _pending: list[pa.Table] = field(default_factory=list)
    _now_us: int = 0
    _committed_s: float = field(default_factory=time.monotonic)

    def take(self, bucket: pa.Table, judged: JudgedBucket, ask: Ask | None) -> None:
        """Take the results of a bucket; of a judge one by one, so that those before a failure stay."""
        if ask is None:
            due = [self._is_due(judged.targets[each][0]) for each in judged.results.column("job_id").to_pylist()]
            last = self.last if self.again is not None else bucket.column("first_number")[-1].as_py()
            self._add(judged, judged.results.filter(pa.array(due, pa.bool_())), last=last)
            return
        of_trace: dict[tuple[str, str], list[int]] = defaultdict(list)
        for number, (target, _, _) in enumerate(judged.targets):
            if self._is_due(target):
                of_trace[target.tenant, target.trace_id].append(number)
        traces = [
            (row["first_number"] if self.again is None else self.last, of_trace[row["tenant"], row["trace_id"]])
            for row in bucket.to_pylist()
        ]
        cases = {case.number: case for case in judged.cases}
        known = {row["job_id"]: JobResult(**row) for row in judged.results.to_pylist()}
        with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
            in_order = [number for _, numbers in traces for number in numbers if number in cases]
            results = {each: pool.submit(ask, judged.targets[each][0], cases[each]) for each in in_order}
            try:
                for last, numbers in traces:
                    for each in numbers:
                        if each in results:
                            result = results[each].result()
                            del results[each]
                            self._add(judged, results_table([result]), last=self.last)
                            self._look(result)
                    got = [known[each] for each in numbers if each in known]
                    self._add(judged, results_table(got), last=last)
            except BaseException:  # raised again: what has been paid meanwhile stays
                pool.shutdown(cancel_futures=True)
                paid = [each.result() for each in results.values() if not each.cancelled() and not each.exception()]
                self._add(judged, results_table(paid), last=self.last)
                raise

    def _is_due(self, target: Job) -> bool:
        name = (target.tenant, target.trace_id, target.span_id)
        return name not in self.judged if self.again is None else name in self.again

    def _look(self, result: JobResult) -> None:
        self._failed_in_row = self._failed_in_row + 1 if result.outcome == "failed" else 0
        if self._failed_in_row == _FAILURES:
            raise JobStopped(
                f"{_FAILURES} evaluations in a row failed, the last one because of: {result.reason}; mend that, and"
                " repeat the command, which also evaluates the failed ones again"
            )

    def _add(self, judged: JudgedBucket, results: pa.Table, *, last: int) -> None:
        self._now_us = time.time_ns() // 1000
        rows = judged.rows(self.job, results, now_us=self._now_us)
        self.counts.update(map(_ending, rows.column("outcome").to_pylist(), rows.column("passed").to_pylist()))
        self._pending.append(rows)
        self.last = last
        if time.monotonic() - self._committed_s > _COMMIT_S:
            self.commit()

    def commit(self) -> None:
        """Publish what is pending, of the trace under way too."""
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        self.results.publish(rows, self.last, self._now_us, replaces=self.again is not None)
        self._pending = []
        self.results.forget_removed(rows.column("write_number"))
        self._committed_s = time.monotonic()


def _ending(outcome: str, passed: bool | None) -> str:  # noqa: FBT001 - a row of results
    if outcome == "scored":
        return "did not pass" if passed is False else PASSED
    return outcome


@contextmanager
def _on_this_machine(job: LakeJob) -> Iterator[tuple[Begin, int]]:
    """Judge in processes of this machine; a thread for each of them reads the lake."""
    workers, own, count = list[LakeWorker](), threading.local(), checking_processes()
    is_over = False

    def judge(traces: pa.Table) -> JudgedBucket:
        for attempt in range(1, _TRIES + 1):
            try:
                if not hasattr(own, "worker"):
                    own.worker = LakeWorker(job)
                    workers.append(own.worker)
                if is_over:
                    raise JobStopped("interrupted")
                judged: JudgedBucket = own.worker.judge(traces)
            except (NotExamined, Reopened):
                if attempt == _TRIES:
                    raise
            else:
                return judged
        raise AssertionError

    pool = ThreadPoolExecutor(count, thread_name_prefix="lake")
    try:
        yield (lambda traces: pool.submit(judge, traces).result), 2 * count
    finally:
        is_over = True
        for each in workers:
            each.stop()  # of what is under way after Ctrl-C or an error, nothing is published
        pool.shutdown(cancel_futures=True)
        for each in workers:
            each.close()


@contextmanager
def _on_ray(job: LakeJob, address: str) -> Iterator[tuple[Begin, int]]:
    """Judge by tasks of a Ray cluster, which repeats those whose worker died."""
    try:
        ray = import_module("ray")  # no dependency: its version is that of the cluster
    except ImportError as error:
        raise JobStopped("Ray is not installed here: pip install ray") from error
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise JobStopped(f"Ray cannot be used at {address}: {error}") from error
    try:
        shared = ray.put(job)
        task = ray.remote(judge_bucket).options(max_retries=_TRIES, retry_exceptions=[NotExamined, Reopened])

        def begin(traces: pa.Table) -> Callable[[], JudgedBucket]:
            reference = task.remote(shared, traces)
            return lambda: ray.get(reference)

        yield begin, 2 * max(int(ray.cluster_resources().get("CPU", 1)), 1)
    finally:
        ray.shutdown()
