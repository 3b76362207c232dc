"""Connections, budgets and judges for tests, over a real store."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from collector.live.active import ActiveRule, ExecutorKind
from collector.live.budgets.budgets import Budgets
from collector.live.judges.connections import LlmConnections
from collector.live.judges.judges import ConnectedJudges
from collector.secrets import Secrets
from evaluators.chat.connection import Price
from evaluators.judge_interface import PromptMessage, Reply
from rules.rule import Budget
from storage.store import Store
from tests.ruling import a_rule

Result = TypeVar("Result")

QUESTION = (PromptMessage(role="system", content="Judge."), PromptMessage(role="user", content="This is the data."))
SCHEMA: Mapping[str, Any] = {"score": {"type": "number"}}
ENCRYPTION_KEY = "0123456789abcdef" * 4
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
PRICE = Price(input_usd_per_million=1, output_usd_per_million=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class AJob:
    """The fields of a job that a judge needs."""

    job_id: int = 1
    tenant: str = ""
    project: str | None = "shop"


class AClock:
    """A manual wall clock."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now

    def forward(self, **time: float) -> None:
        """Let time pass."""
        self.now += timedelta(**time)


class Hub:
    """Everything that judging over a store needs: connections, budgets, and the judges over both."""

    def __init__(
        self,
        store: Store,
        *,
        encryption_key: str | None = ENCRYPTION_KEY,
        variables: Mapping[str, str] | None = None,
        project_budgets: Mapping[str, Budget] | None = None,
        clock: AClock | None = None,
    ) -> None:
        self.store = store
        self.clock = clock or AClock()
        self.connections = LlmConnections(store.connections, Secrets(encryption_key), (variables or {}).get, self.clock)
        self.budgets = Budgets(store.spending, self.clock)
        self.calls: list[Any] = []
        self.judges = ConnectedJudges(self.connections, self.budgets, project_budgets or {}, self.calls.append)

    async def ask(self, active: ActiveRule, job: AJob | None = None) -> Reply:
        """Ask a judge one question."""
        return await self.judges.judge(active, job or AJob())(QUESTION, SCHEMA)

    def run(self, doing: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in an event loop of its own."""

        async def run() -> Result:
            try:
                return await doing
            finally:
                await self.judges.close()

        return asyncio.run(run())

    def rows(self, select: str = "SELECT * FROM judge_call ORDER BY call_id") -> list[tuple[object, ...]]:
        """Query the database once all calls are on record."""
        assert self.store.spending.flush(20)
        return [tuple(row) for row in self.store.queries.sql(select, max_rows=100_000, timeout_s=20).rows]


def a_connection(base_url: str, **keys: object) -> dict[str, Any]:
    """Return the document of a connection."""
    return {
        "name": "judge",
        "baseUrl": base_url,
        "model": "judge-1",
        "protocol": "CHAT_COMPLETIONS",
        "limits": {"attempts": 1, "timeoutSeconds": 10, "inFlight": 64},
        **keys,
    }


def an_active_rule(executor_kind: ExecutorKind = "judge", rule_id: str = "rule-1", **keys: object) -> ActiveRule:
    """Build a rule that asks a judge."""
    rule = a_rule(**{"evaluator": "llm_judge", "criteria": "Is it good?", **keys})
    return ActiveRule(tenant="", rule_id=rule_id, revision=1, rule=rule, executor_kind=executor_kind)
