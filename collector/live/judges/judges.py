"""The judges of rules: models over the configured connections, where each request first reserves its cost."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from weakref import WeakSet

from collector.live.active import ActiveRule
from collector.live.budgets.budgets import Budgets
from collector.live.budgets.payers import Account, Payer
from collector.live.judges.connections import LlmConnections
from collector.live.judges.judge_health import JudgeHealth
from collector.live.judges.judging import Fallback, Juror
from collector.live.judges.llm_connection import LlmConnection
from evaluators.chat.client import ChatModel, ChatSpeaker
from evaluators.chat.connection import ModelConnection, Price
from evaluators.chat.judge import ChatJudge
from evaluators.chat.request_budget import RequestBudget, RequestUsage
from evaluators.errors import BadConfiguration
from evaluators.judge_interface import Judge
from rules.rule import Budget
from storage.errors import NotFound

PLAYGROUND: Final = "playground"
"""Id under which calls of the playground count, in place of a rule's."""

ANY_PROJECT: Final = "*"

_OF_MISSING: Final = 1
"""Concurrency of a deleted connection: its jobs fail, with the reason."""


class JobToJudge(Protocol):
    """The facts about a job that its judge needs."""

    @property
    def job_id(self) -> int | None:
        """Return its number; None for the trial of a rule."""

    @property
    def tenant(self) -> str:
        """Return the tenant of its span."""

    @property
    def project(self) -> str | None:
        """Return the project whose budget pays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to a model, for tracing."""

    account: Account
    rule: str | None  # its name
    connection: ModelConnection
    spent: RequestUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTerms:
    """The connection of a rule's judge, and its price."""

    connection_id: str
    connection: str  # its name
    model: str
    price: Price | None
    max_output_tokens: int | None


@dataclass(slots=True, eq=False)
class _Open:
    """An open model, and the judges that use it."""

    connection: ModelConnection
    model: ChatModel
    judges: "WeakSet[Any]" = field(default_factory=WeakSet)


