"""Waits and retries of workers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from storage.backoff import backoff_s

Clock: TypeAlias = Callable[[], float]
"""Seconds since the Unix epoch, by a clock that does not jump."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Timing and retries of workers. Values without a named measurement are guesses."""

    attempts: int = 8  # of a job, before it has failed
    more_after_rubbish: int = 2  # attempts, after a judge's reply could not be used, or a program was late
    first_wait_s: float = 1.0  # before the second attempt; doubled for each further one; jitter takes off up to half
    longest_wait_s: float = 300.0
    longest_requested_s: float = 3600.0  # longest pause that an endpoint may request
    lease_s: float = 60.0  # renewed when a third of it is over
    look_s: float = 1.0  # between checks of the ledger, without a notification
    job_s: float = 900.0  # after which the evaluation of one job is abandoned, whatever it waits for
    check_cpu_s: float = 5.0  # of one check, which usually takes some hundred microseconds
    child_s: float = 300.0  # longest silence of a child process; on a busy machine it gets a hundredth of a processor
    outage_s: float = 86_400.0  # of a connection, for which failed attempts do not count
    retries_over_budget: bool = False  # on a new day, of evaluations that were left out in the week before it
    stop_s: float = 10.0  # to store the remaining results at the end

    def wait_s(self, attempts: int, requested_s: float | None = None) -> float:
        """Return the wait after this many failed attempts, with jitter, or the requested one if that is longer."""
        waits_s = backoff_s(attempts, first_s=self.first_wait_s, longest_s=self.longest_wait_s)
        return max(waits_s, min(requested_s or 0.0, self.longest_requested_s))


MICROSECONDS: Final = 1_000_000


_DAY_S: Final = 86_400
_NEW_DAY_S: Final = 60.0
"""Delay after midnight (UTC): budgets use the wall clock, which may be a little behind `Clock`. A guess."""


def day_that_began(at_s: float) -> int:
    """Return the number of the last day that has surely begun, for budgets too."""
    return int((at_s - _NEW_DAY_S) // _DAY_S)


def start_of(day: int) -> int:
    """Return the start of a day, in microseconds."""
    return day * _DAY_S * MICROSECONDS


def microseconds(at_s: float) -> int:
    """Convert an instant of this clock to microseconds since the Unix epoch, as the store has it."""
    return int(at_s * MICROSECONDS)
