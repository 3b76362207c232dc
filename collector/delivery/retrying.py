"""What follows from an attempt: done, later, or never."""

import random
from dataclasses import dataclass
from http import HTTPStatus

from storage.alerting.outbox import DeliveryState

_DELAYS_S = (10, 30, 2 * 60, 10 * 60, 30 * 60, 3_600, 2 * 3_600, 4 * 3_600, 6 * 3_600, 10 * 3_600)
"""Between attempts, 23.7 h in all. A guess: a restart is over with the first three, a night's outage with the last."""
_SPREAD = 0.2
"""Delays differ by so much, so that not everything that failed together comes back together. A guess."""
_LONGEST_ASKED_S = 24 * 3_600
"""A receiver that asks for more patience than a day is asked again after a day."""
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})

MOST_ATTEMPTS = len(_DELAYS_S) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResponse:
    """What came of sending. `status` is None where no answer came."""

    status: int | None = None
    error: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDecision:
    """What is to be done next. `disable` is why the receiver is to be left alone from now on."""

    state: DeliveryState
    delay_s: float = 0
    error: str | None = None
    disable: str | None = None


def judge(answer: DeliveryResponse, *, attempts: int, source: random.Random) -> RetryDecision:
    """What follows from the answer to attempt number `attempts`."""
    status = answer.status
    if status is not None and HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return RetryDecision(state="delivered")
    error = answer.error or f"answered {status}"
    if status == HTTPStatus.GONE:
        return RetryDecision(state="failed", error=error, disable="it answered 410 Gone")
    if status is not None and _is_final(status):
        return RetryDecision(state="failed", error=error)
    if attempts >= MOST_ATTEMPTS:
        return RetryDecision(state="failed", error=f"{error}; given up after {attempts} attempts")
    delay_s = _DELAYS_S[attempts - 1] * source.uniform(1 - _SPREAD, 1 + _SPREAD)
    asked_s = min(answer.retry_after_s or 0, _LONGEST_ASKED_S)
    return RetryDecision(state="pending", delay_s=max(delay_s, asked_s), error=error)


def _is_final(status: int) -> bool:
    """Whether the same would be answered again. A redirect is not followed, but whoever sent it may mend it."""
    return HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _LATER
