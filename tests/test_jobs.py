"""The ledger of jobs: claimed once, finished once, put back, freed, and retried by hand."""

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from collector.api.responses.judging import JobDocument
from collector.cli.jobs import print_jobs
from collector.cli.responses import parse_response
from collector.live.jobs.work.ledger import Ledger
from collector.live.judges.judge_health import JudgedTarget
from storage.judging.job_results import JobResult, results_table
from storage.judging.jobs import Claim, Job, LedgerTurn, RequeuedJob
from storage.store import Store
from tests.serving import a_server, run
from tests.storing import a_store, rows, span_id, trace_id
from tests.working import LONG_S, NOW, QUICK, Book, evaluated, eventually, states

pytestmark = pytest.mark.costly("collector/api", "collector/cli", "collector/live", "storage")

NOW_US = int(NOW.replace(tzinfo=dt.UTC).timestamp()) * 1_000_000
LEASE_US = 60_000_000


def a_book(store: Store, *, jobs: int = 4) -> Book:
    """Build a rule with some jobs."""
    book = Book(store)
    active = book.rule(target="TRACE", evaluator="tool_error", name="errors")
    book.enqueue(active, [(trace_id(number), None) for number in range(jobs)])
    return book


def a_turn(*, at_us: int = NOW_US, **more: object) -> LedgerTurn:
    """Build a turn with its jobs."""
    return LedgerTurn(now_us=at_us, until_us=at_us + LEASE_US, **more)  # type: ignore[arg-type] # its fields


def claim(store: Store, jobs: int = 10, *, at_us: int = NOW_US, **more: object) -> list[Job]:
    """Claim jobs of the first rule."""
    (claimed,) = store.jobs.take_turn(a_turn(at_us=at_us, claims=[Claim(revisions=[1], jobs=jobs)], **more))
    return claimed


def a_result(job_id: int, **more: object) -> JobResult:
    """Build a result, by default a verdict."""
    fields: dict[str, object] = {"outcome": "scored", "score": 1.0, "passed": True}
    return JobResult(job_id=job_id, name="x", **fields | more)  # type: ignore[arg-type] # its fields


def a_failure(job_id: int, kind: str = "timeout") -> JobResult:
    """Build a failure."""
    return a_result(job_id, outcome="failed", score=None, passed=None, error_kind=kind, reason="too late")


def test_a_job_is_claimed_once(tmp_path: Path) -> None:
    """A claimed job is not claimed again, the oldest comes first, and each claim counts as an attempt."""
    with a_store(tmp_path) as store:
        a_book(store)
        assert [(job.job_id, job.attempts) for job in claim(store, 3)] == [(1, 1), (2, 1), (3, 1)]
        assert rows(store, "SELECT job_id, attempts, state FROM job ORDER BY job_id") == [
            (1, 1, "claimed"),
            (2, 1, "claimed"),
            (3, 1, "claimed"),
            (4, 0, "ready"),
        ]
        assert [job.job_id for job in claim(store)] == [4]
        assert claim(store) == []
        assert states(store) == {"claimed": 4}


def test_jobs_of_one_target_are_claimed_together(tmp_path: Path) -> None:
    """Of jobs that became due together, those of all rules about a target come one after the other."""
    with a_store(tmp_path) as store:
        book = Book(store)
        for evaluator in ("tool_error", "tool_call_validity"):
            active = book.rule(target="TRACE", evaluator=evaluator)
            book.enqueue(active, [(trace_id(number), None) for number in range(3)])
        (claimed,) = store.jobs.take_turn(a_turn(claims=[Claim(revisions=[1, 2], jobs=4)]))
        assert [(job.trace_id, job.revision) for job in claimed] == [
            (trace_id(0), 1),
            (trace_id(0), 2),
            (trace_id(1), 1),
            (trace_id(1), 2),
        ]


