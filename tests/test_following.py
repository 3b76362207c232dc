"""Followers of stored spans, which let ingest go first for a while."""

import threading

from collector.follower import FAIR_AFTER_S, CatchUpBarrier, IngestPriority


class Behind:
    """An ingest that is behind for the first `times` checks."""

    def __init__(self, times: int) -> None:
        self.checks = 0
        self._times = times

    def __call__(self) -> bool:
        """Return whether it is behind."""
        self.checks += 1
        return self.checks <= self._times


def test_a_follower_waits_until_ingest_is_not_behind() -> None:
    """It looks again and again."""
    behind = Behind(3)
    IngestPriority(behind).wait(threading.Event())
    assert behind.checks == 4


def test_a_follower_that_is_to_stop_waits_no_longer() -> None:
    """Also while ingest is behind."""
    stopping, behind = threading.Event(), Behind(1_000)
    stopping.set()
    IngestPriority(behind).wait(stopping)
    assert behind.checks == 1


def test_a_follower_that_has_long_been_behind_has_its_share() -> None:
    """It does not even ask, until it has caught up once more."""
    behind = Behind(0)
    first = IngestPriority(behind)
    first._caught_up_s -= FAIR_AFTER_S + 1
    first.wait(threading.Event())
    assert behind.checks == 0
    first.caught_up()
    first.wait(threading.Event())
    assert behind.checks == 1


def test_a_follower_is_awaited_while_a_caller_waits() -> None:
    """A caller that gave up waits no longer, and the next one is awaited until it has its answer."""
    caught_up, seen = CatchUpBarrier(), list[bool]()
    assert not caught_up.wait(0.01, lambda: seen.append(caught_up.is_awaited))
    assert (seen, caught_up.is_awaited) == ([True], False)

    def answer() -> None:
        seen.append(caught_up.is_awaited)
        caught_up.tell(caught_up.requested)
        seen.append(caught_up.is_awaited)

    assert caught_up.wait(1, answer)
    assert seen == [True, True, False]
