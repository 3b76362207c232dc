"""Judges and programs: what endpoints do to them is never a score, costs no attempts in vain, and stops no others."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest

from evaluators.chat.connection import Price
from tests.model_server import GARBAGE, HalfSends, Hangs, ModelRequest, Says, Sends, Status, Step, a_model
from tests.storing import WAIT_S, a_batch, a_store, commit, rows, span_id, trace_id
from tests.test_workers_checks import an_output
from tests.working import LONG_S, QUICK, Book, LocalJudges, a_connection, evaluated, eventually, states, working

pytestmark = pytest.mark.costly("collector/children", "collector/live", "evaluators", "storage/judging")

GOOD = Says({"score": 0.9, "reason": "good"})
LATER = Status(429, headers={"Retry-After": "0.3"})

UNJUDGED = """json_merge_patch(metadata, '{"judgedOutput": null}')::VARCHAR AS metadata"""
"""Metadata without the output that was judged, which differs from span to span."""


@contextmanager
def a_book(directory: Path, *, traces: int = 4) -> Iterator[Book]:
    """Open a store with spans that have inputs and outputs."""
    with a_store(directory) as store:
        commit(store, a_batch(*(an_output(f"answer {trace}", trace=trace) for trace in range(traces))))
        yield Book(store)


def ask(book: Book, connection: str = "main", *, traces: int = 4, **keys: object) -> None:
    """Queue jobs of a judge for the first traces."""
    active = book.rule("judge", criteria="Is it polite?", connectionId=connection, **keys)
    book.enqueue(active, [(trace_id(trace), span_id(trace)) for trace in range(traces)])


@dataclass(slots=True)
class Moody:
    """A script that answers by its mood, and counts."""

    mood: Step
    call_count: int = 0
    at_once: int = 0
    most_at_once: int = 0
    times_s: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, _: ModelRequest) -> Step:
        """Answer, and count."""
        with self.lock:
            self.call_count += 1
            self.times_s.append(time.monotonic())
            return self.mood


def test_a_judge_scores(tmp_path: Path) -> None:
    """A judge's verdict is stored with its model, its tokens and its cost."""
    with a_book(tmp_path) as book, a_model(GOOD) as model:
        ask(book)
        with working(book, {"main": a_connection(model.base_url)}) as workers:
            assert workers.wait_idle(LONG_S)
        columns = "outcome, score, passed, reason, input_tokens, output_tokens, judge_calls, attempts"
        assert evaluated(book.store, columns) == 4 * [("scored", 0.9, True, "good", 100, 20, 1, 1)]
        assert rows(book.store, "SELECT count(judge_model), count(DISTINCT fingerprint) FROM evaluations") == [(4, 1)]


def test_criteria_are_enough_for_a_span_without_input(tmp_path: Path) -> None:
    """A rule that has only criteria is about spans without an input too."""
    with a_store(tmp_path) as store, a_model(GOOD) as model:
        request = an_output("answer", trace=0)
        del request.resource_spans[0].scope_spans[0].spans[0].attributes[-1]
        commit(store, a_batch(request))
        book = Book(store)
        ask(book, traces=1)
        with working(book, {"main": a_connection(model.base_url)}) as workers:
            assert workers.wait_idle(LONG_S)
        assert evaluated(store) == [("scored", 0.9, True)]


@pytest.mark.parametrize("step", [Hangs(), Status(503), HalfSends(b'{"choices":'), Status(500, b"\xff"), LATER])
def test_an_outage_costs_no_job(tmp_path: Path, step: Step) -> None:
    """However an endpoint fails, and for how long, its jobs wait and are scored once it answers again."""
    script = Moody(mood=step)
    with a_book(tmp_path, traces=12) as book, a_model(script) as model:
        ask(book, traces=12)
        retry_policy = replace(QUICK, attempts=3)
        with working(book, {"main": a_connection(model.base_url, timeout_s=0.4)}, retry_policy=retry_policy) as workers:
            eventually(lambda: script.call_count, lambda count: count > 6)
            time.sleep(1)
            assert set(states(book.store)) <= {"ready", "waiting", "claimed"}
            assert rows(book.store, "SELECT max(attempts) <= 3 FROM job") == [(True,)]
            before = script.call_count
            assert before < 40  # one at a time, with a pause between
            script.mood = GOOD
            eventually(lambda: states(book.store), lambda counts: counts == {"scored": 12})
            assert workers.wait_idle(LONG_S)
        assert script.call_count <= before + 15


