"""The judges of rules: models over the configured connections, each request of which is paid from the budgets first."""

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
from evaluators.judging import Judge
from rules.rule import Budget
from storage.errors import Missing

PLAYGROUND: Final = "playground"
"""On whose behalf a model is asked in the playground, where calls are counted by rule."""

ANY_PROJECT: Final = "*"

_OF_MISSING: Final = 1
"""Jobs at once over a connection that is no more: they fail, and say so."""


class JobToJudge(Protocol):
    """What a judge needs to know of a job."""

    @property
    def job_id(self) -> int | None:
        """Its number; None: it is no job, somebody tries a rule out."""

    @property
    def tenant(self) -> str:
        """Whose span it is about."""

    @property
    def project(self) -> str | None:
        """Whose budget counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to a model that was made, as it is told to whoever traces them."""

    account: Account
    rule: str | None  # its name
    connection: ModelConnection
    spent: RequestUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTerms:
    """Over which connection a judge of a rule is asked, and for how much."""

    connection_id: str
    connection: str  # its name
    model: str
    price: Price | None
    max_output_tokens: int | None


@dataclass(slots=True, eq=False)
class _Open:
    """A model that is being asked, and the judges that were handed out for it."""

    connection: ModelConnection
    model: ChatModel
    judges: "WeakSet[Any]" = field(default_factory=WeakSet)