def test_finishing_twice_equals_finishing_once(tmp_path: Path) -> None:
    """A turn that is taken again stores nothing twice, and a job that is gone has no second evaluation."""
    with a_store(tmp_path) as store:
        a_book(store)
        claim(store)
        for score in (1.0, 0.0):
            store.jobs.take_turn(a_turn(finished=[a_result(1, score=score), a_result(2), a_result(99)]))
        assert evaluated(store, "job_id, score, attempts") == [(1, 1.0, 1), (2, 1.0, 1)]
        assert states(store) == {"scored": 2, "claimed": 2}


def test_a_job_that_was_put_back_waits(tmp_path: Path) -> None:
    """A job is not claimed before its time, shows as waiting with its error until then, and comes behind the others."""
    with a_store(tmp_path) as store:
        a_book(store, jobs=2)
        claim(store, 1)
        later = RequeuedJob(job_id=1, attempts=1, not_before_us=NOW_US + 10, error_kind="timeout", error="too late")
        store.jobs.take_turn(a_turn(put_back=[later]))
        ((waiting,),) = [[one] for one in store.jobs.waiting(NOW_US)]
        assert (waiting.due, waiting.next_us) == (1, NOW_US + 10)
        assert {depth.state: depth.jobs for depth in store.jobs.counts(NOW_US)} == {"waiting": 1, "ready": 1}
        claimed = claim(store, at_us=NOW_US + 10)
        assert [(job.job_id, job.attempts) for job in claimed] == [(2, 1), (1, 2)]
        assert rows(store, "SELECT job_id, error_kind FROM job ORDER BY job_id") == [(1, "timeout"), (2, None)]


def test_a_lease_that_ends_frees_its_job(tmp_path: Path) -> None:
    """A job without a holder is claimed again when its lease has ended; one whose lease is renewed is not."""
    with a_store(tmp_path) as store:
        a_book(store, jobs=2)
        claim(store)
        late = NOW_US + LEASE_US - 1
        store.jobs.take_turn(a_turn(at_us=late, held=[1], sweeps=True))
        assert claim(store, at_us=late + 2) == []
        assert [job.job_id for job in claim(store, at_us=late + 2, sweeps=True)] == [2]


def test_a_start_frees_everything(tmp_path: Path) -> None:
    """What an earlier process had claimed is ready at once, attempts stay counted, and no wait is absurdly long."""
    with a_store(tmp_path) as store:
        a_book(store, jobs=2)
        claim(store)
        far = RequeuedJob(job_id=1, attempts=1, not_before_us=NOW_US + 10**12)
        store.jobs.take_turn(a_turn(put_back=[far]))
    with a_store(tmp_path) as store:
        store.jobs.release_all(now_us=NOW_US, longest_wait_us=1000)
        assert [(job.job_id, job.attempts) for job in claim(store, at_us=NOW_US + 1000)] == [(2, 2), (1, 2)]


def test_superseded_results_stay_superseded(tmp_path: Path) -> None:
    """A job whose target is evaluated again stores its row if it was done, and is skipped if it was put back."""
    with a_store(tmp_path) as store:
        book = a_book(store, jobs=2)
        claim(store)
        book.supersede(1)
        book.supersede(2)
        store.jobs.take_turn(a_turn(finished=[a_result(1)], put_back=[RequeuedJob(job_id=2, attempts=1)]))
        assert evaluated(store, "job_id, outcome, superseded, error_kind") == [
            (1, "scored", True, None),
            (2, "skipped", True, "superseded"),
        ]
        assert [job.job_id for job in claim(store)] == [3, 4]
        assert rows(store, "SELECT job_id, round FROM job ORDER BY job_id") == [(3, 1), (4, 1)]


