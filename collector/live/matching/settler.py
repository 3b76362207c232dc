"""Settled traces, and the decisions of rules about them over all their spans."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from collector.live.matching.rule_queries import RuleQueries
from rules.settling import Settling
from storage.engine.rule_matcher_db import JOBS, TRACE_DECISIONS, RuleMatcherDb, RuleQuery
from storage.judging.matching import Matching
from storage.judging.open_traces import Settled, Settlement, SettleWaits, opened_sessions
from storage.judging.span_window import SpanSelection, WindowLimits

_LIMITS: Final = WindowLimits(rows=8192, nbytes=32 << 20)
_TRACES: Final = 2_000
"""Traces decided about at once. With ten spans each, some two windows: a guess."""

_REST: Final = 4
"""Pause after a check of the open traces, as a multiple of its duration."""
_LEAST_REST_S: Final = 0.25
_LONGEST_REST_US: Final = 60_000_000
"""Longest pause between checks of open traces: a guess at the tolerable delay of a missed one."""


class Settler:
    """Settling of traces without recent spans. For the matcher's thread."""

    def __init__(
        self, matching: Matching, matcher_db: RuleMatcherDb, settling: Settling, clock: Callable[[], int]
    ) -> None:
        self._matching = matching
        self._matcher_db = matcher_db
        self._waits = SettleWaits(
            after_root_us=_us(settling.after_root_s), quiet_us=_us(settling.quiet_s), longest_us=_us(settling.longest_s)
        )
        self._least_wait_us = min(self._waits.after_root_us, self._waits.quiet_us, self._waits.longest_us)
        self._clock = clock
        self._has_begun = False
        self._looked_us = 0
        self._next_look_s = 0.0
        self._due_us = 0  # when the first of the open traces may settle
        self._writes = 0  # count of writes to open traces that `_due_us` covers

    def begin(self) -> None:
        """Cap arrival times at now, once: the clock of the last process may have been ahead. Call again if it fails."""
        if not self._has_begun:
            self._matching.open_traces.turn_back(self._clock() // 1000)
            self._has_begun = True

    def settle(self, questions: RuleQueries, *, at_once: bool) -> int | None:
        """Decide about some settled traces; return the number of new jobs, None if no trace has settled."""
        began_s = time.monotonic()
        if not at_once and began_s < self._next_look_s:
            return None
        now_us = self._clock() // 1000
        if not self._is_due(now_us) and not at_once:
            return None
        look = self._matching.open_traces.due(self._waits, now_us=now_us, looked_us=self._looked_us, most=_TRACES)
        due = look.traces
        jobs, is_whole = None, True
        if due.num_rows:
            settled = self._matching.open_traces.settled(due, until=self._matching.state().seq)
            if questions.totals:
                settled, is_whole = self._matching.open_traces.added_up(settled)
            if settled.traces.num_rows:
                settlement = self.decide(settled, questions, questions.traces, now_us)
                opened = opened_sessions(settled.traces, questions.tenants_of_sessions)
                self._matching.open_traces.store(replace(settlement, opened=opened))
                jobs = int(settlement.jobs.num_rows)
        if is_whole and due.num_rows < _TRACES:
            self._due_us = now_us + _LONGEST_REST_US if look.next_us is None else look.next_us
            self._due_us = min(self._due_us, now_us + _LONGEST_REST_US)
        if not is_whole:  # traces without sums are read again later
            self._next_look_s = began_s + max(_REST * (time.monotonic() - began_s), _LEAST_REST_S)
        elif due.num_rows < _TRACES:
            self._looked_us = now_us
            self._next_look_s = began_s + max(_REST * (time.monotonic() - began_s), _LEAST_REST_S)
        elif not due["has_settled"][-1].as_py():
            self._looked_us = due["settles_with_root_us"][-1].as_py()
        return jobs

    def _is_due(self, now_us: int) -> bool:
        """Return True if a trace may have settled; a new one takes the shortest of the waits at least."""
        writes = self._matching.open_traces.writes()
        if writes != self._writes:
            self._writes = writes
            self._due_us = min(self._due_us, now_us + self._least_wait_us)
        return now_us >= self._due_us

    def decide(
        self, settled: Settled, questions: RuleQueries, rule_questions: Sequence[RuleQuery], now_us: int
    ) -> Settlement:
        """Decide rules for settled traces or sessions, whose spans are read in parts.

        If rules need sums of traces, `settled` must be a result of `added_up`.
        """
        decisions, jobs = TRACE_DECISIONS.empty_table(), JOBS.empty_table()
        if rule_questions and settled.spans.num_rows:
            selection = SpanSelection(columns=questions.columns, limits=_LIMITS)
            parts = self._matching.open_traces.parts(settled.spans, selection)
            if questions.totals:
                totals = settled.traces.select(["trace", *questions.totals.values()])
                totals = totals.rename_columns(["trace", *questions.totals])
                parts = (part.join(totals, "trace") for part in parts)
            matches = [self._matcher_db.find(part, rule_questions, questions.releases) for part in parts]
            decisions = self._matcher_db.decide_traces(settled.traces, matches, rule_questions)
            jobs = self._matcher_db.jobs_of_traces(settled.traces, decisions, matches, questions.releases)
        return Settlement(
            settled=settled,
            decisions=decisions,
            jobs=jobs,
            revisions=tuple(question.revision for question in rule_questions),
            once=tuple(question.revision for question in rule_questions if question.judges_once),
            now_us=now_us,
        )


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)
