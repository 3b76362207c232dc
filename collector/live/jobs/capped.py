"""A request budget with a cap: a caller that confirmed a price pays no more than that."""

from dataclasses import dataclass

from evaluators.chat.request_budget import Estimate, RequestBudget, RequestUsage, Reservation
from evaluators.errors import OverBudget


class Capped:
    """Implementation of `evaluators.chat.request_budget.RequestBudget`: another budget, up to a number of tokens."""

    def __init__(self, request_budget: RequestBudget, most: Estimate) -> None:
        self._request_budget = request_budget
        self._most = most
        self._taken = Estimate(input_tokens=0, output_tokens=0)
        self._calls = 0

    @property
    def taken(self) -> Estimate:
        """Return the spent and reserved tokens, as budgets count them."""
        return self._taken

    @property
    def calls(self) -> int:
        """Return the number of requests that were sent and are settled."""
        return self._calls

    async def reserve(self, most: Estimate) -> Reservation:
        """Reserve the most that one request may use.

        Raises:
            EvaluationError: the request must not be made; `OverBudget` if it might take more than is left.
        """
        taken, end = self._taken, self._most
        total = Estimate(
            input_tokens=taken.input_tokens + most.input_tokens, output_tokens=taken.output_tokens + most.output_tokens
        )
        if total.input_tokens > end.input_tokens or total.output_tokens > end.output_tokens:
            raise OverBudget(
                f"it may take {end.input_tokens:,} tokens in and {end.output_tokens:,} out, and the next request "
                "might take more than is left of that"
            )
        self._taken = total
        try:
            return _CappedReservation(self, most, await self._request_budget.reserve(most))
        except BaseException:  # raised again: nothing stays reserved, also if the task is cancelled
            self._give_back(most.input_tokens, most.output_tokens)
            raise

    def settle(self, most: Estimate, spent: RequestUsage) -> None:
        """Replace the reservation by the actual usage; if that is unknown, the reservation counts as spent."""
        self._calls += spent.is_sent
        if spent.input_tokens is not None and spent.output_tokens is not None:
            self._give_back(most.input_tokens - spent.input_tokens, most.output_tokens - spent.output_tokens)

    def _give_back(self, input_tokens: int, output_tokens: int) -> None:
        taken = self._taken
        self._taken = Estimate(
            input_tokens=taken.input_tokens - input_tokens, output_tokens=taken.output_tokens - output_tokens
        )


@dataclass(frozen=True, slots=True)
class _CappedReservation:
    capped: Capped
    most: Estimate
    reservation: Reservation

    def still_holds(self) -> bool:
        """Return True if the request may be sent now."""
        return self.reservation.still_holds()

    def settle(self, spent: RequestUsage) -> None:
        """Settle the reservation by the usage of the request."""
        self.capped.settle(self.most, spent)
        self.reservation.settle(spent)