def test_failures_are_retried_by_hand(tmp_path: Path) -> None:
    """A retry is a new job of another round, whose number is new, and the failure is kept as superseded."""
    with a_store(tmp_path) as store:
        a_book(store)
        claim(store)
        over = a_result(3, outcome="skipped", score=None, passed=None, error_kind="over_budget")
        store.jobs.take_turn(a_turn(finished=[a_result(1), a_failure(2), over]))
        repeated = store.jobs.retry([1, 2, 3, 4, 5], now_us=NOW_US)
        assert (repeated.jobs, repeated.refused) == (2, {1: "scored", 4: "claimed", 5: None})
        assert [(job.job_id, job.attempts) for job in claim(store)] == [(5, 1), (6, 1)]
        assert rows(store, "SELECT job_id, round FROM job WHERE job_id > 4 ORDER BY job_id") == [(5, 1), (6, 1)]
        assert store.jobs.retry([2], now_us=NOW_US).refused == {2: "superseded"}
        assert states(store) == {"scored": 1, "superseded": 2, "claimed": 3}
        assert rows(store, "SELECT last_job FROM matching_state") == [(6,)]


def test_what_was_over_budget_is_retried_in_bulk(tmp_path: Path) -> None:
    """With its kind given, every omitted job is evaluated again; without it, only failed ones."""
    with a_store(tmp_path) as store:
        a_book(store)
        claim(store)
        over = [a_result(number, outcome="skipped", score=None, error_kind="over_budget") for number in (2, 3)]
        gone = a_result(4, outcome="skipped", score=None, error_kind="target_gone")
        store.jobs.take_turn(a_turn(finished=[a_failure(1), *over, gone]))
        assert store.jobs.retry_failed(rule=None, error_kind="target_gone", now_us=NOW_US).jobs == 0
        assert store.jobs.retry_failed(rule=None, error_kind=None, now_us=NOW_US).jobs == 1
        assert store.jobs.retry_failed(rule=None, error_kind="over_budget", now_us=NOW_US).jobs == 2
        assert states(store) == {"ready": 3, "superseded": 3, "skipped": 1}


def test_what_was_over_budget_is_taken_up_on_another_day(tmp_path: Path) -> None:
    """A ledger retries jobs omitted on earlier days, once, and none of its own day, and only if configured."""
    noon_s = NOW.replace(tzinfo=dt.UTC).timestamp()
    with a_store(tmp_path) as store:
        a_book(store, jobs=3)
        claim(store)
        for number, days in ((1, 9), (2, 1), (3, 0)):
            over = a_result(number, outcome="skipped", score=None, error_kind="over_budget")
            store.jobs.take_turn(a_turn(at_us=NOW_US - days * 86_400_000_000, finished=[over]))
        for has_budget, ready in ((False, []), (True, [4]), (True, [4])):
            retry_policy = replace(QUICK, retries_over_budget=has_budget)
            ledger = Ledger(
                store.jobs, lambda _: _Full(), lambda *_: None, clock=lambda: noon_s, retry_policy=retry_policy
            )
            ledger.start()
            assert ledger.wait_idle(LONG_S)
            ledger.close()
            assert rows(store, "SELECT job_id FROM job") == [(job_id,) for job_id in ready]
        assert states(store) == {"ready": 1, "superseded": 1, "skipped": 2}


class _HandsIn:
    """A queue that hands in the claimed jobs in each possible way."""

    def __init__(self) -> None:
        self.ledger: Ledger | None = None

    def room(self) -> int:
        """Return as many as the ledger has."""
        return 10

    def pause_s(self) -> None:
        """Return None: no pause is asked for."""

    def take(self, jobs: Sequence[Job]) -> None:
        """Hand in a failure, a row, an attempt that failed, and a job that was never begun."""
        assert self.ledger is not None
        one, row, again, untouched = (job.job_id for job in jobs)
        self.ledger.finish([a_failure(one, "bad_case")])
        self.ledger.finish_rows(results_table([a_result(row)]))
        late_us = NOW_US + 10**12
        tried = RequeuedJob(job_id=again, attempts=1, not_before_us=late_us, error_kind="unavailable", error="down")
        self.ledger.put_back([tried, RequeuedJob(job_id=untouched, attempts=1, not_before_us=late_us)])