def test_test_cases_that_were_made_ahead_are_used_or_forgotten(tmp_path: Path) -> None:
    """Over an outage and a rule that is deleted each job is done once, and nothing that was prepared stays behind."""
    script = Moody(mood=GOOD)
    with a_book(tmp_path, traces=200) as book, a_model(script) as model:
        ask(book, traces=200)
        with working(book, {"main": a_connection(model.base_url, in_flight=2)}) as workers:
            prepared = workers._asking._cases._prepared
            eventually(lambda: len(prepared.made), lambda made: made > 0)
            script.mood = Status(503)
            eventually(lambda: len(prepared.made), lambda made: made == 0)
            script.mood = GOOD
            scored = "SELECT count(*) FROM evaluation WHERE outcome = 'scored'"
            eventually(lambda: rows(book.store, scored), lambda stored: stored > [(100,)])
            book.delete(book.revisions[1])
            assert workers.wait_idle(LONG_S)
            assert (prepared.made, prepared.by, prepared.characters) == ({}, {}, 0)
        assert states(book.store).keys() <= {"scored", "skipped"}
        assert rows(book.store, "SELECT count(*), count(DISTINCT job_id) FROM evaluation") == [(200, 200)]


def test_nothing_listens(tmp_path: Path) -> None:
    """Jobs of a connection that cannot be reached wait, and tell why."""
    with a_model(GOOD) as model:
        connection = a_connection(model.base_url)
    with a_book(tmp_path) as book:
        ask(book)
        with working(book, {"main": connection}):
            kinds = "SELECT DISTINCT error_kind FROM job"
            eventually(lambda: rows(book.store, kinds), lambda stored: stored == [("unreachable",)])
        assert states(book.store).keys() <= {"ready", "waiting"}


def test_a_fallback_is_asked_while_a_connection_is_down(tmp_path: Path) -> None:
    """Results over it have its fingerprint and both costs, and no job waits for the connection that is down."""
    main, other = Moody(mood=Status(503)), Moody(mood=GOOD)
    with a_book(tmp_path, traces=40) as book, a_model(main) as down, a_model(other) as up:
        ask(book, traces=20)
        connections = {
            "main": a_connection(down.base_url),
            "other": replace(a_connection(up.base_url), model="judge-2", temperature=0.0),
        }
        judges = LocalJudges(connections, {"main": "other"})
        with working(book, judges=judges) as workers:
            eventually(lambda: states(book.store), lambda counts: counts == {"scored": 20})
            assert main.call_count < 20
            assert evaluated(book.store, f"DISTINCT score, {UNJUDGED}, attempts") == [
                (0.9, '{"fallbackConnection":"other"}', 1)
            ]
            assert rows(book.store, "SELECT sum(judge_calls) FROM evaluation") == [(20 + main.call_count,)]
            over_other = rows(book.store, "SELECT DISTINCT fingerprint FROM evaluation")
            main.mood = GOOD
            active = book.rule("judge", criteria="Is it polite?", connectionId="main")
            targets = iter(range(20, 40))

            def by_main() -> list[tuple[object, ...]]:
                trace = next(targets)
                book.enqueue(active, [(trace_id(trace), span_id(trace))])
                workers.wake()
                eventually(lambda: states(book.store), lambda counts: counts == {"scored": trace + 1})
                time.sleep(0.1)
                return rows(
                    book.store, "SELECT DISTINCT fingerprint FROM evaluation WHERE metadata NOT LIKE '%fallback%'"
                )

            requests = eventually(by_main, bool)  # once the pause is over
            assert not {*requests} & {*over_other}


