"""A request_budget with an end of its own: whoever asked for a price beforehand pays no more than that."""

from dataclasses import dataclass

from evaluators.chat.request_budget import Estimate, RequestBudget, RequestUsage, Reservation
from evaluators.errors import OverBudget


class Capped:
    """Implements `evaluators.chat.request_budget.RequestBudget`: another one, asked until so many tokens are spent."""

    def __init__(self, request_budget: RequestBudget, most: Estimate) -> None:
        self._request_budget = request_budget
        self._most = most
        self._taken = Estimate(input_tokens=0, output_tokens=0)
        self._calls = 0

    @property
    def taken(self) -> Estimate:
        """The tokens that are gone, as budgets count them, and those that are set aside."""
        return self._taken

    @property
    def calls(self) -> int:
        """The requests that were sent and are over."""
        return self._calls

    async def reserve(self, most: Estimate) -> Reservation:
        """Set aside what one request may take.

        Raises:
            Broken: it must not be made. `OverBudget` where it might take more than is left.
        """
        taken, end = self._taken, self._most
        wanted = Estimate(
            input_tokens=taken.input_tokens + most.input_tokens, output_tokens=taken.output_tokens + most.output_tokens
        )
        if wanted.input_tokens > end.input_tokens or wanted.output_tokens > end.output_tokens:
            raise OverBudget(
                f"it may take {end.input_tokens:,} tokens in and {end.output_tokens:,} out, and the next request "
                "might take more than is left of that"
            )
        self._taken = wanted
        try:
            return _CappedReservation(self, most, await self._request_budget.reserve(most))
        except BaseException:  # raised again: nothing stays set aside, also where the task is cancelled
            self._give_back(most.input_tokens, most.output_tokens)
            raise

    def settle(self, most: Estimate, spent: RequestUsage) -> None:
        """Count what was spent instead of what was set aside; where nobody knows, that is gone."""
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
        """Whether the request may leave at this moment."""
        return self.reservation.still_holds()

    def settle(self, spent: RequestUsage) -> None:
        """Say what the request took."""
        self.capped.settle(self.most, spent)
        self.reservation.settle(spent)
