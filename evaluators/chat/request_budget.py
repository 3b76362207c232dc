"""Budgets of requests to models: reserved before each request, settled with its usage after it."""

from dataclasses import dataclass
from typing import Final, Protocol

ASSUMED_OUTPUT_TOKENS: Final = 4096
"""Assumed tokens of an answer without a limit. A guess: verdicts about dozens of claims; a model that reasons at length
may take more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The most tokens that one request may use."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUsage:
    """Usage of one request. Tokens that are None are unknown, and may be as many as were reserved."""

    outcome: str  # "answered", or the kind of failure; "unsent" if it was not tried
    model: str | None = None  # as the endpoint names it
    input_tokens: int | None = None
    output_tokens: int | None = None
    started_ns: int | None = None  # since the Unix epoch; None if the request was not sent

    @property
    def is_sent(self) -> bool:
        """Return whether the request was tried, even if no connection could be made."""
        return self.outcome != UNSENT.outcome


UNSENT: Final = RequestUsage(outcome="unsent", input_tokens=0, output_tokens=0)


class Reservation(Protocol):
    """Budget that is reserved for one request."""

    def still_holds(self) -> bool:
        """Return True if the request may be sent now, possibly long after the reservation.

        If False, settle the reservation as unsent and reserve again.

        Raises:
            EvaluationError: no such request may be sent any more.

        """

    def settle(self, spent: RequestUsage) -> None:
        """Record the usage. MUST be called once, whatever happens; it neither waits nor raises."""


class RequestBudget(Protocol):
    """Budget of requests, which may reserve for many at once."""

    async def reserve(self, most: Estimate) -> Reservation:
        """Reserve the maximum usage of a request; return once it is recorded. The request must not be sent before.

        Raises:
            EvaluationError: the request must not be sent; `OverBudget` if the budget is spent.
        """


class UnlimitedBudget:
    """A request_budget without limits, which counts nothing."""

    async def reserve(self, most: Estimate) -> Reservation:  # noqa: ARG002 - the protocol's
        """Return at once."""
        return self

    def still_holds(self) -> bool:
        """Return True."""
        return True

    def settle(self, spent: RequestUsage) -> None:
        """Do nothing."""
