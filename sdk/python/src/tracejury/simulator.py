"""A conversation between a simulated user and an application: turns, end, and source of errors."""

import asyncio
import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tracejury.conversation import ConversationTrajectory, Message
from tracejury.marking import Turning, mark_spans, turn_span
from tracejury.simulated_user import CalledUser, SimulatedUser, UserTurn, called
from tracejury.spending import BudgetAccount, BudgetSpent, Spending

StopReason = Literal["max_turns", "stopping_condition", "user_ended", "budget", "error"]
ErrorSource = Literal["agent", "simulator"]

Application = Callable[[ConversationTrajectory], Any]
"""The application under test: from the conversation so far to its answer, a text, a `Message` or a `TargetReply`."""

StoppingCondition = Callable[[ConversationTrajectory], Any]

_SHOWN_CHARACTERS: Final = 2_000


@dataclass(frozen=True)
class TargetReply:
    """Reply of the application, with its usage and its new state, if known."""

    message: Message
    state: Any = None
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True)
class SimulatedConversation:
    """Result of a conversation, also of one that broke off: the turns so far are kept."""

    trajectory: ConversationTrajectory
    stop_reason: StopReason
    session_id: str
    seed: int
    user: Mapping[str, Any]  # what the user was: model, persona, prompt
    error: str | None = None
    error_source: ErrorSource | None = None
    state: Any = None  # the last state that the application returned
    trace_ids: tuple[str, ...] = ()
    user_spent: Mapping[str, Any] = field(default_factory=dict)
    agent_spent: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the conversation as JSON for the journal."""
        return {
            "sessionId": self.session_id,
            "stopReason": self.stop_reason,
            "error": self.error,
            "errorSource": self.error_source,
            "turnCount": self.trajectory.turn_count,
            "seed": self.seed,
            "user": dict(self.user),
            "trajectory": self.trajectory.document(),
            "state": self.state,
            "traceIds": list(self.trace_ids),
            "userSpent": dict(self.user_spent),
            "agentSpent": dict(self.agent_spent),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "SimulatedConversation":
        """Return the conversation in a JSON document."""
        return cls(
            ConversationTrajectory.of(document["trajectory"]),
            document["stopReason"],
            document["sessionId"],
            document["seed"],
            document["user"],
            document["error"],
            document["errorSource"],
            document["state"],
            tuple(document["traceIds"]),
            document["userSpent"],
            document["agentSpent"],
        )


@dataclass(frozen=True)
class ConversationSimulator:
    """Simulator of a conversation between a user and an application: `simulate`, or `simulate_async` in an event loop.

    `max_turns` counts messages of the user. The stopping condition is checked after each message. If it holds after a
    message of the user, the conversation ends only after the application has answered that message.

    """

    simulated_user: SimulatedUser | Callable[[ConversationTrajectory], Any]
    application: Application
    max_turns: int = 10
    scenario: str = ""
    initial_message: str | None = None
    stopping_condition: StoppingCondition | None = None
    expected_outcome: str = ""
    seed: int | None = None
    reply_timeout_s: float | None = 120.0
    attributes: Mapping[str, Any] = field(default_factory=dict)  # of the spans
    account: BudgetAccount = field(default_factory=BudgetAccount)

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise ValueError("max_turns is 1 or more")

    def simulate(self) -> SimulatedConversation:
        """Run the conversation in an event loop of its own, and return its result."""
        return asyncio.run(self.simulate_async())

    async def simulate_async(self) -> SimulatedConversation:
        """Run the conversation. Exceptions of the user or the application are in the result, with the turns so far."""
        mark_spans()
        return await _RunningConversation(self).run()


class _Ended(Exception):
    """The conversation is over."""

    def __init__(self, reason: StopReason, error: str | None = None, source: ErrorSource | None = None) -> None:
        super().__init__(reason)
        self.reason: StopReason = reason
        self.error = error
        self.source = source


class _RunningConversation:
    """A conversation under way."""

    def __init__(self, simulator: ConversationSimulator) -> None:
        user: Any = simulator.simulated_user
        self.simulator = simulator
        self.user: SimulatedUser = user if hasattr(user, "says") else CalledUser(user)
        self.trajectory = ConversationTrajectory(simulator.scenario)
        self.turning = Turning(f"simulated-{uuid.uuid4().hex}", 0)
        self.seed = seed_of(simulator.scenario) if simulator.seed is None else simulator.seed
        self.user_side, self.agent_side = Spending(simulator.account), Spending(simulator.account)
        self.opened = 0
        self.state: Any = None

    async def run(self) -> SimulatedConversation:
        """Talk until it ends."""
        ended = await self._talk()
        prompt = getattr(self.user, "prompt", None)
        scenario, outcome = self.simulator.scenario, self.simulator.expected_outcome
        return SimulatedConversation(
            self.trajectory,
            ended.reason,
            self.turning.session_id,
            self.seed,
            {**self.user.document(), **({} if prompt is None else {"prompt": prompt(scenario, outcome)})},
            ended.error,
            ended.source,
            self.state,
            tuple(self.turning.trace_ids),
            self.user_side.spent.document(),
            self.agent_side.spent.document(),
        )

    async def _talk(self) -> _Ended:
        try:
            while self.turning.number < self.simulator.max_turns:
                await self._turn()
        except _Ended as ended:
            return ended
        return _Ended("max_turns")

    async def _turn(self) -> None:
        """Run one turn: the user's message, and the answer."""
        self.turning.number += 1
        message, is_last = await self._user_speaks()
        self.trajectory = self.trajectory.plus(message)
        stops = await self._stops()
        await self._agent_answers(message.content)
        if stops or await self._stops():
            raise _Ended("stopping_condition")
        if is_last:
            raise _Ended("user_ended")

    async def _user_speaks(self) -> tuple[Message, bool]:
        if not self.trajectory.messages and self.simulator.initial_message is not None:
            self.opened = 1
            return Message.user(self.simulator.initial_message), False
        turn = UserTurn(self.trajectory, self.seed, self.user_side, self.simulator.expected_outcome, self.opened)
        try:
            message = await self.user.says(turn)
        except BudgetSpent as spent:
            raise _Ended("budget", str(spent)) from None
        except Exception as error:  # noqa: BLE001 - any error of a user is reported as the simulator's fault
            raise _Ended("error", error_text(error), "simulator") from error
        if message is None:
            raise _Ended("user_ended")
        return message, turn.is_last

    async def _agent_answers(self, text: str) -> None:
        try:
            self.agent_side.begin()
        except BudgetSpent as spent:
            raise _Ended("budget", str(spent)) from None
        with turn_span(self.turning, text, self.simulator.attributes) as span:
            try:
                answer = called(self.simulator.application, self.trajectory)
                reply = reply_of(await asyncio.wait_for(answer, self.simulator.reply_timeout_s))
            except asyncio.TimeoutError:
                raise _Ended("error", f"no answer within {self.simulator.reply_timeout_s:g} s", "agent") from None
            except Exception as error:  # noqa: BLE001 - any error of an application is reported as its fault
                raise _Ended("error", error_text(error), "agent") from error
            span.set_attribute("output.value", reply.message.content)
        self.agent_side.took(reply.tokens_in, reply.tokens_out, reply.cost_usd)
        self.state = self.state if reply.state is None else reply.state
        self.trajectory = self.trajectory.plus(reply.message)

    async def _stops(self) -> bool:
        if self.simulator.stopping_condition is None:
            return False
        try:
            return bool(await called(self.simulator.stopping_condition, self.trajectory))
        except Exception as error:  # noqa: BLE001 - any error of a condition is reported as the simulator's fault
            raise _Ended("error", f"stopping condition: {error_text(error)}", "simulator") from error


def reply_of(returned: Any) -> TargetReply:
    """Convert the return value of an application to its reply.

    Raises:
        TypeError: the value is neither a message, text nor a reply.

    """
    reply = returned if isinstance(returned, TargetReply) else TargetReply(returned)
    message: Any = Message.assistant(reply.message) if isinstance(reply.message, str) else reply.message
    if not (isinstance(message, Message) and message.role == "assistant"):
        raise TypeError("an application returns a message of the assistant, a text, or a TargetReply")
    return replace(reply, message=message)


def seed_of(*parts: object) -> int:
    """Return a seed of 31 bits that depends only on the arguments."""
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:4], "big") >> 1


def error_text(error: Exception) -> str:
    """Return the class and message of an error, cut to 2,000 characters."""
    return f"{type(error).__name__}: {error}"[:_SHOWN_CHARACTERS]