def test_a_fallback_that_cannot_be_used_costs_no_job(tmp_path: Path) -> None:
    """Jobs wait for the connection as if it had no fallback, and report the error of the fallback."""
    script = Moody(mood=Status(503))
    with a_book(tmp_path) as book, a_model(script) as model:
        ask(book)
        judges = LocalJudges({"main": a_connection(model.base_url)}, {"main": "missing"})
        with working(book, judges=judges):
            query = "SELECT count(*) FROM job WHERE error LIKE '%its fallback ''missing'' cannot be used%'"
            eventually(lambda: rows(book.store, query), lambda stored: stored == [(4,)])
            script.mood = GOOD
            eventually(lambda: states(book.store), lambda counts: counts == {"scored": 4})


JURY = ["second", "third"]


@contextmanager
def a_jury(
    directory: Path, *moods: Step, fallbacks: dict[str, str] | None = None
) -> Iterator[tuple[Book, list[Moody]]]:
    """Yield workers with three judges, each over a connection of its own, and a fourth that is in no jury."""
    scripts = [Moody(mood=mood) for mood in moods]
    names = ("main", *JURY, "fourth")
    with ExitStack() as stack:
        book = stack.enter_context(a_book(directory))
        urls = [stack.enter_context(a_model(script)).base_url for script in scripts]
        connections = {
            name: replace(a_connection(url), model=f"model of {name}") for name, url in zip(names, urls, strict=False)
        }
        stack.enter_context(working(book, judges=LocalJudges(connections, fallbacks or {})))
        yield book, scripts


def test_a_jury_gives_the_score_in_the_middle_and_how_many_agree(tmp_path: Path) -> None:
    """Each judge is asked once, over its own connection; the result has all votes, all costs, and their fingerprint."""
    moods = [Says({"score": score, "reason": f"so {score}"}) for score in (0.9, 0.2, 0.6)]
    with a_jury(tmp_path, *moods) as (book, scripts):
        ask(book, jury=JURY)
        eventually(lambda: states(book.store), lambda counts: counts == {"scored": 4})
        assert [script.call_count for script in scripts] == [4, 4, 4]
        ((score, passed, reason, calls, model, metadata),) = evaluated(
            book.store, f"DISTINCT score, passed, reason, judge_calls, judge_model, {UNJUDGED}"
        )
        assert (score, passed, calls) == (0.6, True, 3)
        assert reason == "2 of 3 judges agree. so 0.6"
        assert model == "gpt-4o-mini-2024-07-18", "as the endpoints name it"
        document = json.loads(str(metadata))
        assert document["judgesAgreement"] == pytest.approx(2 / 3)
        assert [(vote["connection"], vote["model"], vote["score"]) for vote in document["judges"]] == [
            ("main", "model of main", 0.9),
            ("second", "model of second", 0.2),
            ("third", "model of third", 0.6),
        ]
        jury = rows(book.store, "SELECT DISTINCT fingerprint FROM evaluation")
        ask(book)
        eventually(lambda: len(evaluated(book.store, "job_id")), lambda stored: stored == 8)
        assert len(rows(book.store, "SELECT DISTINCT fingerprint FROM evaluation")) == 2
        assert len(jury) == 1


def test_a_judge_of_a_jury_that_is_down_is_waited_for_and_costs_no_votes_of_others(tmp_path: Path) -> None:
    """No judge is asked while one of them is down, other rules over the first connection go on, and then all vote."""
    with a_jury(tmp_path, GOOD, Status(503), GOOD) as (book, scripts):
        second = scripts[1]
        ask(book, jury=JURY)
        query = "SELECT count(*) FROM job WHERE error LIKE '%second: the connection is down, so the jury%'"
        eventually(lambda: rows(book.store, query), lambda stored: stored > [(0,)])
        ask(book, traces=2)
        eventually(lambda: states(book.store).get("scored"), lambda counts: counts == 2)
        second.mood = GOOD
        eventually(lambda: states(book.store), lambda counts: counts == {"scored": 6})
        ((spent,),) = rows(book.store, "SELECT sum(judge_calls) FROM evaluation")
        assert spent == sum(script.call_count for script in scripts)


