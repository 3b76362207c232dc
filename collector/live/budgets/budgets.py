"""Budgets: the daily cost of judges, reserved before each request and settled after it.

A budget limits calls, tokens or USD per UTC day. Each request counts towards three budgets: those of its rule, its
project and its connection. A trial of a connection counts only towards that of the connection. The sums are kept in
memory, and read from the table of calls when a day is first used. Money is counted in whole billionths of a USD, so
that sums do not drift. Reservations of a process that has ended expire after a lease.
"""

import asyncio
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal, TypeAlias, get_args

from collector.live.budgets.payers import (
    Account,
    AccountBalance,
    CostSum,
    Key,
    Kind,
    Payer,
    Shortage,
    nano_usd_of,
    shortage_of,
)
from evaluators.chat.client import ModelCallFailed
from evaluators.chat.request_budget import UNSENT, Estimate, RequestUsage
from evaluators.errors import HeldBack, OverBudget
from storage.judging.call_journal import ReservedCall, SettledCall
from storage.judging.spending import NANO, JudgeCallStore, SpentRow
from storage.timing import SLOW_S, Stopwatch, Times

CallOutcome: TypeAlias = Literal["answered", "charged", "failed"]
"""Outcome of a request. `charged`: no usable answer, but it counts as a call; `failed`: no answer, and no cost."""

_NS: Final = 10**9
_LEASE_S: Final = 600.0
"""Lease after which a request of an ended process counts as unanswered. A guess: ten usual time limits."""

_REFUSALS: Final = 3
"""Requests in a row that are larger than a budget, before that is reported: one may be unusually large. A guess."""

_DAYS_KEPT: Final = 4  # in memory; a clock that jumps back further reads the table again


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentToday:
    """Spending of one payer today. The `held` fields are reservations for requests under way."""

    kind: Kind
    tenant: str
    identity: str | None
    calls: int
    failed_calls: int  # requests without an answer and without cost; no budget counts them
    tokens: int
    usd: float
    unpriced_calls: int  # those of `calls` over connections without a price; `usd` lacks their cost
    held_calls: int
    held_tokens: int
    held_usd: float


@dataclass(slots=True, kw_only=True)
class TooSmallBudget:
    """A budget that was too small for single requests since it last accepted one."""

    payer: Payer
    tenant: str  # of the account that was refused
    message: str  # of the latest refusal
    since_ns: int
    last_ns: int
    refusals: int = 0
    rules: set[str] = field(default_factory=set)  # whose requests were refused


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUsage:
    """Usage of judges since the start: outcomes, tokens, USD of models with a price, and latency."""

    outcomes: Mapping[str, int]  # by `CallOutcome`
    tokens: int
    usd: float
    unpriced_calls: int
    answers: Times


