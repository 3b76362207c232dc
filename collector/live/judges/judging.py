"""Where workers get the judges that rules name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from collector.live.active import ActiveRule
from collector.live.judges.judge_health import JudgeHealth
from evaluators.judging import Judge
from storage.judging.jobs import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """The connection that is asked where another one does not answer."""

    connection_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Juror:
    """A connection whose judge votes."""

    connection_id: str
    name: str


class JudgeSource(Protocol):
    """The connections to judges. Its methods do not wait; `judge` and `close` are called in one event loop."""

    @property
    def health(self) -> JudgeHealth:
        """The record of recent outcomes by connection, rule and evaluation."""

    def connection_of(self, active: ActiveRule) -> str:
        """The id of the connection that the rule's judge asks.

        Raises:
            BadConfiguration: there is none, or it cannot be used; the message says what to do.
        """

    def jurors(self, active: ActiveRule) -> Sequence[Juror]:
        """The connections whose judges vote, the rule's own first; none where the rule has no jury.

        Raises:
            BadConfiguration: one is not there, or is named twice; the message says what to do.
        """

    def in_flight(self, connection_id: str) -> int:
        """How many jobs may run at the same time over a connection."""

    def fallback(self, connection_id: str) -> Fallback | None:
        """The connection that is asked where this one does not answer."""

    def judge(
        self, active: ActiveRule, job: Job, *, current: Callable[[], ActiveRule], over: str | None = None
    ) -> Judge:
        """The judge for one job, over the rule's connection or the one with this id.

        Each request that it makes is paid first, from the budgets that `current` tells then.
        Where `current` raises `Stopped`, no more requests leave.

        Raises:
            BadConfiguration: as above.
        """

    async def close(self) -> None:
        """Let go of all connections, once no judge is asked any more."""
