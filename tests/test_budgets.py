"""Budgets over a real store and a model server that counts: nothing is spent that was not set aside before."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from evaluators.chat.client import ModelCallFailed
from evaluators.errors import BadConfiguration, HeldBack, OverBudget
from evaluators.judge_interface import Reply
from rules.rule import Budget
from storage.store import Store
from tests.connecting import NOON, AClock, AJob, Hub, a_connection, an_active_rule
from tests.judged import put
from tests.live import until
from tests.matching import write
from tests.model_server import Hangs, ModelRequest, ModelServer, Says, Status, a_model
from tests.serving import unused_port
from tests.storing import a_store

pytestmark = pytest.mark.costly("collector/api", "collector/cli", "collector/live", "evaluators", "rules", "storage")

GOOD = Says({"score": 1})
TOO_MANY = 60
TWICE = 12  # questions that are answered with an error first


def crowd(hub: Hub, times: int, **rule: object) -> list[Reply | BaseException]:
    """Send `times` requests at once."""
    active = an_active_rule(**rule)  # type: ignore[arg-type] # keys of the rule

    async def ask_all() -> list[Reply | BaseException]:
        return await asyncio.gather(*(hub.ask(active) for _ in range(times)), return_exceptions=True)

    return hub.run(ask_all())


async def wait_for_requests(server: ModelServer, times: int) -> None:
    """Wait until the model has received at least `times` requests."""
    await asyncio.to_thread(until, lambda: len(server.requests), lambda count: count >= times)


def replies(outcomes: list[Reply | BaseException]) -> int:
    """Count the successful requests; the others must be over budget."""
    assert [each for each in outcomes if not isinstance(each, Reply | OverBudget)] == []
    return sum(isinstance(each, Reply) for each in outcomes)


@pytest.mark.parametrize("whose", ["rule", "project", "connection"])
def test_a_crowd_makes_as_many_calls_as_the_budget_has(tmp_path: Path, whose: str) -> None:
    """Of sixty requests at once exactly seventeen are sent, for each kind of budget, and each is on record."""
    limit = {"callsPerDay": 17}
    project_budgets = {"shop": Budget(calls_per_day=17)} if whose == "project" else {}
    rule = {"budget": limit} if whose == "rule" else {}
    with a_model(GOOD) as server, a_store(tmp_path) as store:
        hub = Hub(store, project_budgets=project_budgets)
        hub.connections.create(a_connection(server.base_url, **({"budget": limit} if whose == "connection" else {})))
        outcomes = crowd(hub, TOO_MANY, **rule)
        assert replies(outcomes) == len(server.requests) == 17
        assert hub.rows("SELECT count(*), count(*) FILTER (WHERE outcome = 'answered') FROM judge_call") == [(17, 17)]
        assert f"the budget of {whose}" in str(next(each for each in outcomes if isinstance(each, OverBudget)))


def test_tokens_are_set_aside_and_what_is_left_over_is_used(tmp_path: Path) -> None:
    """A request that may take more than is left waits for those under way, whose rest it then has."""
    with a_model(GOOD) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(server.base_url, maxOutputTokens=100))
        outcomes = crowd(hub, TOO_MANY, budget={"tokensPerDay": 2000})
        spent = 120 * len(server.requests)  # what the model says that each took
        (most,) = hub.rows("SELECT DISTINCT reserved_tokens FROM judge_call")
        assert isinstance(most[0], int)
        assert most[0] > 300  # so that fewer than six fit at once
        assert replies(outcomes) == len(server.requests) > 2000 // most[0]
        assert spent <= 2000 < spent + most[0]
        assert server.requests[0].body["max_tokens"] == 100


def test_usd_are_counted_to_the_billionth(tmp_path: Path) -> None:
    """The cost of calls is summed without drift, in memory and in the table, and never exceeds the budget."""
    with a_model(GOOD) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        price = {"inputUsdPerMillion": 0.1, "outputUsdPerMillion": 0.7}
        hub.connections.create(a_connection(server.base_url, price=price, maxOutputTokens=50))
        outcomes = crowd(hub, TOO_MANY, budget={"usdPerDay": 0.0005})
        cost = 100 * 0.1e-6 + 20 * 0.7e-6
        assert 0 < replies(outcomes) == len(server.requests) <= 0.0005 / cost
        (today,) = [each for each in hub.budgets.today() if each.kind == "rule"]
        assert today.usd == round(len(server.requests) * cost, 9)
        assert (today.held_usd, today.held_calls, today.held_tokens) == (0, 0, 0)
        assert hub.rows("SELECT sum(round(usd * 1e9)::BIGINT) FROM judge_call") == [(round(today.usd * 1e9),)]
        taken = hub.budgets.taken  # as /metrics tells it
        assert (taken.usd, taken.tokens) == (today.usd, today.tokens)
        assert taken.outcomes == {"answered": taken.answers.count, "charged": 0, "failed": 0}
        assert taken.answers.count == len(server.requests)
        assert taken.answers.sum_s > 0


def test_every_attempt_is_a_call(tmp_path: Path) -> None:
    """Retries, and the second try without a form, are paid like the first one, and the budget may end between them."""
    late = Status(408, headers={"retry-after-ms": "1"})
    with a_model(late) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(server.base_url, limits={"attempts": 5}))
        (outcome,) = crowd(hub, 1, budget={"callsPerDay": 3})
        assert isinstance(outcome, OverBudget)
        assert len(server.requests) == 3
        assert hub.rows("SELECT outcome, tokens = reserved_tokens FROM judge_call") == [("timeout", True)] * 3
        (rule,) = [each for each in hub.budgets.today() if each.kind == "rule"]
        assert (rule.calls, rule.failed_calls) == (3, 0)
        assert hub.budgets.taken.outcomes == {"answered": 0, "charged": 3, "failed": 0}  # as /metrics tells it


@pytest.mark.parametrize("code", [429, 500, 502, 503])
def test_an_answer_that_is_an_error_spends_nothing(tmp_path: Path, code: int) -> None:
    """Of a budget for twelve answers all twelve are had, although each question is answered with an error first."""
    errors = iter(range(TWICE))

    def script(_: ModelRequest) -> Status | Says:
        return GOOD if next(errors, None) is None else Status(code, headers={"retry-after-ms": "1"})

    with a_model(script) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        limits = {"attempts": 9, "inFlight": 4}
        price = {"inputUsdPerMillion": 1, "outputUsdPerMillion": 2}
        hub.connections.create(a_connection(server.base_url, limits=limits, price=price, maxOutputTokens=20))
        outcomes = crowd(hub, 12, budget={"callsPerDay": 12, "usdPerDay": 12 * 0.00014 + 0.001})
        assert replies(outcomes) == 12
        assert len(server.requests) == 12 + TWICE
        (rule,) = [each for each in hub.budgets.today() if each.kind == "rule"]
        assert (rule.calls, rule.failed_calls, rule.tokens, rule.held_calls) == (12, TWICE, 12 * 120, 0)
        assert hub.budgets.taken.outcomes == {"answered": 12, "charged": 0, "failed": TWICE}
        assert store.spending.flush(20)
        noon_ns = int(NOON.timestamp()) * 10**9
        activity = store.status.rule_activity(noon_ns)["rule-1"]
        assert (activity["calls"], activity["failed_calls"]) == (12, TWICE)  # as rules are listed
        status = store.status.status(noon_ns).spent_today
        assert (status.calls, status.failed_calls) == (12, TWICE)
        again = Hub(store)  # after a restart
        assert {(each.calls, each.failed_calls) for each in again.budgets.today()} == {(12, TWICE)}
        select = "SELECT count(*), sum(tokens) FROM judge_call WHERE outcome NOT IN ('answered', 'unsent')"
        assert hub.rows(select) == [(TWICE, 0)]


def test_what_a_dead_process_set_aside_is_given_back(tmp_path: Path) -> None:
    """A request that was cut off holds its part of a budget for ten minutes; others wait, and then they have it."""
    clock = AClock()
    with a_model(GOOD) as server, a_store(tmp_path) as store:
        put(store, "judge_call", call_id=1, day=NOON.date(), rule_id="rule-1", project="shop", started_at=NOON)
        put(store, "judge_call", call_id=2, day=NOON.date(), rule_id="rule-1", project="shop", started_at=NOON)
        hub = Hub(store, clock=clock)
        hub.connections.create(a_connection(server.base_url))
        (rule,) = [each for each in hub.budgets.today() if each.kind == "rule"]
        assert (rule.calls, rule.held_calls) == (0, 2)
        clock.forward(seconds=540)
        outcomes = crowd(hub, 3, budget={"callsPerDay": 3})
        held = [each for each in outcomes if isinstance(each, HeldBack)]
        assert len(held) == 2
        assert held[0].retry_after_s == 60
        assert "until 12:10:00 UTC" in str(held[0])
        clock.forward(seconds=60)
        assert replies(crowd(hub, 3, budget={"callsPerDay": 3})) == 2
        assert hub.rows("SELECT call_id, outcome, tokens FROM judge_call WHERE call_id <= 2") == [
            (1, "lost", 0),
            (2, "lost", 0),
        ]


def test_what_nobody_knows_counts_as_it_was_set_aside(tmp_path: Path) -> None:
    """A request that is cancelled or runs out of time may have been answered and paid."""
    with a_model(Hangs()) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(server.base_url, limits={"attempts": 1, "timeoutSeconds": 3}))
        (late,) = crowd(hub, 1)
        assert isinstance(late, ModelCallFailed)

        async def cancelled() -> None:
            asking = asyncio.create_task(hub.ask(an_active_rule()))
            await wait_for_requests(server, 2)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

        hub.run(cancelled())
        rows = hub.rows("SELECT outcome, tokens = reserved_tokens FROM judge_call")
        assert rows == [("timeout", True), ("cancelled", True)]
        (today,) = [each for each in hub.budgets.today() if each.kind == "connection"]
        assert today.calls == 2


def test_what_never_left_is_a_failed_call(tmp_path: Path) -> None:
    """An endpoint without a listener, however often it is tried, spends nothing; each try is a failed call."""
    with a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(f"http://127.0.0.1:{unused_port()}/v1"))
        outcomes = crowd(hub, 5, budget={"callsPerDay": 2})
        assert [each.kind for each in outcomes if isinstance(each, ModelCallFailed)] == ["unreachable"] * 5
        assert hub.rows("SELECT DISTINCT outcome, tokens FROM judge_call") == [("unreachable", 0)]
        assert {(each.calls, each.failed_calls) for each in hub.budgets.today()} == {(0, 5)}


def test_a_new_day_has_a_new_budget(tmp_path: Path) -> None:
    """At midnight UTC the full budget is available again, and a running call counts for the day on which it began."""
    with a_model(GOOD) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(server.base_url))
        assert replies(crowd(hub, 5, budget={"callsPerDay": 2})) == 2
        hub.clock.forward(hours=11, minutes=59)
        assert replies(crowd(hub, 5, budget={"callsPerDay": 2})) == 0
        hub.clock.forward(minutes=1)
        assert replies(crowd(hub, 5, budget={"callsPerDay": 2})) == 2
        hub.clock.forward(days=-1)
        assert replies(crowd(hub, 5, budget={"callsPerDay": 2})) == 0
        assert hub.rows('SELECT "day"::VARCHAR, count(*) FROM judge_call GROUP BY ALL ORDER BY ALL') == [
            ("2026-11-21", 2),
            ("2026-11-22", 2),
        ]


def test_the_budget_is_remembered(tmp_path: Path) -> None:
    """Spending before a restart still counts after it, by rule, project and connection alike."""
    with a_model(GOOD) as server:
        with a_store(tmp_path) as store:
            hub = Hub(store)
            hub.connections.create(a_connection(server.base_url))
            assert replies(crowd(hub, 3)) == 3
        with a_store(tmp_path) as store:
            again = Hub(store)
            before, after = hub.budgets.today(), again.budgets.today()
            assert {(each.kind, each.calls, each.tokens) for each in after} == {
                (kind, 3, 360) for kind in ("rule", "project", "connection")
            }
            assert before == after
            assert replies(crowd(again, 9, budget={"callsPerDay": 5})) == 2


def test_a_call_without_an_end_is_a_failed_one_after_its_lease(tmp_path: Path) -> None:
    """After ten minutes, a reservation of an ended process is free again, and counts as one failed call."""
    with a_model(GOOD) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(server.base_url))
        assert replies(crowd(hub, 1)) == 1
        assert len(hub.rows()) == 1
        write(store, "UPDATE judge_call SET tokens = NULL, usd = NULL, outcome = NULL, ended_at = NULL")
        again = Hub(store, clock=hub.clock)
        assert {(each.held_calls, each.calls, each.failed_calls) for each in again.budgets.today()} == {(1, 0, 0)}
        hub.clock.forward(minutes=11)
        assert {(each.held_calls, each.calls, each.failed_calls) for each in again.budgets.today()} == {(0, 0, 1)}


def test_the_dearest_calls_are_remembered(tmp_path: Path) -> None:
    """Calls at the highest possible price and token count sum to the same total after a restart."""
    price = {"inputUsdPerMillion": 1e12, "outputUsdPerMillion": 1e12}
    dear = Says({"score": 1}, input_tokens=10**12, output_tokens=10**12)
    with a_model(dear) as server:
        with a_store(tmp_path) as store:
            hub = Hub(store)
            hub.connections.create(a_connection(server.base_url, price=price))
            assert replies(crowd(hub, 3)) == 3
        with a_store(tmp_path) as store:
            again = Hub(store).budgets.today()
            assert again == hub.budgets.today()
            assert min(each.usd for each in again) > 2**63 / 1e9


def test_each_project_has_its_own_share(tmp_path: Path) -> None:
    """The budget `*` is one for each project that has none of its own."""
    budgets = {"*": Budget(calls_per_day=2), "rich": Budget(calls_per_day=4)}
    with a_model(GOOD) as server, a_store(tmp_path) as store:
        hub = Hub(store, project_budgets=budgets)
        hub.connections.create(a_connection(server.base_url))

        async def ask_for(project: str | None) -> int:
            requests = (hub.ask(an_active_rule(), AJob(project=project)) for _ in range(6))
            return replies(await asyncio.gather(*requests, return_exceptions=True))

        async def ask_for_all() -> list[int]:
            return [await ask_for(project) for project in ("a", "b", "rich", None)]

        assert hub.run(ask_for_all()) == [2, 2, 4, 2]


def test_a_model_without_a_price_is_refused_under_a_limit_in_usd(tmp_path: Path) -> None:
    """No request is sent until a price is set, or unpriced models are allowed."""
    with a_model(GOOD) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(server.base_url))
        limited = an_active_rule(budget={"usdPerDay": 1})
        for attempt in (hub.judges.connection_of, lambda active: hub.judges.judge(active, AJob())):
            with pytest.raises(BadConfiguration, match="give the connection a price, or set allowUnpriced"):
                attempt(limited)
        assert replies(crowd(hub, 1, budget={"usdPerDay": 1, "allowUnpriced": True})) == 1
        assert hub.rows("SELECT usd FROM judge_call") == [(None,)]


def test_requests_are_paced(tmp_path: Path) -> None:
    """With 600 a minute, six questions at once take half a second."""
    with a_model(GOOD) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(server.base_url, limits={"requestsPerMinute": 600}))
        started_s = time.monotonic()
        assert replies(crowd(hub, 6)) == 6
        assert time.monotonic() - started_s >= 0.5


def test_what_cannot_be_put_on_record_is_not_asked(tmp_path: Path) -> None:
    """While the disk takes no record no request leaves, nothing is counted, and then it goes on by itself."""
    with a_model(GOOD) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(server.base_url))
        (tmp_path / "calls").mkdir()
        full = [tmp_path / "calls" / f"{number:012d}.calls" for number in range(1, 100)]
        for path in full:
            path.symlink_to("/dev/full")
        outcomes = crowd(hub, 8, budget={"callsPerDay": 5})
        kinds = {each.kind for each in outcomes if isinstance(each, ModelCallFailed | OverBudget)}
        assert kinds <= {"unavailable", "over_budget"}
        assert "unavailable" in kinds
        assert not server.requests
        for path in full:
            path.unlink(missing_ok=True)
        assert replies(crowd(hub, 8, budget={"callsPerDay": 5})) == 5
        assert hub.rows("SELECT count(*) FROM judge_call WHERE outcome = 'answered'") == [(5,)]
        assert hub.rows("SELECT count(*) FROM judge_call WHERE outcome IS NULL") == [(0,)]


def test_a_database_that_cannot_be_written_stops_no_call(tmp_path: Path) -> None:
    """Recorded calls are written to the table once it is writable, each once, and count meanwhile."""
    with a_model(GOOD) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(server.base_url))
        assert replies(crowd(hub, 1, budget={"callsPerDay": 5})) == 1
        _rename(store, "judge_call", "hidden")
        assert replies(crowd(hub, 8, budget={"callsPerDay": 5})) == 4
        assert not store.spending.flush(0.1)
        _rename(store, "hidden", "judge_call")
        assert replies(crowd(hub, 8, budget={"callsPerDay": 6})) == 1
        counted = "SELECT count(*), count(DISTINCT call_id) FROM judge_call WHERE outcome = 'answered'"
        assert hub.rows(counted) == [(6, 6)]


def test_what_is_under_way_at_midnight_counts_for_its_day(tmp_path: Path) -> None:
    """A request that began before midnight is paid by the day on which it began."""
    gate = threading.Event()

    def script(_: ModelRequest) -> Says:
        gate.wait(10)
        return GOOD

    with a_model(script) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(server.base_url))
        active = an_active_rule(budget={"callsPerDay": 1})

        async def over_midnight() -> None:
            first = asyncio.create_task(hub.ask(active))
            await wait_for_requests(server, 1)
            waiting = asyncio.create_task(hub.ask(active))
            await asyncio.sleep(0.05)
            hub.clock.forward(hours=12)
            second = asyncio.create_task(hub.ask(active))
            await wait_for_requests(server, 2)
            gate.set()
            await asyncio.gather(first, second)
            with pytest.raises(OverBudget, match="1 of 1 calls"):
                await waiting

        hub.run(over_midnight())
        assert hub.rows('SELECT "day"::VARCHAR, outcome FROM judge_call ORDER BY call_id') == [
            ("2026-11-21", "answered"),
            ("2026-11-22", "answered"),
        ]


def _rename(store: Store, old: str, new: str) -> None:
    def write(cursor: Any) -> None:
        cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")

    store.connections._writer.store(write, 1)