class Budgets:
    """All budgets of a server. Thread-safe, also between event loops."""

    def __init__(self, spending: JudgeCallStore, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Set up the budgets; no other object may reserve calls in the same store."""
        self._spending = spending
        self._clock = clock
        self._lock = threading.Lock()
        self._last_call = spending.last_call()
        self._orphans = _orphans(spending.unsettled(self._last_call), clock())
        self._under_way = 0
        self._days: dict[date, dict[Key, AccountBalance]] = {}
        self._waiting: list[Future[None]] = []
        self._too_small: dict[Key, TooSmallBudget] = {}
        self._total = CostSum()
        self._outcomes: Counter[str] = Counter(dict.fromkeys(get_args(CallOutcome), 0))
        self._answers = Stopwatch(SLOW_S)

    @property
    def taken(self) -> JudgeUsage:
        """Return the usage of judges since the start."""
        with self._lock:
            return JudgeUsage(
                outcomes=dict(self._outcomes),
                tokens=self._total.tokens,
                usd=self._total.nano_usd / NANO,
                unpriced_calls=self._total.unpriced_calls,
                answers=self._answers.times,
            )

    def request_budget(
        self, account: Callable[[], Account], paid: Callable[[RequestUsage], None] | None = None
    ) -> "AccountBudget":
        """Return the budget of the requests made on behalf of `account`; `paid` is called with the usage of each.

        `account` is called before each request, so that lowered budgets act on the next one. It raises
        `EvaluationError` if no request may be made any more. The payers do not change.
        """
        return AccountBudget(self, account, paid)

    def today(self) -> list[SpentToday]:
        """Return today's spending by payer."""
        with self._lock:
            now = self._clock()
            self._give_back(now)
            balances = self._balances(now.date())
            return [
                _spent_today(key, balance) for key, balance in sorted(balances.items(), key=lambda item: str(item[0]))
            ]

    def today_for(self, tenant: str) -> list[SpentToday]:
        """Return today's spending for the spans of one tenant, by connection; requests under way count as reserved."""
        balances: dict[Key, AccountBalance] = defaultdict(AccountBalance)
        for row in self._spending.on_day(self._clock().date()):
            if row.tenant == tenant:
                balance = balances["connection", "", row.connection_id]
                balance.spent.add(_spent_sum(row))
                balance.held.add(CostSum(row.held_calls, row.held_tokens, row.held_nano_usd))
        return [_spent_today(key, balance) for key, balance in balances.items()]

    def hold(self, account: Account, most: Estimate) -> "HeldBudget | Future[None]":
        """Reserve an estimate; if too much is reserved already, return the future to wait for.

        Raises:
            OverBudget: too little is left, however the requests under way end.
            HeldBack: there will be enough, once reservations of an ended process expire.
        """
        tokens = most.input_tokens + most.output_tokens
        estimate = CostSum(1, tokens, nano_usd_of(account.price, most.input_tokens, most.output_tokens))
        with self._lock:
            now = self._clock()
            self._give_back(now)
            balances = self._balances(now.date())
            shortages = [shortage_of(payer, balances[payer.key], estimate) for payer in account.payers]
            self._note_too_small(account, shortages)
            for shortage in shortages:
                if shortage is not None and shortage.is_final:
                    raise OverBudget(shortage.message)
            if any(shortages):
                if not self._under_way and self._orphans:
                    raise _held_back(next(filter(None, shortages)), self._orphans[0].until, now)
                freed: Future[None] = Future()
                self._waiting.append(freed)
                return freed
            for payer in account.payers:
                balances[payer.key].held.add(estimate)
            self._under_way += 1
            self._last_call += 1
            number = self._last_call
        return HeldBudget(number=number, started=now, reserved=estimate, account=account)

    @property
    def too_small(self) -> list[TooSmallBudget]:
        """Return budgets that refused several requests, each larger than the whole budget, and accepted none since."""
        with self._lock:
            return [each for each in self._too_small.values() if each.refusals >= _REFUSALS]

    def _note_too_small(self, account: Account, shortages: Sequence[Shortage | None]) -> None:
        for payer, shortage in zip(account.payers, shortages, strict=True):
            if shortage is None:
                self._too_small.pop(payer.key, None)
            elif shortage.is_too_small:
                now_ns = time.time_ns()
                known = self._too_small.get(payer.key)
                if known is None or known.payer != payer:
                    known = self._too_small[payer.key] = TooSmallBudget(
                        payer=payer, tenant=account.tenant, message="", since_ns=now_ns, last_ns=now_ns
                    )
                known.message, known.last_ns = shortage.message, now_ns
                known.refusals += 1
                if account.rule_id is not None:
                    known.rules.add(account.rule_id)

    def still_holds(self, held: "HeldBudget", account: Account) -> bool:
        """Return True while a reservation is within the current budgets.

        Raises:
            OverBudget: the budgets are too small for it, however the other requests under way end.
        """
        with self._lock:
            balances = self._balances(held.started.date())
            nothing = CostSum()
            if not any(shortage_of(payer, balances[payer.key], nothing) for payer in account.payers):
                return True
            for payer in account.payers:
                alone = AccountBalance(spent=balances[payer.key].spent)
                shortage = shortage_of(payer, alone, held.reserved)
                if shortage is not None:
                    raise OverBudget(shortage.message)
            return False

    def record(self, held: "HeldBudget") -> "Future[None]":
        """Store a reservation; the future is done once the record survives a crash."""
        account = held.account
        return self._spending.reserve(
            ReservedCall(
                call_id=held.number,
                day=held.started.date(),
                tenant=account.tenant,
                project=account.project,
                rule_id=account.rule_id,
                connection_id=account.connection_id,
                job_id=account.job_id,
                reserved_tokens=held.reserved.tokens,
                reserved_usd=held.reserved.nano_usd / NANO,
                started_at=held.started.replace(tzinfo=None),
            )
        )

    def settle(self, held: "HeldBudget", spent: RequestUsage) -> None:
        """Replace a reservation by the usage of its request, on the day of the reservation."""
        account, took = held.account, _took(held, spent)
        with self._lock:
            balances = self._balances(held.started.date())
            for payer in account.payers:
                balance = balances[payer.key]
                balance.held.add(held.reserved, -1)
                balance.spent.add(took)
            self._under_way -= 1
            woken, self._waiting = self._waiting, []
            ended = self._clock()
            self._total.add(took)
            if spent.is_sent:
                self._outcomes[_class_of(spent, took)] += 1
        if spent.started_ns is not None:
            self._answers.add(max(time.time_ns() - spent.started_ns, 0) / _NS)
        self._spending.settle(
            SettledCall(
                call_id=held.number,
                input_tokens=spent.input_tokens,
                output_tokens=spent.output_tokens,
                tokens=took.tokens,
                usd=None if account.price is None else took.nano_usd / NANO,
                outcome=spent.outcome,
                ended_at=ended.replace(tzinfo=None),
            )
        )
        for freed in woken:
            if freed.set_running_or_notify_cancel():
                freed.set_result(None)

    def _balances(self, day: date) -> dict[Key, AccountBalance]:
        balances = self._days.get(day)
        if balances is None:
            balances = self._days[day] = self._read(day)
            for old in sorted(self._days)[:-_DAYS_KEPT]:
                if old != day and not any(balance.held.calls for balance in self._days[old].values()):
                    del self._days[old]
        return balances

    def _read(self, day: date) -> dict[Key, AccountBalance]:
        balances: dict[Key, AccountBalance] = defaultdict(AccountBalance)
        for row in self._spending.on_day(day):
            spent = _spent_sum(row)
            for key in _keys(row):
                balances[key].spent.add(spent)
        for orphan in self._orphans:
            if orphan.call.day == day:
                for key in _keys(orphan.call):
                    balances[key].held.add(orphan.reserved)
        return balances

    def _give_back(self, now: datetime) -> None:
        """Release the reservations that have expired."""
        while self._orphans and self._orphans[0].until <= now:
            orphan = self._orphans.popleft()
            for key in _keys(orphan.call) if orphan.call.day in self._days else ():
                balance = self._days[orphan.call.day][key]
                balance.held.add(orphan.reserved, -1)
                balance.spent.add(CostSum(failed_calls=1))
            self._spending.settle(
                SettledCall(
                    call_id=orphan.call.call_id,
                    input_tokens=None,
                    output_tokens=None,
                    tokens=0,
                    usd=0.0,
                    outcome="lost",
                    ended_at=now.replace(tzinfo=None),
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBudget:
    """Reservation for one request."""

    number: int
    started: datetime
    reserved: CostSum
    account: Account


class AccountBudget:
    """Implementation of `evaluators.chat.request_budget.RequestBudget` for one account."""

    def __init__(
        self, budgets: Budgets, account: Callable[[], Account], paid: Callable[[RequestUsage], None] | None
    ) -> None:
        self._budgets = budgets
        self._account = account
        self._paid = paid

    async def reserve(self, most: Estimate) -> "BudgetReservation":
        """Reserve an estimate, wait for requests under way if they may make room, and record the call.

        Raises:
            OverBudget: the budget has less left than the estimate.
            HeldBack: reservations of an ended process hold too much of the budget; they expire.
            Stopped: no request may be made any more.
            ModelCallFailed: the call could not be recorded.
        """
        while isinstance(held := self._budgets.hold(self._account(), most), Future):
            await asyncio.wrap_future(held)
        reservation = BudgetReservation(self._budgets, held, self._account, self._paid)
        try:
            await asyncio.wrap_future(self._budgets.record(held))
        except BaseException as error:  # raised again: nothing stays reserved, also if the task is cancelled
            reservation.settle(UNSENT)
            if isinstance(error, Exception):
                raise ModelCallFailed("unavailable", f"the call could not be put on record: {error}", 5) from error
            raise
        return reservation


class BudgetReservation:
    """Implementation of `evaluators.chat.request_budget.Reservation`."""

    def __init__(
        self,
        budgets: Budgets,
        held: HeldBudget,
        account: Callable[[], Account],
        paid: Callable[[RequestUsage], None] | None,
    ) -> None:
        self._budgets = budgets
        self._held = held
        self._account = account
        self._paid = paid

    def still_holds(self) -> bool:
        """Return True if the request may be sent now.

        Raises:
            OverBudget: a budget was lowered since, and too little is left.
            Stopped: no request may be made any more.
        """
        return self._budgets.still_holds(self._held, self._account())

    def settle(self, spent: RequestUsage) -> None:
        """Settle the reservation by the usage of the request."""
        self._budgets.settle(self._held, spent)
        if self._paid is not None and spent.is_sent:
            self._paid(spent)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Orphan:
    """A request of a process that has ended, and how long it still counts as running."""

    call: ReservedCall
    reserved: CostSum
    until: datetime


def _orphans(calls: Iterable[ReservedCall], now: datetime) -> deque[_Orphan]:
    """Return reservations of earlier processes, the first to expire first. A clock set back does not extend a lease."""

    def orphan(call: ReservedCall) -> _Orphan:
        reserved = CostSum(1, call.reserved_tokens, round(call.reserved_usd * NANO))
        began = min(call.started_at.replace(tzinfo=UTC), now)
        return _Orphan(call=call, reserved=reserved, until=began + timedelta(seconds=_LEASE_S))

    return deque(sorted(map(orphan, calls), key=lambda each: each.until))


def _keys(call: ReservedCall | SpentRow) -> Sequence[Key]:
    of_connection: Key = ("connection", "", call.connection_id)
    if call.rule_id is None:
        return (of_connection,)
    return (of_connection, ("rule", "", call.rule_id), ("project", call.tenant, call.project))


def _held_back(shortage: Shortage, until: datetime, now: datetime) -> HeldBack:
    message = f"{shortage.message}; requests of a process that ended reserve a part of it until {until:%H:%M:%S} UTC"
    return HeldBack(message, (until - now).total_seconds())


def _took(held: HeldBudget, spent: RequestUsage) -> CostSum:
    """Return what a request costs: the usage that the endpoint reported, else the reservation; 0 if it was not sent.

    An unanswered request without tokens does not count as a call.
    """
    if not spent.is_sent:
        return CostSum()
    if spent.input_tokens is None or spent.output_tokens is None:
        return replace(held.reserved, unpriced_calls=int(held.account.price is None))
    tokens = spent.input_tokens + spent.output_tokens
    calls = int(spent.outcome == "answered" or tokens > 0)
    nano_usd = nano_usd_of(held.account.price, spent.input_tokens, spent.output_tokens)
    unpriced = calls if held.account.price is None else 0
    return CostSum(calls, tokens, nano_usd, failed_calls=1 - calls, unpriced_calls=unpriced)


def _class_of(spent: RequestUsage, took: CostSum) -> CallOutcome:
    if not took.calls:
        return "failed"
    return "answered" if spent.outcome == "answered" else "charged"


def _spent_sum(row: SpentRow) -> CostSum:
    return CostSum(row.calls, row.tokens, row.nano_usd, row.failed_calls, row.unpriced_calls)


def _spent_today(key: Key, balance: AccountBalance) -> SpentToday:
    kind, tenant, identity = key
    return SpentToday(
        kind=kind,
        tenant=tenant,
        identity=identity,
        calls=balance.spent.calls,
        failed_calls=balance.spent.failed_calls,
        tokens=balance.spent.tokens,
        usd=balance.spent.nano_usd / NANO,
        unpriced_calls=balance.spent.unpriced_calls,
        held_calls=balance.held.calls,
        held_tokens=balance.held.tokens,
        held_usd=balance.held.nano_usd / NANO,
    )