class ConnectedJudges:
    """Implementation of `JudgeSource`. Call `judge`, `speaker`, `close` in one event loop; the rest is thread-safe."""

    def __init__(
        self,
        connections: LlmConnections,
        budgets: Budgets,
        project_budgets: Mapping[str, Budget],
        made: Callable[[Call], None] | None = None,
    ) -> None:
        """Set up the judges. `made` is called with each completed request."""
        self._connections = connections
        self._budgets = budgets
        self._project_budgets = project_budgets
        self._made = made
        self.health = JudgeHealth()
        self._open: dict[str, _Open] = {}
        self._retired: list[_Open] = []
        self._closing: set[asyncio.Task[None]] = set()

    def connection_of(self, active: ActiveRule) -> str:
        """Return the id of the connection of the rule's judge.

        Raises:
            BadConfiguration: there is none, or it cannot be used; the message says what to do.
        """
        stored, _ = self._resolved(active)
        return stored.connection_id

    def problem_of(self, active: ActiveRule) -> str | None:
        """Return why the rule's judge cannot be called, and what to do; None if it can, or if the rule has none."""
        if active.executor_kind != "judge":
            return None
        try:
            self._resolved(active)
            for juror in self.jurors(active):
                self._connections.usable(self._meant(active, juror.connection_id))
        except BadConfiguration as error:
            return str(error)
        return None

    def jurors(self, active: ActiveRule) -> Sequence[Juror]:
        """Return the connections of the rule's jury, the rule's own first; none without a jury.

        Raises:
            BadConfiguration: a connection does not exist, or is named twice; the message says what to do.
        """
        rule = active.rule
        if not rule.jury:
            return ()
        connections = [self._connections.resolve(named, active.tenant) for named in (rule.connection, *rule.jury)]
        if len({each.connection_id for each in connections}) < len(connections):
            raise BadConfiguration("two judges of the jury are over one connection; name each connection once")
        return [Juror(connection_id=each.connection_id, name=each.row.name) for each in connections]

    def terms_of(self, active: ActiveRule) -> list[JudgeTerms]:
        """Return the terms of the rule's judge, or of each judge of its jury, the rule's own first.

        Raises:
            BadConfiguration: the rule has no usable judge; the message says what to do.
        """
        terms = []
        voting: Sequence[str | None] = [each.connection_id for each in self.jurors(active)]
        for over in voting or (None,):
            stored, connection = self._resolved(active, over)
            terms.append(
                JudgeTerms(
                    connection_id=stored.connection_id,
                    connection=stored.row.name,
                    model=connection.model,
                    price=connection.price,
                    max_output_tokens=connection.max_output_tokens,
                )
            )
        return terms

    def in_flight(self, connection_id: str) -> int:
        """Return how many jobs may run at once over a connection."""
        return self._connections.in_flight(connection_id) or _OF_MISSING

    def fallback(self, connection_id: str) -> Fallback | None:
        """Return the fallback of a connection; None if it has none."""
        connection = self._connections.fallback(connection_id)
        return (
            None if connection is None else Fallback(connection_id=connection.connection_id, name=connection.row.name)
        )

    def judge(
        self,
        active: ActiveRule,
        job: JobToJudge,
        *,
        over: str | None = None,
        current: Callable[[], ActiveRule] | None = None,
        through: Callable[[RequestBudget], RequestBudget] | None = None,
    ) -> Judge:
        """Return the judge for one job, over the connection `over`, else over the rule's.

        With `through`, its requests count against that budget too.

        `current` is called before each request and returns the rule with its current budget; it raises `Stopped` if no
        more requests may be made.

        Raises:
            BadConfiguration: there is none, or it cannot be used; the message says what to do.
        """
        stored = self._meant(active, over)
        connection = self._connections.usable(stored)
        account = self._account(stored, connection, active, job)
        made = self._made

        def paid(spent: RequestUsage) -> None:
            if made is not None:
                made(Call(account=account, rule=active.rule.name, connection=connection, spent=spent))

        def account_now() -> Account:
            return account if current is None else self._account(self._as_it_is(stored), connection, current(), job)

        opened = self._model(stored.connection_id, connection)
        request_budget = self._budgets.request_budget(account_now, paid)
        judge = ChatJudge(opened.model, request_budget if through is None else through(request_budget))
        opened.judges.add(judge)
        return judge

    def account_of_playground(
        self, stored: LlmConnection, connection: ModelConnection, *, tenant: str, project: str | None
    ) -> Account:
        """Return the account of a playground request: the project and the connection pay.

        Raises:
            BadConfiguration: USD are limited, and the model has no price.
        """
        return self._account_of(
            stored,
            connection,
            tenant=tenant,
            project=project,
            rule=Payer(kind="rule", identity=PLAYGROUND, name=PLAYGROUND, budget=None),
        )

    def speaker(
        self, stored: LlmConnection, own: ModelConnection, adapted: ModelConnection, account: Account
    ) -> ChatSpeaker:
        """Return a speaker that continues a conversation over a connection, within its limits and its budget.

        `own` is the connection as judges use it, `adapted` the same with the parameters of this conversation.
        """

        def account_now() -> Account:
            current = self._as_it_is(stored)
            return self.account_of_playground(current, adapted, tenant=account.tenant, project=account.project)

        opened = self._model(stored.connection_id, own)
        speaker = ChatSpeaker(opened.model, adapted, self._budgets.request_budget(account_now))
        opened.judges.add(speaker)
        return speaker

    async def close(self) -> None:
        """Close all models. No judge may be in use any more."""
        await asyncio.gather(*self._closing)
        every = [*self._open.values(), *self._retired]
        self._open, self._retired = {}, []
        for each in every:
            await each.model.close()

    def _resolved(self, active: ActiveRule, over: str | None = None) -> tuple[LlmConnection, ModelConnection]:
        stored = self._meant(active, over)
        connection = self._connections.usable(stored)
        self._account(stored, connection, active, None)
        return stored, connection

    def _meant(self, active: ActiveRule, over: str | None) -> LlmConnection:
        if over is None:
            return self._connections.resolve(active.rule.connection, active.tenant)
        try:
            return self._connections.get(over)
        except NotFound as error:
            raise BadConfiguration(str(error)) from None

    def _as_it_is(self, stored: LlmConnection) -> LlmConnection:
        try:
            return self._connections.get(stored.connection_id)
        except NotFound:
            return stored

    def _model(self, connection_id: str, connection: ModelConnection) -> _Open:
        """Return the model of a connection's current settings, which all its judges share, and with it their limits."""
        opened = self._open.get(connection_id)
        if opened is not None and opened.connection == connection:
            return opened
        if opened is not None:
            self._retired.append(opened)
        if self._retired:
            closing = asyncio.get_running_loop().create_task(self._close_unused())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        opened = self._open[connection_id] = _Open(connection=connection, model=ChatModel(connection))
        return opened

    async def _close_unused(self) -> None:
        over = [each for each in self._retired if not each.judges]
        self._retired = [each for each in self._retired if each.judges]
        for each in over:
            await each.model.close()

    def _account(
        self, stored: LlmConnection, connection: ModelConnection, active: ActiveRule, job: JobToJudge | None
    ) -> Account:
        rule = active.rule
        return self._account_of(
            stored,
            connection,
            tenant=active.tenant if job is None else job.tenant,
            project=None if job is None else job.project,
            rule=Payer(kind="rule", identity=active.rule_id, name=rule.name, budget=rule.budget),
            job_id=None if job is None else job.job_id,
        )

    def _account_of(
        self,
        stored: LlmConnection,
        connection: ModelConnection,
        *,
        tenant: str,
        project: str | None,
        rule: Payer,
        job_id: int | None = None,
    ) -> Account:
        of_project = self._project_budgets.get(project or "", self._project_budgets.get(ANY_PROJECT))
        return Account(
            tenant=tenant,
            rule_id=rule.identity,
            project=project,
            connection_id=stored.connection_id,
            job_id=job_id,
            payers=(
                rule,
                Payer(kind="project", tenant=tenant, identity=project, name=project or "", budget=of_project),
                connection_payer(stored),
            ),
            price=connection.price,
        )


def connection_payer(connection: LlmConnection) -> Payer:
    """Return a connection as a payer."""
    budget = connection.text.budget
    return Payer(
        kind="connection",
        identity=connection.connection_id,
        name=connection.row.name,
        budget=None if budget is None else budget.budget(),
    )
