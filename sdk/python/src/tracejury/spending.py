"""Budget and usage of a simulation."""

from dataclasses import dataclass, field


class BudgetSpent(Exception):
    """The budget is spent; the message names the limit."""


@dataclass(frozen=True)
class SimulationBudget:
    """Budget of a whole simulation: the simulated users and the application together. None means unlimited.

    Calls never exceed the limit. Tokens and USD can: they are known only after a call, and only if the model or the
    application reports them, so calls under way when the limit is reached come on top.

    """

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass
class Spent:
    """Usage."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = None  # None if unknown

    def add(self, tokens_in: int, tokens_out: int, usd: float | None) -> None:
        """Add the usage of a call."""
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        if usd is not None:
            self.usd = (self.usd or 0.0) + usd

    def document(self) -> dict[str, int | float | None]:
        """Return the usage as JSON for the journal."""
        return {"calls": self.calls, "tokensIn": self.tokens_in, "tokensOut": self.tokens_out, "costUsd": self.usd}


@dataclass
class BudgetAccount:
    """The budget of a simulation, which its conversations share."""

    budget: SimulationBudget = field(default_factory=SimulationBudget)
    spent: Spent = field(default_factory=Spent)

    def take(self) -> None:
        """Begin a call.

        Raises:
            BudgetSpent: the budget is spent.
        """
        tokens = self.spent.tokens_in + self.spent.tokens_out
        for name, used, limit in (
            ("calls", self.spent.calls, self.budget.calls),
            ("tokens", tokens, self.budget.tokens),
            ("USD", self.spent.usd or 0.0, self.budget.usd),
        ):
            if limit is not None and used >= limit:
                raise BudgetSpent(f"the budget of {limit:g} {name} is spent")
        self.spent.calls += 1


@dataclass
class Spending:
    """Spending of one side of one conversation."""

    account: BudgetAccount
    spent: Spent = field(default_factory=Spent)

    def begin(self) -> None:
        """Begin a call.

        Raises:
            BudgetSpent: the budget is spent.
        """
        self.account.take()
        self.spent.calls += 1

    def took(self, tokens_in: int, tokens_out: int, usd: float | None) -> None:
        """Add the usage of a call."""
        self.account.spent.add(tokens_in, tokens_out, usd)
        self.spent.add(tokens_in, tokens_out, usd)