def test_a_judge_of_a_jury_has_its_fallback(tmp_path: Path) -> None:
    """If one judge does not answer its fallback votes, so the jury has another fingerprint, and says so."""
    with a_jury(tmp_path, GOOD, Status(503), GOOD, GOOD, fallbacks={"second": "fourth"}) as (book, scripts):
        ask(book, jury=JURY)
        eventually(lambda: states(book.store), lambda counts: counts == {"scored": 4})
        assert scripts[3].call_count == 4
        ((metadata,),) = evaluated(book.store, f"DISTINCT {UNJUDGED}")
        models = [vote["model"] for vote in json.loads(str(metadata))["judges"]]
        assert models == ["model of main", "model of fourth", "model of third"]


def test_only_the_judge_of_a_jury_that_failed_is_asked_again(tmp_path: Path) -> None:
    """The votes of the others are kept for the retry, and the result has the cost of each call once."""
    with a_jury(tmp_path, GOOD, GOOD, Says("no idea")) as (book, scripts):
        ask(book, jury=JURY)
        eventually(lambda: scripts[2].call_count, lambda count: count >= 4)
        scripts[2].mood = GOOD
        eventually(lambda: states(book.store), lambda counts: counts == {"scored": 4})
        assert [script.call_count for script in scripts[:2]] == [4, 4]
        calls = sum(script.call_count for script in scripts)
        assert calls >= 16
        columns = "sum(judge_calls), sum(output_tokens), bool_and(reason LIKE '3 of 3 judges agree%')"
        assert rows(book.store, f"SELECT {columns} FROM evaluation") == [(calls, 20 * calls, True)]


def test_a_jury_with_a_judge_that_is_not_there_says_which(tmp_path: Path) -> None:
    """The evaluation fails with the connection that is missing, and the others are asked in vain once at most."""
    with a_jury(tmp_path, GOOD, GOOD) as (book, _):
        ask(book, jury=JURY)
        eventually(lambda: states(book.store), lambda counts: counts == {"failed": 4})
        ((kind, error),) = evaluated(book.store, "DISTINCT error_kind, reason")
        assert kind == "bad_configuration"
        assert "third" in str(error)


def test_one_prompt_that_fails_alone_is_given_up(tmp_path: Path) -> None:
    """A job that fails while others are answered has a limited number of attempts, then fails without a score."""

    def script(request: ModelRequest) -> Step:
        return Status(503) if "answer 2\n" in request.user else GOOD

    with a_book(tmp_path, traces=40) as book, a_model(script) as model:
        active = book.rule("judge", criteria="Is it polite?", connectionId="main")
        with working(book, {"main": a_connection(model.base_url)}, retry_policy=replace(QUICK, attempts=3)) as workers:
            book.enqueue(active, [(trace_id(2), span_id(2))])
            for trace in range(3, 40):  # one after the other, so that the connection is seen to work all the time
                book.enqueue(active, [(trace_id(trace), span_id(trace))])
                workers.wake()
                time.sleep(0.02)
            eventually(lambda: states(book.store), lambda counts: counts == {"scored": 37, "failed": 1})
        assert evaluated(book.store, "score, passed, error_kind, attempts")[0] == (None, None, "unavailable", 3)


def test_a_prompt_that_fails_alone_holds_up_no_other(tmp_path: Path) -> None:
    """If the oldest jobs are the failing ones, so that the connection seems to be down, the others are still scored."""

    def script(request: ModelRequest) -> Step:
        return Status(503) if "answer 1" in request.user else GOOD

    with a_book(tmp_path, traces=20) as book, a_model(script) as model:
        active = book.rule("judge", criteria="Is it polite?", connectionId="main")
        order = [*range(10, 20), *range(2, 10)]
        book.enqueue(active, [(trace_id(trace), span_id(trace)) for trace in order])
        with working(book, {"main": a_connection(model.base_url)}):
            eventually(lambda: states(book.store).get("scored"), lambda scored: scored == 8)


