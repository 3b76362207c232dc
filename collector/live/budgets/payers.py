"""Payers of judge calls, and the check of their daily budgets. Sums are integers; no clock, no I/O."""

import math
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from evaluators.chat.connection import Price
from evaluators.errors import BadConfiguration
from rules.rule import Budget
from storage.judging.spending import NANO

Kind: TypeAlias = Literal["rule", "project", "connection"]
Key: TypeAlias = tuple[Kind, str, str | None]
"""Key of a payer: its kind; for a project its tenant and name, for all others an empty text and the id."""

_NANO_PER_TOKEN: Final = 1000  # for each USD that a million tokens cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """A payer, its budget, and its name in messages."""

    kind: Kind
    tenant: str = ""  # of a project only: tenants may use the same project names
    identity: str | None  # id, or the project's name; None for no project
    name: str
    budget: Budget | None

    @property
    def key(self) -> Key:
        """Return the key of its sums."""
        return (self.kind, self.tenant, self.identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The tenant, project and payers of a request, and the price of its tokens."""

    tenant: str
    rule_id: str | None
    project: str | None
    connection_id: str
    job_id: int | None
    payers: tuple[Payer, ...]
    price: Price | None

    def __post_init__(self) -> None:
        """Refuse a budget in USD for a model without a price.

        Raises:
            BadConfiguration: USD are limited, and the model has no price.
        """
        if self.price is not None:
            return
        for payer in self.payers:
            if payer.budget is not None and payer.budget.usd_per_day is not None and not payer.budget.allow_unpriced:
                raise BadConfiguration(
                    f"{payer.kind} {payer.name!r} has a budget in USD, and the model of the connection has no price: "
                    "give the connection a price, or set allowUnpriced in the budget"
                )


@dataclass(slots=True)
class CostSum:
    """Sums of requests, tokens and billionths of a USD.

    `failed_calls` counts failed requests that cost nothing; no budget and none of the other sums includes them.
    `unpriced_calls` counts those of the requests whose cost is unknown, because the model has no price.
    """

    calls: int = 0
    tokens: int = 0
    nano_usd: int = 0
    failed_calls: int = 0
    unpriced_calls: int = 0

    def add(self, other: "CostSum", sign: int = 1) -> None:
        """Add another sum, or subtract it if `sign` is -1."""
        self.calls += sign * other.calls
        self.tokens += sign * other.tokens
        self.nano_usd += sign * other.nano_usd
        self.failed_calls += sign * other.failed_calls
        self.unpriced_calls += sign * other.unpriced_calls


@dataclass(slots=True)
class AccountBalance:
    """Spent and reserved amounts."""

    spent: CostSum = field(default_factory=CostSum)
    held: CostSum = field(default_factory=CostSum)


@dataclass(frozen=True, slots=True)
class Shortage:
    """The reason why a payer cannot pay now, whether it lasts for the day, and whether its budget never suffices."""

    message: str
    is_final: bool
    is_too_small: bool = False


def shortage_of(payer: Payer, balance: AccountBalance, estimate: CostSum) -> Shortage | None:
    """Return why a payer cannot pay the estimate; None if it can."""
    shortage: Shortage | None = None
    for limit, spent, held, more, unit in _measures(payer.budget, balance, estimate):
        if spent + held + more <= limit:
            continue
        is_final = spent + more > limit
        if shortage is None or is_final:
            shortage = Shortage(_explained(payer, limit, spent, more, unit), is_final)
        if more > limit:
            return Shortage(_explained_limit(payer, limit, more, unit), is_final=True, is_too_small=True)
    return shortage


def _measures(
    budget: Budget | None, balance: AccountBalance, estimate: CostSum
) -> list[tuple[int, int, int, int, str]]:
    """Return for each limited measure: limit, spent, reserved, estimate and unit."""
    if budget is None:
        return []
    nano = None if budget.usd_per_day is None else math.floor(budget.usd_per_day * NANO)
    spent, held = balance.spent, balance.held
    measures = [
        (budget.calls_per_day, spent.calls, held.calls, estimate.calls, "calls"),
        (budget.tokens_per_day, spent.tokens, held.tokens, estimate.tokens, "tokens"),
        (nano, spent.nano_usd, held.nano_usd, estimate.nano_usd, "USD"),
    ]
    return [(limit, *numbers) for limit, *numbers in measures if limit is not None]  # type: ignore[misc] # five of them


def _explained(payer: Payer, limit: int, spent: int, more: int, unit: str) -> str:
    may_take = "" if unit == "calls" else f", and this request may take {_amount_text(more, unit)}"
    return (
        f"too little of the budget of {payer.kind} {payer.name!r} is left for today: "
        f"{_amount_text(spent, unit)} of {_amount_text(limit, unit)} {unit} are spent{may_take}; "
        "a day ends at 00:00 UTC"
    )


def _explained_limit(payer: Payer, limit: int, more: int, unit: str) -> str:
    remedy = "" if unit == "calls" else ", or lower maxOutputTokens of the connection"
    return (
        f"the budget of {payer.kind} {payer.name!r} is too small for this request, which may take "
        f"{_amount_text(more, unit)}; the limit is {_amount_text(limit, unit)} {unit} a day: "
        f"raise {_LIMIT_NAMES[unit]}{remedy}"
    )


_LIMIT_NAMES: Final = {"calls": "callsPerDay", "tokens": "tokensPerDay", "USD": "usdPerDay"}


def _amount_text(number: int, unit: str) -> str:
    return f"{number / NANO:.6g}" if unit == "USD" else str(number)


def nano_usd_of(price: Price | None, input_tokens: int, output_tokens: int) -> int:
    """Return the price of tokens in billionths of a USD, rounded up; 0 without a price."""
    if price is None:
        return 0
    of_input = input_tokens * price.input_usd_per_million
    of_output = output_tokens * price.output_usd_per_million
    return math.ceil((of_input + of_output) * _NANO_PER_TOKEN)
