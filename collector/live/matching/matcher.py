"""The thread that follows the commits of spans and decides which targets are evaluated."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from collector.follower import CatchUpBarrier, FollowerThread, IngestPriority
from collector.live.active import ActiveRule
from collector.live.matching.backfill import Backfills
from collector.live.matching.rule_queries import SAMPLED, RuleQueries, questions_of
from collector.live.matching.session_settler import SessionSettler
from collector.live.matching.settler import Settler
from collector.self_tracing import FinishedWork, Watch, all_ours
from rules.settling import Settling
from storage.clock import steady_clock
from storage.engine.rule_matcher_db import RuleMatcherDb
from storage.judging.matching import Matching, MatchingStep
from storage.judging.span_window import SpanSelection, WindowLimits

log = logging.getLogger(__name__)

_ROWS, _FEWEST_ROWS, _NBYTES = 8192, 256, 32 << 20
_DECISIONS = 1 << 18
"""Decisions in one transaction: a window has fewer spans if there are more rules. 160,000 take the writer 20 ms."""

_PAUSE_S = 1.0
"""Pause after a step that could not be stored, and between moves of the cursor while there is no rule: a guess."""

_TICK_S = 0.5
"""Interval of checks for settled traces, since these settle with time and not with new spans: a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatcherEnvironment:
    """Environment of the matcher: the clock, whether ingest is behind, and the callback for finished work."""

    clock: Callable[[], int] = field(default_factory=steady_clock)
    ingest_is_behind: Callable[[], bool] = lambda: False
    watch: Watch | None = None  # called with each matched window, unless all its spans are our own


class Matcher:
    """Thread that matches committed spans in windows, each span exactly once."""

    def __init__(
        self,
        matching: Matching,
        rules: Callable[[], Sequence[ActiveRule]],
        settling: Settling,
        *,
        enqueued: Callable[[], None],
        revision: Callable[[int], ActiveRule | None] = lambda _: None,
        surroundings: MatcherEnvironment | None = None,
    ) -> None:
        self._matching = matching
        self._rules = rules
        self._enqueued = enqueued
        surroundings = surroundings or MatcherEnvironment()
        self._ingest_first, self._clock = IngestPriority(surroundings.ingest_is_behind), surroundings.clock
        self._watch = surroundings.watch
        self._matcher_db = RuleMatcherDb(SAMPLED)
        self._settler = Settler(matching, self._matcher_db, settling, self._clock)
        self._session_settler = SessionSettler(matching, self._settler, settling.session_s, self._clock)
        self.backfills = Backfills(matching, revision, self._matcher_db, self._settler, self._clock)
        self._compiled_rules: Sequence[ActiveRule] = ()
        self._questions: RuleQueries = questions_of(())
        self._caught_up = CatchUpBarrier()
        self._passed_s = 0.0  # when the cursor was moved last while there was no rule
        self._thread = FollowerThread(self._match_on, name="matcher", doing="matching", log=log, pause_s=_PAUSE_S)

    @property
    def problems(self) -> Mapping[int, str]:
        """Return the revisions whose conditions could not be evaluated, with the reasons."""
        return self._matcher_db.problems

    def start(self) -> None:
        """Start matching."""
        self._thread.start()

    def close(self) -> None:
        """Stop; spans that are not matched yet are matched after the next start."""
        self._thread.close(self._matching.wake)
        self._matcher_db.close()

    def wait_matched(self, timeout_s: float) -> bool:
        """Wait until all spans committed by now are matched; return False on timeout."""
        return self._caught_up.wait(timeout_s, self._matching.wake)

    def _match_on(self) -> None:
        self._settler.begin()
        self._session_settler.begin()
        while not self._thread.stopping.is_set():
            self._ingest_first.wait(self._thread.stopping)
            requested, at_once = self._caught_up.requested, self._caught_up.is_awaited
            if not (self._match_new(at_once=at_once) or self._settle(at_once=at_once)):
                self._ingest_first.caught_up()
                self._caught_up.tell(requested)
                if not self._fill_back():
                    self._matcher_db.rest()
                    self._matching.wait_for_spans(_TICK_S)

    def _settle(self, *, at_once: bool) -> bool:
        """Decide about traces that have settled, or sessions without recent spans; False if there are none."""
        jobs = self._settler.settle(self._ask(), at_once=at_once)
        if jobs is None:
            jobs = self._session_settler.settle(self._ask(), at_once=at_once)
        if jobs:
            self._enqueued()
        return jobs is not None

    def _fill_back(self) -> bool:
        jobs = self.backfills.step()
        if jobs:
            self._enqueued()
        return jobs is not None

    def _match_new(self, *, at_once: bool) -> bool:
        """Match the next window; False if there is none."""
        state = self._matching.state()  # from the table, since a step that failed may be stored
        if state.seq >= state.committed:
            return False
        questions = self._ask()
        if not questions.count:
            if at_once or time.monotonic() - self._passed_s > _PAUSE_S:
                self._matching.pass_over(state)
                self._passed_s = time.monotonic()
            return False
        rows = min(max(_DECISIONS // questions.count, _FEWEST_ROWS), _ROWS)
        selection = SpanSelection(columns=questions.columns, limits=WindowLimits(rows=rows, nbytes=_NBYTES))
        window = self._matching.window(after=state.seq, until=state.committed, selection=selection)
        if window is None:  # no span has these numbers
            self._matching.pass_over(state)
            return True
        began_ns = time.time_ns()
        spans, last = window
        decisions = self._matcher_db.decide_spans(spans, questions.spans)
        jobs = self._matcher_db.jobs_of_spans(spans, decisions, questions.releases)
        tenants = questions.tenants_of_traces
        step = MatchingStep(
            after=state.seq,
            until=last,
            decisions=decisions,
            jobs=jobs,
            arrivals=None if tenants == () else self._matcher_db.arrivals(spans, tenants),
            now_us=self._clock() // 1000,
        )
        self._matching.store(step)
        if jobs.num_rows:
            self._enqueued()
        if self._watch is not None:
            parameters = {name: expression.parameters for name, expression in questions.columns.items()}
            if not all_ours(spans, parameters):
                self._watch(_matched(step, spans.num_rows, questions.count, began_ns))
        return True

    def _ask(self) -> RuleQueries:
        rules = self._rules()
        if rules is not self._compiled_rules:
            self._compiled_rules, self._questions = rules, questions_of(rules)
        return self._questions


def _matched(step: MatchingStep, spans: int, rules: int, began_ns: int) -> FinishedWork:
    """Return a matched window as finished work, for the server's own traces."""
    attributes = {
        "tracejury.spans": spans,
        "tracejury.rules": rules,
        "tracejury.decisions": step.decisions.num_rows,
        "tracejury.jobs": step.jobs.num_rows,
    }
    return FinishedWork(name="match window", began_ns=began_ns, attributes=attributes)