def test_retry_after_is_respected(tmp_path: Path) -> None:
    """An endpoint that asks for a pause is not asked before it is over, by any job."""
    script = Moody(mood=Status(429, headers={"Retry-After": "1"}))
    with a_book(tmp_path) as book, a_model(script) as model:
        ask(book)
        with working(book, {"main": a_connection(model.base_url)}, retry_policy=replace(QUICK, longest_requested_s=2)):
            eventually(lambda: script.call_count, lambda count: count >= 8)
    gaps = [after - before for before, after in pairwise(script.times_s)]
    apart = [gap for gap in gaps if gap > 0.3]  # requests that leave together arrive nearly together
    assert len(apart) >= 2
    assert min(apart) >= 0.95


@pytest.mark.parametrize("attempts", [1, 3])
def test_nothing_leaves_during_a_pause(tmp_path: Path, attempts: int) -> None:
    """An answer during a pause does not end it, and retries within one call observe it."""
    lock, requested_s, paused_s = threading.Lock(), list[float](), list[float]()

    def pause_once(_: ModelRequest) -> Step:
        with lock:
            requested_s.append(time.monotonic())
            if len(requested_s) == 6:
                paused_s.append(time.monotonic())
                return Status(429, headers={"Retry-After": "4"})
        time.sleep(0.3)
        return GOOD if len(requested_s) % 2 else Status(503)

    retry_policy = replace(QUICK, longest_requested_s=10)
    with a_book(tmp_path, traces=60) as book, a_model(pause_once) as model:
        ask(book, traces=60)
        connection = a_connection(model.base_url, in_flight=8, timeout_s=10, attempts=attempts)
        with working(book, {"main": connection}, retry_policy=retry_policy):
            eventually(lambda: requested_s, lambda times: bool(paused_s) and times[-1] > paused_s[0] + 4)
    during = [at_s - paused_s[0] for at_s in requested_s if 1 < at_s - paused_s[0] < 3.9]
    assert during == []


def test_a_connection_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    """While one connection hangs, the jobs of another and checks are evaluated at once."""
    with a_book(tmp_path, traces=20) as book, a_model(Hangs()) as hanging, a_model(GOOD) as good:
        ask(book, "hanging", traces=20)
        ask(book, "good", traces=20)
        check = book.rule(evaluator="length", config={"maximumOutputLength": 100})
        book.enqueue(check, [(trace_id(trace), span_id(trace)) for trace in range(20)])
        slow, quick = a_connection(hanging.base_url, timeout_s=60), a_connection(good.base_url)
        with working(book, {"hanging": slow, "good": quick}):
            eventually(lambda: states(book.store).get("scored"), lambda scored: scored == 40)
            assert states(book.store)["claimed"] == slow.in_flight
        assert states(book.store) == {"scored": 40, "ready": 20}
        assert rows(book.store, "SELECT max(attempts) FROM job") == [(0,)]


def test_an_endpoint_that_answers_nonsense_at_length_holds_up_no_other(tmp_path: Path) -> None:
    """While answers of one connection take long to read, those of another are scored, and nonsense is a bad reply."""
    nonsense = Says("The score: " + "{a:1}" * 13_000)  # as much as is read at all
    with a_book(tmp_path, traces=40) as book, a_model(nonsense) as broken, a_model(GOOD) as good:
        ask(book, "broken", traces=40)
        ask(book, "good", traces=40)
        connections = {"broken": a_connection(broken.base_url, timeout_s=30), "good": a_connection(good.base_url)}
        with working(book, connections):
            eventually(lambda: states(book.store).get("scored"), lambda scored: scored == 40)
            kinds = "SELECT count(*) FROM (SELECT error_kind FROM job UNION ALL SELECT error_kind FROM evaluation)"
            ((bad,),) = rows(book.store, f"{kinds} WHERE error_kind = 'bad_reply'")
            assert int(str(bad)) < 20


