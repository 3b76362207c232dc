"""Settling of sessions: once a session has no recent spans, rules decide about it, over all its spans."""

import time
from collections.abc import Callable
from typing import Final

from collector.live.matching.rule_queries import RuleQueries
from collector.live.matching.settler import Settler
from storage.judging.matching import Matching

_SESSIONS: Final = 500
"""Maximum number of sessions in one settlement. A guess: with 100 spans each, they fill some six windows of spans."""

_REST: Final = 4
"""Pause after a check of the open sessions, as a multiple of its duration."""
_LEAST_REST_S: Final = 0.25


class SessionSettler:
    """Settling of sessions without recent spans. For the matcher's thread."""

    def __init__(self, matching: Matching, settler: Settler, idle_s: float, clock: Callable[[], int]) -> None:
        self._matching = matching
        self._settler = settler
        self._idle_s = idle_s
        self._clock = clock
        self._has_begun = False
        self._longest_us: int | None = None  # longest wait of a rule at the last check
        self._next_look_s = 0.0

    def begin(self) -> None:
        """Cap arrival times at now, once: the clock of the last process may have been ahead. Call again if it fails."""
        if not self._has_begun:
            self._matching.open_sessions.turn_back(self._clock() // 1000)
            self._has_begun = True

    def settle(self, questions: RuleQueries, *, at_once: bool) -> int | None:
        """Decide about some settled sessions; return the number of new jobs, None if no session has settled."""
        began_s = time.monotonic()
        if not at_once and began_s < self._next_look_s:
            return None
        waits = self._waits(questions)
        longest_us = max(waits.values(), default=0)
        if longest_us != self._longest_us:
            self._matching.open_sessions.forget(longest_us)
            self._longest_us = longest_us
        for settle_us in sorted(set(waits.values())):
            jobs = self._settle(questions, waits, settle_us)
            if jobs is not None:
                return jobs
        self._next_look_s = began_s + max(_REST * (time.monotonic() - began_s), _LEAST_REST_S)
        return None

    def _settle(self, questions: RuleQueries, waits: dict[float | None, int], settle_us: int) -> int | None:
        """Decide about sessions that were idle for `settle_us`, by the rules with this idle time."""
        now_us = self._clock() // 1000
        rested = self._matching.open_sessions.rested(waits.values(), settle_us, now_us=now_us, most=_SESSIONS)
        if rested is None:
            return None
        waiting = [settle_s for settle_s, us in waits.items() if us == settle_us]
        rule_questions = [question for settle_s in waiting for question in questions.sessions[settle_s]]
        settlement = self._settler.decide(rested.settled, questions, rule_questions, now_us)
        self._matching.open_sessions.store(rested, settlement)
        return int(settlement.jobs.num_rows)

    def _waits(self, questions: RuleQueries) -> dict[float | None, int]:
        return {each: round((self._idle_s if each is None else each) * 1_000_000) for each in questions.sessions}
