"""Connections and budgets of tenants: owners, permitted users, allowed addresses, and the charged budgets."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from collector.addresses import AddressPolicy
from collector.connection_text import BadText
from collector.live.budgets.budgets import Budgets
from collector.live.judges.connections import LlmConnections
from collector.live.judges.egress import EgressResolver
from collector.live.judges.judges import ConnectedJudges
from collector.secrets import Secrets
from evaluators.chat.client import ModelCallFailed
from evaluators.errors import BadConfiguration, OverBudget
from rules.rule import Budget
from storage.store import Store
from tests.connecting import ENCRYPTION_KEY, QUESTION, SCHEMA, AJob, a_connection, an_active_rule
from tests.model_server import Says, a_model
from tests.storing import a_store

OFF = "https://model.example/v1"
GOOD = Says({"ok": True, "score": 1})


class Many:
    """Judges of several tenants over one store."""

    def __init__(self, store: Store, *, private: Sequence[str] = (), budgets: dict[str, Budget] | None = None) -> None:
        secrets = Secrets(ENCRYPTION_KEY)
        reach = EgressResolver(AddressPolicy(private))
        self.connections = LlmConnections(store.connections, secrets, {"KEY": "k"}.get, egress=reach)
        self.budgets = Budgets(store.spending)
        self.judges = ConnectedJudges(self.connections, self.budgets, budgets or {})

    def connection_of(self, tenant: str, named: str | None = None) -> str:
        """Return the id of the connection that a rule of a tenant asks."""
        rule = an_active_rule(connectionId=named)
        return self.judges.connection_of(replace(rule, tenant=tenant))

    def ask(self, *jobs: AJob, of: str = "", named: str | None = None, **rule: object) -> list[object]:
        """Run jobs of a tenant's rule one after the other; return the answers of the judges."""
        active = replace(an_active_rule(connectionId=named, **rule), tenant=of)  # type: ignore[arg-type] # keys

        async def ask() -> list[object]:
            try:
                return [await _tried(self.judges.judge(active, job)) for job in jobs]
            finally:
                await self.judges.close()

        return asyncio.run(ask())


async def _tried(judge: object) -> object:
    try:
        return await judge(QUESTION, SCHEMA)  # type: ignore[operator] # a judge
    except (OverBudget, ModelCallFailed) as error:
        return error


def test_rules_of_a_tenant_use_its_connections_and_those_that_are_shared(tmp_path: Path) -> None:
    """Its own come first, also by name; one of the operator that is not shared is as if it were not there."""
    with a_store(tmp_path) as store:
        many = Many(store)
        make = many.connections.create
        kept = make(a_connection(OFF, name="kept")).connection_id
        with pytest.raises(BadConfiguration, match="no connection is configured"):
            many.connection_of("acme")
        shared = make(a_connection(OFF, name="judge", shared=True)).connection_id
        assert many.connection_of("acme") == many.connection_of("acme", "judge") == shared
        own = make(a_connection(OFF), "acme").connection_id
        assert many.connection_of("acme") == many.connection_of("acme", "judge") == own
        assert many.connection_of("acme", shared) == many.connection_of("other") == shared
        for tenant, hidden in (("acme", kept), ("acme", "kept"), ("other", own), ("", own)):
            with pytest.raises(BadConfiguration, match="there is no connection"):
                many.connection_of(tenant, hidden)


def test_a_tenant_takes_nothing_of_the_operators(tmp_path: Path) -> None:
    """Its connections name no variable of the server, share nothing, and lead to no private address."""
    with a_store(tmp_path) as store:
        many = Many(store)
        made = many.connections.create(a_connection(OFF), "acme").connection_id
        for key, keys in (
            ("credentialRef", {"credentialRef": "KEY"}),
            ("shared", {"shared": True}),
            ("baseUrl", {"baseUrl": "http://127.0.0.1:9/v1"}),
            ("baseUrl", {"baseUrl": "https://169.254.169.254/v1"}),
            ("baseUrl", {"baseUrl": "http://model.example/v1"}),
        ):
            document = {**a_connection(OFF, name="new"), **keys}
            changes: list[Callable[[], object]] = [
                partial(many.connections.create, document, "acme"),
                partial(many.connections.replace, made, document),
            ]
            for change in changes:
                with pytest.raises(BadText) as refused:
                    change()
                assert [problem.key for problem in refused.value.problems] == [key]
        assert [each.row.version for each in many.connections.all()] == [1]


def test_the_address_is_looked_at_when_it_is_connected_to(tmp_path: Path) -> None:
    """A name that stands for a listed address is asked by its name; one that stands for another one is not asked."""
    with a_model(GOOD) as model, a_store(tmp_path) as store:
        url = model.base_url.replace("127.0.0.1", "localhost")
        Many(store, private=["localhost"]).connections.create(a_connection(url), "acme")
        job = AJob(tenant="acme")
        (answered,) = Many(store, private=["localhost"]).ask(job, of="acme")
        assert not isinstance(answered, Exception), answered
        (refused,) = Many(store, private=["10.0.0.0/8"]).ask(job, of="acme")
        assert isinstance(refused, ModelCallFailed)
        assert "private address" in str(refused)
        assert [request.headers["host"] for request in model.requests] == [
            url.removeprefix("http://").removesuffix("/v1")
        ]
        assert store.spending.flush(20)
        calls = store.queries.sql("SELECT tenant, outcome FROM judge_call ORDER BY call_id", max_rows=9, timeout_s=9)
        assert [row[0] for row in calls.rows] == ["acme", "acme"]
        assert {each.calls for each in Many(store).budgets.today()} == {1}


def test_a_project_has_a_budget_in_each_tenant_and_a_rule_has_one(tmp_path: Path) -> None:
    """A shared rule spends one budget for all; projects of one name are others in each tenant, after a restart too."""
    acme, other = AJob(tenant="acme"), AJob(tenant="other")
    with a_model(GOOD) as model, a_store(tmp_path) as store:
        many = Many(store, budgets={"shop": Budget(calls_per_day=2)})
        made = many.connections.create(a_connection(model.base_url)).connection_id
        answers = many.ask(acme, acme, acme, other, other, budget={"callsPerDay": 3})
        assert [isinstance(answer, OverBudget) for answer in answers] == [False, False, True, False, True]
        assert ["project" in str(answers[2]), "rule" in str(answers[4])] == [True, True]
        assert store.spending.flush(20)
        again = Many(store).budgets
        spent = {(each.kind, each.tenant): each.calls for each in again.today()}
        assert spent == {("rule", ""): 3, ("connection", ""): 3, ("project", "acme"): 2, ("project", "other"): 1}
        spent_today = {
            tenant: [(each.identity, each.calls) for each in again.today_for(tenant)] for tenant in ("acme", "x")
        }
        assert spent_today == {"acme": [(made, 2)], "x": []}