def test_an_answer_that_is_far_too_long_is_not_read(tmp_path: Path) -> None:
    """A text many times as long as the tokens that were asked for is a bad reply, whatever is in it."""
    verdict = '{"score": 0.9, "reason": "good"}'
    with a_book(tmp_path, traces=1) as book, a_model(Says(" " * 200_000 + verdict)) as model:
        ask(book, traces=1)
        with working(book, {"main": a_connection(model.base_url)}) as workers:
            eventually(lambda: states(book.store), lambda counts: counts == {"failed": 1})
            assert workers.wait_idle(LONG_S)
        ((kind, reason),) = evaluated(book.store, "error_kind, reason")
        assert (kind, str(reason).split(":")[0]) == (
            "bad_reply",
            "the reply has 200,032 characters, which is more than 65,536 characters (fixed)",
        )


def test_a_connection_has_only_so_many_jobs_at_once(tmp_path: Path) -> None:
    """No more jobs run over a connection than its limit says."""
    script = Moody(mood=GOOD)
    lock = threading.Lock()

    def count(_: ModelRequest) -> Step:
        with lock:
            script.at_once += 1
            script.most_at_once = max(script.most_at_once, script.at_once)
        time.sleep(0.05)
        with lock:
            script.at_once -= 1
        return GOOD

    with a_book(tmp_path, traces=30) as book, a_model(count) as model:
        ask(book, traces=30)
        with working(book, {"main": a_connection(model.base_url, in_flight=3, timeout_s=10)}) as workers:
            assert workers.wait_idle(LONG_S)
        assert states(book.store) == {"scored": 30}
        assert script.most_at_once <= 3


@pytest.mark.parametrize("rubbish", ["no JSON at all", {"score": "many"}, {"score": 7}, Sends(GARBAGE), Sends(b"[]")])
def test_rubbish_is_never_a_score(tmp_path: Path, rubbish: object) -> None:
    """A judge whose replies cannot be used is asked twice more; then the evaluation has failed."""
    with a_book(tmp_path) as book, a_model(rubbish) as model:
        ask(book)
        with working(book, {"main": a_connection(model.base_url, timeout_s=LONG_S)}) as workers:
            eventually(lambda: states(book.store), lambda counts: counts == {"failed": 4})
            assert workers.wait_idle(LONG_S)
        assert evaluated(book.store, "outcome, score, passed, error_kind, attempts") == 4 * [
            ("failed", None, None, "bad_reply", 3)
        ]
        assert len(model.requests) == 12


def test_a_result_carries_the_cost_of_every_attempt(tmp_path: Path) -> None:
    """Replies that could not be used, attempts within a call and attempts of the job are all in the result."""
    steps = [Says("no JSON"), Status(408, headers={"retry-after-ms": "1"}), Says("none"), GOOD]
    with a_book(tmp_path, traces=1) as book, a_model(steps) as model:
        ask(book, traces=1)
        price = Price(input_usd_per_million=1, output_usd_per_million=10)
        connection = a_connection(model.base_url, attempts=2, price=price, max_output_tokens=50)
        with working(book, {"main": connection}):
            eventually(lambda: states(book.store), lambda counts: counts == {"scored": 1})
        columns = "judge_calls, output_tokens, input_tokens - 300 > 500, round(cost_usd - input_tokens / 1e6, 6)"
        assert evaluated(book.store, columns) == [(4, 3 * 20 + 50, True, 0.0011)]


def test_a_refusal_is_final(tmp_path: Path) -> None:
    """What the endpoint refuses, as with a wrong key, has failed at once, and the key is in no message."""
    with a_book(tmp_path) as book, a_model(Status(401, b'{"error": "wrong key sk-secret-1"}')) as model:
        ask(book)
        with working(book, {"main": a_connection(model.base_url, key="sk-secret-1")}) as workers:
            assert workers.wait_idle(LONG_S)
        assert evaluated(book.store, "outcome, error_kind, attempts") == 4 * [("failed", "not_served", 1)]
        assert "sk-secret-1" not in str(rows(book.store, "FROM evaluation"))