def test_whatever_is_handed_in_is_noted(tmp_path: Path) -> None:
    """The ledger reports each outcome of a job to the watch over judges and checks, whichever way it comes."""
    noted: list[tuple[int, JudgedTarget]] = []
    queue, noon_s = _HandsIn(), NOW.replace(tzinfo=dt.UTC).timestamp()
    with a_store(tmp_path) as store:
        a_book(store)
        queue.ledger = Ledger(
            store.jobs,
            lambda _: queue,
            lambda revision, judged: noted.append((revision, judged)),
            clock=lambda: noon_s,
            retry_policy=QUICK,
        )
        queue.ledger.start()
        assert queue.ledger.wait_idle(LONG_S)
        queue.ledger.close()
    assert noted == [
        (1, JudgedTarget(1, "failed", "bad_case", "too late", has_ended=True)),
        (1, JudgedTarget(2, "scored", has_ended=True)),
        (1, JudgedTarget(3, "failed", "unavailable", "down")),
    ]


class _HandsInLater(_HandsIn):
    """A queue that sets the clock back by an hour once it has handed in its jobs."""

    now_s = NOW.replace(tzinfo=dt.UTC).timestamp()

    def take(self, jobs: Sequence[Job]) -> None:
        """Hand in, and set the clock back."""
        super().take(jobs)
        self.now_s -= 3_600


def test_a_clock_that_is_set_back_delays_no_result(tmp_path: Path) -> None:
    """Results that wait for others to be stored with them wait half a second, whatever the clock says."""
    queue = _HandsInLater()
    with a_store(tmp_path) as store:
        a_book(store)
        queue.ledger = Ledger(
            store.jobs, lambda _: queue, lambda *_: None, clock=lambda: queue.now_s, retry_policy=QUICK
        )
        queue.ledger.start()
        assert eventually(lambda: states(store), lambda counts: {"scored", "failed"} <= counts.keys())
        queue.ledger.close()


class _Full:
    """A queue that takes nothing."""

    def room(self) -> int:
        """Return 0."""
        return 0

    def pause_s(self) -> None:
        """Return None: the length of the pause is unknown."""

    def take(self, jobs: Sequence[Job]) -> None:
        """Not asked for."""
        raise AssertionError(jobs)


def test_a_waiting_job_can_be_hurried(tmp_path: Path) -> None:
    """A retry of a job that waits for its next attempt makes it due, with all its attempts before it."""
    with a_store(tmp_path) as store:
        a_book(store, jobs=1)
        claim(store)
        store.jobs.take_turn(a_turn(put_back=[RequeuedJob(job_id=1, attempts=7, not_before_us=NOW_US + 10**9)]))
        assert claim(store) == []
        assert store.jobs.retry([1], now_us=NOW_US).jobs == 1
        assert [(job.job_id, job.attempts) for job in claim(store)] == [(1, 1)]


@pytest.mark.parametrize(
    "filters, retried",
    [({}, 3), ({"rule": "errors"}, 3), ({"rule": "id-1"}, 3), ({"rule": "other"}, 0), ({"error_kind": "refused"}, 1)],
)
def test_failures_are_retried_by_what_they_have_in_common(
    tmp_path: Path, filters: dict[str, str], retried: int
) -> None:
    """A filter takes the failures of a rule, by name or id, or with a kind of error, and nothing that has a score."""
    with a_store(tmp_path) as store:
        a_book(store)
        claim(store)
        failures = [a_failure(1), a_failure(2), a_failure(3, "refused")]
        store.jobs.take_turn(a_turn(finished=[*failures, a_result(4)]))
        expected = {"rule": filters.get("rule"), "error_kind": filters.get("error_kind")}
        assert store.jobs.retry_failed(**expected, now_us=NOW_US).jobs == retried
        assert store.jobs.retry_failed(**expected, now_us=NOW_US).jobs == 0
        assert len(claim(store)) == retried


