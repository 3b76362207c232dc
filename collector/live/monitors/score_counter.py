"""Counting of scores that people and applications gave as results of rules that name them."""

import time
from collections.abc import Callable, Iterable
from typing import Final

from collector.live.active import ActiveRule
from storage.alerting.counted_scores import CountedScores, WantedScore

_SHARE: Final = 20
"""Pause after a check, as a multiple of its duration, unless an annotation was added: a guess."""

_PAUSE_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 60.0
"""Longest pause between two checks, without a write that may contain scores: a guess."""


class ScoreCounter:
    """Counter of new scores that count as results. For one thread."""

    def __init__(
        self,
        scores: CountedScores,
        active: Callable[[], Iterable[ActiveRule]],
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Set up the counter. `active` returns the active rules."""
        self._scores = scores
        self._active = active
        self._clock = clock
        self._seen = (-1, False)  # of the last check: the last score, and if rules count scores
        self._writes = -1
        self._next_s = self._longest_s = 0.0

    def count(self) -> int:
        """Count new scores and return their number. May skip the check if no annotation was added.

        Raises:
            Overloaded: some may have been counted; it may be tried again.
        """
        names = list(wanted_scores(self._active()))
        writes = self._scores.writes(is_counting=bool(names))  # before anything is read
        seen, began_s = (self._scores.last(), bool(names)), time.monotonic()
        is_due = began_s >= (self._next_s if writes != self._writes else self._longest_s)
        if seen == self._seen and not is_due:
            return 0
        counted = self._scores.count(names, self._clock() // 1000)
        ended_s = time.monotonic()
        self._seen, self._writes = seen, writes
        self._next_s = ended_s + max(_PAUSE_S, _SHARE * (ended_s - began_s))
        self._longest_s = ended_s + max(_LONGEST_PAUSE_S, _SHARE * (ended_s - began_s))
        return counted


def wanted_scores(rules: Iterable[ActiveRule]) -> Iterable[WantedScore]:
    """Yield the questions whose answers count as results of a rule."""
    for active in rules:
        for name in active.rule.monitoring.scores:
            yield WantedScore(
                tenant=active.tenant,
                rule_id=active.rule_id,
                revision=active.revision,
                name=name,
                of_traces=active.rule.target == "TRACE",
                compare_by=active.rule.compare_by,
            )