def test_a_connection_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A rule whose judge cannot be asked fails at once, and says what to do."""
    with a_book(tmp_path) as book:
        ask(book, "nowhere")
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        rows_shown = evaluated(book.store, "outcome, error_kind, reason")
        assert rows_shown == 4 * [("failed", "bad_configuration", "there is no connection nowhere; make one")]


PROGRAM = """
import json, sys
case = json.load(sys.stdin)
{deed}
print(json.dumps({{"score": 1.0, "reasoning": case["question"]}}))
"""


def test_a_program_judges(tmp_path: Path) -> None:
    """A code judge reads the case of the span on its standard input."""
    with a_book(tmp_path) as book:
        script = [sys.executable, "-c", PROGRAM.format(deed="pass")]
        active = book.rule("code", evaluator="code_judge", config={"script": script, "reads": []})
        book.enqueue(active, [(trace_id(trace), span_id(trace)) for trace in range(4)])
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        assert evaluated(book.store, "outcome, score, passed, reason") == 4 * [("scored", 1.0, True, "?")]


def test_a_program_that_is_late_is_tried_twice_more(tmp_path: Path) -> None:
    """A program that takes too long fails visibly after three attempts, and one that crashes at once."""
    with a_book(tmp_path) as book:
        for deed in ("import time; time.sleep(60)", "sys.exit(3)"):
            config = {"script": [sys.executable, "-c", PROGRAM.format(deed=deed)], "timeLimitSeconds": 1.5, "reads": []}
            book.enqueue(book.rule("code", evaluator="code_judge", config=config), [(trace_id(0), span_id(0))])
        with working(book):
            eventually(lambda: states(book.store), lambda counts: counts == {"failed": 2})
        assert evaluated(book.store, "error_kind, attempts") == [("timeout", 3), ("judge_error", 1)]


def test_superseded_while_it_runs(tmp_path: Path) -> None:
    """A job whose target is to be evaluated again stores its row and stays superseded; one put back is skipped."""
    script = Moody(mood=Hangs())
    release = threading.Event()

    def wait(request: ModelRequest) -> Step:
        release.wait(WAIT_S)
        return GOOD if "answer 0" in request.user else script.mood

    with a_book(tmp_path) as book, a_model(wait) as model:
        ask(book, traces=2)
        with working(book, {"main": a_connection(model.base_url, timeout_s=2)}):
            eventually(lambda: len(model.requests), lambda count: count == 2)
            book.supersede(1)
            book.supersede(2)
            script.mood = Status(503)
            release.set()
            eventually(lambda: states(book.store), lambda counts: counts.get("superseded") == 2)
            script.mood = GOOD
            eventually(lambda: states(book.store), lambda counts: counts == {"superseded": 2, "scored": 2})
        assert evaluated(book.store, "job_id, round, outcome, superseded, error_kind") == [
            (1, 0, "scored", True, None),
            (2, 0, "skipped", True, "superseded"),
            (3, 1, "scored", False, None),
            (4, 1, "scored", False, None),
        ]


def test_a_judge_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    """Whatever an evaluation waits for, it ends: the last resort is a time limit for the whole job."""
    with a_book(tmp_path) as book, a_model(Hangs()) as model:
        ask(book, traces=1)
        retry_policy = replace(QUICK, job_s=0.3)
        with working(book, {"main": a_connection(model.base_url, timeout_s=600)}, retry_policy=retry_policy):
            eventually(lambda: rows(book.store, "SELECT error_kind FROM job"), lambda stored: stored == [("timeout",)])


def test_stopping_puts_back_what_is_under_way(tmp_path: Path) -> None:
    """Workers that stop while judges are asked are done within seconds, and the attempt does not count."""
    with a_book(tmp_path) as book, a_model(Hangs()) as model:
        ask(book)
        with working(book, {"main": a_connection(model.base_url, timeout_s=600)}):
            eventually(lambda: len(model.requests), lambda count: count == 4)
            began_s = time.monotonic()
        assert time.monotonic() - began_s < 5
        assert rows(book.store, "SELECT DISTINCT state, attempts FROM job") == [("ready", 0)]