def test_jobs_over_http(tmp_path: Path) -> None:
    """The API lists jobs by state, rule and trace, page by page, and retries failed ones."""
    with a_server(tmp_path / "data") as server, httpx.Client(base_url=f"http://{server.http}", trust_env=False) as http:
        a_book(server.store)
        claim(server.store, 4)  # else the server takes the fourth, whose rule it does not know
        server.store.jobs.take_turn(a_turn(finished=[a_result(1), a_failure(2)]))
        page = http.get("/api/v1/jobs", params={"size": 3}).json()
        assert [job["id"] for job in page["content"]] == [4, 3, 2]
        assert (page["last"], page["numberOfElements"]) == (False, 3)
        (failed,) = http.get("/api/v1/jobs", params={"state": "failed"}).json()["content"]
        assert (failed["id"], failed["rule"], failed["errorKind"], failed["error"]) == (
            2,
            "errors",
            "timeout",
            "too late",
        )
        assert failed["createdAt"] == "2026-11-21T10:00:00.000000000Z"
        of_trace = http.get("/api/v1/jobs", params={"trace": trace_id(0).upper(), "rule": "errors"}).json()["content"]
        assert [(job["id"], job["state"]) for job in of_trace] == [(1, "scored")]
        assert http.post("/api/v1/jobs/2/retry").json() == {"retried": 1}
        again = http.post("/api/v1/jobs/2/retry")
        assert (again.status_code, "superseded" in again.json()["error"]) == (409, True)
        assert http.post("/api/v1/jobs/77/retry").status_code == 404
        assert http.post("/api/v1/jobs/nonsense/retry").status_code == 400
        assert http.get("/api/v1/jobs", params={"state": "lost"}).status_code == 400
        assert http.post("/api/v1/jobs/retry", json={"errorKind": "x"}).json() == {"retried": 0, "more": False}
        assert http.post("/api/v1/jobs/retry", json={"kind": "x"}).status_code == 400


def test_jobs_on_the_command_line(tmp_path: Path) -> None:
    """The commands list and retry jobs of a data directory, with and without a server."""
    data = tmp_path / "data"
    with a_store(data) as store:
        a_book(store)
        claim(store)
        store.jobs.take_turn(a_turn(finished=[a_result(1), a_failure(2), a_failure(3, "refused"), a_failure(4)]))
    listed = run("jobs", "list", "--data", data, "--state", "failed").output
    assert "timeout: too late" in listed
    assert (listed.count("gave up"), listed.count("failed")) == (3, 0)
    assert "it is scored" in run("jobs", "retry", "--data", data, "1").output
    assert run("jobs", "retry", "--data", data, "--error", "nothing").output == "0 to be evaluated again\n"
    with a_server(data) as server:
        server.pipeline.close()  # so that nothing comes of them meanwhile
        assert run("jobs", "retry", "--data", data, "2").output == "1 to be evaluated again\n"
        assert run("jobs", "retry", "--data", data, "--error", "refused").output == "1 to be evaluated again\n"
        assert run("jobs", "retry", "--data", data, "--rule", "errors").output == "1 to be evaluated again\n"
        assert "there is no such job" in run("jobs", "retry", "--server", f"http://{server.http}", "99").output
        documents = json.loads(run("jobs", "list", "--data", data, "--json", "--limit", "2").output)
        assert [job["id"] for job in documents] == [7, 6]
    assert run("jobs", "retry", "--data", data).exit_code == 2
    assert run("jobs", "retry", "--data", data, "--failed", "3").exit_code == 2
    assert run("jobs", "list", "--data", data, "--rule", "nobody").output == "no jobs here\n"


def test_no_id_is_cut_and_nothing_is_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Ids, which `jobs retry` takes, are whole however long lines are, and so are errors that no terminal shows."""
    job = parse_response(
        JobDocument,
        {
            "id": 1_234_567_890_123_456,
            "state": "failed",
            "rule": "rule",
            "traceId": trace_id(1),
            "spanId": span_id(1),
            "sessionId": None,
            "attempts": 3,
            "errorKind": "bad_reply",
            "error": "long " * 60 + "end",
            "createdAt": "2026-11-28T19:45:25Z",
            "tenant": "",
            "ruleId": "r",
            "ruleRevision": "",
            "evaluator": "e",
            "round": 0,
        },
    )
    print_jobs([job])
    shown = capsys.readouterr().out
    for text in (str(job.id), trace_id(1), span_id(1), "long end"):
        assert text in shown
