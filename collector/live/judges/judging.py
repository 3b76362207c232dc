"""Source from which workers get the judges that rules name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from collector.live.active import ActiveRule
from collector.live.judges.judge_health import JudgeHealth
from evaluators.judge_interface import Judge
from storage.judging.jobs import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """The connection to use while another one is unavailable."""

    connection_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Juror:
    """A connection whose judge votes."""

    connection_id: str
    name: str


class JudgeSource(Protocol):
    """The connections to judges. Its methods do not block; call `judge` and `close` in one event loop."""

    @property
    def health(self) -> JudgeHealth:
        """Return the record of recent outcomes by connection, rule and evaluation."""

    def connection_of(self, active: ActiveRule) -> str:
        """Return the id of the connection of the rule's judge.

        Raises:
            BadConfiguration: there is none, or it cannot be used; the message says what to do.
        """

    def jurors(self, active: ActiveRule) -> Sequence[Juror]:
        """Return the connections of the rule's jury, the rule's own first; none without a jury.

        Raises:
            BadConfiguration: a connection does not exist, or is named twice; the message says what to do.
        """

    def in_flight(self, connection_id: str) -> int:
        """Return how many jobs may run at the same time over a connection."""

    def fallback(self, connection_id: str) -> Fallback | None:
        """Return the fallback of a connection; None if it has none."""

    def judge(
        self, active: ActiveRule, job: Job, *, current: Callable[[], ActiveRule], over: str | None = None
    ) -> Judge:
        """Return the judge for one job, over the rule's connection or the one with this id.

        Each request first reserves its cost in the budgets of the rule that `current` returns. Once `current` raises
        `Stopped`, no more requests are sent.

        Raises:
            BadConfiguration: as above.
        """

    async def close(self) -> None:
        """Close all connections, after the last use of a judge."""
