"""The clock of the machine, compared with monotonic time."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

Clock: TypeAlias = Callable[[], int]  # nanoseconds

_UPTIME: Final = Path("/proc/uptime")


def uptime_ns() -> int:
    """Return the time since the machine started, sleep included; setting the clock does not change it."""
    # Not CLOCK_BOOTTIME: libfaketime, which gives a process a false clock, changes that clock too.
    try:
        return int(float(_UPTIME.read_text("ascii").split()[0]) * 1e9)
    except (OSError, ValueError, IndexError):  # elsewhere than on Linux
        return time.monotonic_ns()


def steady_clock() -> Clock:
    """Return a clock that starts at the machine's time and is not affected if the machine's clock is set later."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    return lambda: time.monotonic_ns() + offset_ns


def in_seconds(clock: Clock) -> Callable[[], float]:
    """Return the same clock in seconds."""
    return lambda: clock() / 1e9


class ClockShift:
    """Distance by which the clock of the machine was set since this object was made."""

    def __init__(self, wall_ns: Clock = time.time_ns, steady_ns: Clock = uptime_ns) -> None:
        self._wall_ns, self._steady_ns = wall_ns, steady_ns
        self._began_ns = wall_ns() - steady_ns()

    @property
    def forward_ns(self) -> int:
        """Return by how many nanoseconds the clock was set forward; negative if it was set back."""
        return self.now_ns - self._steady_ns() - self._began_ns

    @property
    def now_ns(self) -> int:
        """Return the time of the machine's clock."""
        return self._wall_ns()
