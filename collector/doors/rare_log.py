"""Warnings that clients cause, at most one a minute."""

import logging
import time
from typing import Final

_EVERY_S: Final = 60.0


class RareLog:
    """Logs one warning a minute, with the number of those before it that were not. Not safe for several threads."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._left_out = 0
        self._logged_s = -_EVERY_S

    def warn(self, problem: str) -> None:
        """Log a problem, or count it."""
        now_s = time.monotonic()
        if now_s - self._logged_s < _EVERY_S:
            self._left_out += 1
            return
        self._log.warning("%s (%d such warnings left out before this one)", problem, self._left_out)
        self._left_out, self._logged_s = 0, now_s
