"""The clock of the machine, compared with time that only goes on."""

import time

from storage.clock import ClockShift, uptime_ns


class _Machine:
    """A clock that can be set, and the time since the machine started."""

    def __init__(self) -> None:
        self.wall_ns, self.steady_ns = 1_700_000_000 * 10**9, 5 * 10**9

    def shift(self) -> ClockShift:
        """Compare the two from now on."""
        return ClockShift(lambda: self.wall_ns, lambda: self.steady_ns)


def test_time_that_passes_is_no_shift_of_the_clock() -> None:
    """The clock has not shifted while both times go on alike."""
    machine = _Machine()
    shift = machine.shift()
    machine.wall_ns += 10**15
    machine.steady_ns += 10**15
    assert shift.forward_ns == 0


def test_a_clock_that_is_set_has_shifted_by_as_much() -> None:
    """A clock that is set forward has shifted by as much, and one that is set back by less than nothing."""
    machine = _Machine()
    shift = machine.shift()
    machine.wall_ns += 10**15 + 7
    machine.steady_ns += 7
    assert shift.forward_ns == 10**15
    machine.wall_ns -= 3 * 10**15
    assert shift.forward_ns == -2 * 10**15


def test_the_time_since_the_machine_started_only_goes_on() -> None:
    """Of two readings of the time since the machine started the second is not smaller, and neither is a time of day."""
    first, second = uptime_ns(), uptime_ns()
    assert 0 <= first <= second < time.time_ns()
