"""What a request to a model is charged to: asked before each one leaves, told after it what it took."""

from dataclasses import dataclass
from typing import Final, Protocol

ASSUMED_OUTPUT_TOKENS: Final = 4096
"""What an answer is taken to need where nothing limits it. A guess: verdicts about dozens of claims; a model that
reasons at length may take more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one request may take."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUsage:
    """What one request took. Where tokens are None, nobody knows, and it may have been as much as was set aside."""

    outcome: str  # "answered", or the kind of failure; "unsent" if it was not tried
    model: str | None = None  # as the endpoint names it
    input_tokens: int | None = None
    output_tokens: int | None = None
    started_ns: int | None = None  # since the Unix epoch; None where it was not sent

    @property
    def is_sent(self) -> bool:
        """Return whether the request was tried, even if no connection could be made."""
        return self.outcome != UNSENT.outcome


UNSENT: Final = RequestUsage(outcome="unsent", input_tokens=0, output_tokens=0)


class Reservation(Protocol):
    """What was set aside for one request."""

    def still_holds(self) -> bool:
        """Whether the request may leave at this moment, which may be long after its reservation was set aside.

        Where it says no, settle the reservation as unsent and reserve again.

        Raises:
            Broken: no such request may leave any more.
        """

    def settle(self, spent: RequestUsage) -> None:
        """Say what it took. MUST be called once, whatever happens; it neither waits nor raises."""


class RequestBudget(Protocol):
    """Who pays for requests. The same request_budget may be asked for many at once."""

    async def reserve(self, most: Estimate) -> Reservation:
        """Set aside what one request may take, and return once that is on record; only then may it leave.

        Raises:
            Broken: it must not be made. `OverBudget` where the money is spent.
        """


class Free:
    """A request_budget for requests that nobody counts."""

    async def reserve(self, most: Estimate) -> Reservation:  # noqa: ARG002 - the protocol's
        """Let it pass."""
        return self

    def still_holds(self) -> bool:
        """It does."""
        return True

    def settle(self, spent: RequestUsage) -> None:
        """Nothing to settle."""
