"""Trial of a connection: one short question to its model, which counts in budgets like any other call."""

from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from typing import Any

from collector.live.budgets.budgets import Budgets
from collector.live.budgets.payers import Account
from collector.live.judges.connections import LlmConnections
from collector.live.judges.judge_health import JudgeHealth
from collector.live.judges.judges import connection_payer
from collector.live.judges.llm_connection import LlmConnection
from evaluators.chat.client import ChatModel
from evaluators.chat.judge import ChatJudge
from evaluators.errors import EvaluationError
from evaluators.judge_interface import CostMeter, PromptMessage
from evaluators.outcome import Usage
from storage.errors import Overloaded

_LONGEST_S = 60.0  # of a trial; shorter if the connection has a shorter limit

_QUESTION = (
    PromptMessage(role="system", content="This is a test of whether you can be asked. Answer with JSON alone."),
    PromptMessage(role="user", content='Answer {"ok": true}.'),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTrial:
    """Result of a trial. Without an error, the model answered in the form that judges need."""

    usage: Usage | None  # None if there was no answer
    error_kind: str | None
    error: str | None

    def document(self) -> dict[str, Any]:
        """Return the trial as JSON."""
        failed = None if self.error_kind is None else {"kind": self.error_kind, "message": self.error}
        return {"ok": failed is None, "usage": self.usage and self.usage.to_document(), "failure": failed}


class ConnectionTrials:
    """Trials of connections by clients. Thread-safe, except from the judges' event loop."""

    def __init__(
        self,
        connections: LlmConnections,
        budgets: Budgets,
        health: JudgeHealth,
        run: Callable[[Coroutine[Any, Any, ConnectionTrial]], Future[ConnectionTrial]],
    ) -> None:
        """Set up trials. `run` executes a coroutine in the judges' event loop; the stop cancels it."""
        self._connections, self._budgets, self._health, self._run = connections, budgets, health, run

    def ask(self, connection: LlmConnection) -> ConnectionTrial:
        """Send the question once, and return the result.

        Raises:
            Overloaded: the server is being stopped.
        """
        try:
            return self._run(self._ask(connection)).result()
        except CancelledError as error:
            raise Overloaded("the model could not be called: the server is being stopped", retry_after_s=5) from error

    async def _ask(self, connection: LlmConnection) -> ConnectionTrial:
        trial = await try_connection(connection, self._connections, self._budgets)
        if trial.error_kind is None:
            self._health.answered(connection.connection_id)
        return trial


async def try_connection(connection: LlmConnection, connections: LlmConnections, budgets: Budgets) -> ConnectionTrial:
    """Send the question over a connection once, and return the result."""
    meter: CostMeter | None = None
    try:
        usable = connections.usable(connection)
        once = replace(usable, attempts=1, timeout_s=min(usable.timeout_s, _LONGEST_S))
        account = Account(
            tenant=connection.row.tenant,
            rule_id=None,
            project=None,
            connection_id=connection.connection_id,
            job_id=None,
            payers=(connection_payer(connection),),
            price=usable.price,
        )
        async with ChatModel(once) as model:
            meter = CostMeter(ChatJudge(model, budgets.request_budget(lambda: account)))
            await meter(_QUESTION, {"ok": {"type": "boolean"}})
    except EvaluationError as broken:
        usage = None if meter is None else meter.usage
        return ConnectionTrial(usage=usage, error_kind=broken.kind, error=str(broken))
    return ConnectionTrial(usage=meter.usage, error_kind=None, error=None)