class ConnectedJudges:
    """Implements `JudgeSource`. `judge` and `close` belong in one event loop; the rest may be called from anywhere."""

    def __init__(
        self,
        connections: LlmConnections,
        budgets: Budgets,
        project_budgets: Mapping[str, Budget],
        made: Callable[[Call], None] | None = None,
    ) -> None:
        """`made` hears of each request once it is over."""
        self._connections = connections
        self._budgets = budgets
        self._project_budgets = project_budgets
        self._made = made
        self.health = JudgeHealth()
        self._open: dict[str, _Open] = {}
        self._retired: list[_Open] = []
        self._closing: set[asyncio.Task[None]] = set()

    def connection_of(self, active: ActiveRule) -> str:
        """The id of the connection that the rule's judge asks.

        Raises:
            BadConfiguration: there is none, or it cannot be used; the message says what to do.
        """
        found, _ = self._found(active)
        return found.connection_id

    def problem_of(self, active: ActiveRule) -> str | None:
        """Why the judge of the rule cannot be asked, and what to do; None where it can, or where it asks none."""
        if active.executor_kind != "judge":
            return None
        try:
            self._found(active)
            for juror in self.jurors(active):
                self._connections.usable(self._meant(active, juror.connection_id))
        except BadConfiguration as error:
            return str(error)
        return None

    def jurors(self, active: ActiveRule) -> Sequence[Juror]:
        """The connections whose judges vote, the rule's own first; none where the rule has no jury.

        Raises:
            BadConfiguration: one is not there, or is named twice; the message says what to do.
        """
        rule = active.rule
        if not rule.jury:
            return ()
        found = [self._connections.resolve(named, active.tenant) for named in (rule.connection, *rule.jury)]
        if len({each.connection_id for each in found}) < len(found):
            raise BadConfiguration("two judges of the jury are over one connection; name each connection once")
        return [Juror(connection_id=each.connection_id, name=each.row.name) for each in found]

    def terms_of(self, active: ActiveRule) -> list[JudgeTerms]:
        """What the rule's judge, or each judge of its jury, is asked for; the rule's own first.

        Raises:
            BadConfiguration: it asks none that can be used; the message says what to do.
        """
        terms = []
        voting: Sequence[str | None] = [each.connection_id for each in self.jurors(active)]
        for over in voting or (None,):
            found, connection = self._found(active, over)
            terms.append(
                JudgeTerms(
                    connection_id=found.connection_id,
                    connection=found.row.name,
                    model=connection.model,
                    price=connection.price,
                    max_output_tokens=connection.max_output_tokens,
                )
            )
        return terms

    def in_flight(self, connection_id: str) -> int:
        """The jobs that may run at once over a connection."""
        return self._connections.in_flight(connection_id) or _OF_MISSING

    def fallback(self, connection_id: str) -> Fallback | None:
        """The connection that is asked where this one does not answer; None where there is none."""
        found = self._connections.fallback(connection_id)
        return None if found is None else Fallback(connection_id=found.connection_id, name=found.row.name)

    def judge(
        self,
        active: ActiveRule,
        job: JobToJudge,
        *,
        over: str | None = None,
        current: Callable[[], ActiveRule] | None = None,
        through: Callable[[RequestBudget], RequestBudget] | None = None,
    ) -> Judge:
        """The judge for one job, asked `over` the connection with that id instead of the rule's, if there is one.

        What it pays goes `through` another request_budget, if there is one.

        `current` is asked before each request: how the rule is at that moment, with the budget that counts; it raises
        `Stopped` where nothing more is to be asked.

        Raises:
            BadConfiguration: there is none, or it cannot be used; the message says what to do.
        """
        found = self._meant(active, over)
        connection = self._connections.usable(found)
        account = self._account(found, connection, active, job)
        made = self._made

        def paid(spent: RequestUsage) -> None:
            if made is not None:
                made(Call(account=account, rule=active.rule.name, connection=connection, spent=spent))

        def account_now() -> Account:
            return account if current is None else self._account(self._as_it_is(found), connection, current(), job)

        opened = self._model(found.connection_id, connection)
        request_budget = self._budgets.request_budget(account_now, paid)
        judge = ChatJudge(opened.model, request_budget if through is None else through(request_budget))
        opened.judges.add(judge)
        return judge

    def account_of_playground(
        self, found: LlmConnection, connection: ModelConnection, *, tenant: str, project: str | None
    ) -> Account:
        """Who pays for what somebody asks in the playground: the project and the connection.

        Raises:
            BadConfiguration: USD are limited, and the model has no price.
        """
        return self._account_of(
            found,
            connection,
            tenant=tenant,
            project=project,
            rule=Payer(kind="rule", identity=PLAYGROUND, name=PLAYGROUND, budget=None),
        )

    def speaker(
        self, found: LlmConnection, own: ModelConnection, asked: ModelConnection, account: Account
    ) -> ChatSpeaker:
        """Who goes on with a conversation over a connection, within its limits, and paid from its budget.

        `own` is the connection as judges use it, `asked` the same with what this conversation wants of it.
        """

        def account_now() -> Account:
            there = self._as_it_is(found)
            return self.account_of_playground(there, asked, tenant=account.tenant, project=account.project)

        opened = self._model(found.connection_id, own)
        speaker = ChatSpeaker(opened.model, asked, self._budgets.request_budget(account_now))
        opened.judges.add(speaker)
        return speaker

    async def close(self) -> None:
        """Close all models. Judges that were handed out must be done with."""
        await asyncio.gather(*self._closing)
        every = [*self._open.values(), *self._retired]
        self._open, self._retired = {}, []
        for each in every:
            await each.model.close()

    def _found(self, active: ActiveRule, over: str | None = None) -> tuple[LlmConnection, ModelConnection]:
        found = self._meant(active, over)
        connection = self._connections.usable(found)
        self._account(found, connection, active, None)
        return found, connection

    def _meant(self, active: ActiveRule, over: str | None) -> LlmConnection:
        if over is None:
            return self._connections.resolve(active.rule.connection, active.tenant)
        try:
            return self._connections.get(over)
        except Missing as error:
            raise BadConfiguration(str(error)) from None

    def _as_it_is(self, found: LlmConnection) -> LlmConnection:
        """The connection with the budget that it has at this moment; one that is gone, as it was."""
        try:
            return self._connections.get(found.connection_id)
        except Missing:
            return found

    def _model(self, connection_id: str, connection: ModelConnection) -> _Open:
        """The model of a connection as it is now; limits hold for all its judges together."""
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
        """Close the models of connections that were changed since, once nobody asks them any more."""
        over = [each for each in self._retired if not each.judges]
        self._retired = [each for each in self._retired if each.judges]
        for each in over:
            await each.model.close()

    def _account(
        self, found: LlmConnection, connection: ModelConnection, active: ActiveRule, job: JobToJudge | None
    ) -> Account:
        rule = active.rule
        return self._account_of(
            found,
            connection,
            tenant=active.tenant if job is None else job.tenant,
            project=None if job is None else job.project,
            rule=Payer(kind="rule", identity=active.rule_id, name=rule.name, budget=rule.budget),
            job_id=None if job is None else job.job_id,
        )

    def _account_of(
        self,
        found: LlmConnection,
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
            connection_id=found.connection_id,
            job_id=job_id,
            payers=(
                rule,
                Payer(kind="project", tenant=tenant, identity=project, name=project or "", budget=of_project),
                connection_payer(found),
            ),
            price=connection.price,
        )


def connection_payer(found: LlmConnection) -> Payer:
    """The connection as one who pays."""
    budget = found.text.budget
    return Payer(
        kind="connection",
        identity=found.connection_id,
        name=found.row.name,
        budget=None if budget is None else budget.budget(),
    )
