"""Backfills: rules run over spans that were stored before them, in steps that the matcher makes when it is idle."""

import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from collector.live.active import ActiveRule
from collector.live.matching.rule_queries import RuleQueries, questions_of
from collector.live.matching.settler import Settler
from storage.engine.rule_matcher_db import JOBS, TRACE_DECISIONS, UNDECIDED, RuleMatcherDb
from storage.errors import Conflict, WriteConflict
from storage.judging.backfills import Backfill, BackfillStep
from storage.judging.baselines import BaselineRequest, BaselineTargets, ComparedStream
from storage.judging.matching import Matching
from storage.judging.open_traces import extent_of
from storage.judging.span_window import SpanSelection, WindowLimits
from storage.limit import Limit

log = logging.getLogger(__name__)

_LIMITS: Final = WindowLimits(rows=8192, nbytes=32 << 20)
_TRACE_ROWS: Final = 2048
"""Spans whose traces are decided about at once: with ten spans each, some two windows. A guess."""

_OF_SIDE: Final = 200
"""Results of a baseline for each side of a comparison. A guess: enough to show a drop from 80 % to 70 %."""

_MOST_OF_RULE: Final = 10
_MOST_OF_TENANT: Final = 100
"""Backfills under way of one rule, and of the rules of one tenant; a request for more is refused. Guesses."""


class _NotAddedUp(Exception):
    """Signal that sums of traces are missing for a rule; the step can be made a little later."""


class Backfills:
    """Backfills: start, list and cancel from any thread; the matcher's thread makes their steps.

    Each step advances one backfill. Tenants take turns, and within a tenant its rules; a rule's oldest comes first.
    """

    def __init__(
        self,
        matching: Matching,
        revision: Callable[[int], ActiveRule | None],
        matcher_db: RuleMatcherDb,
        settler: Settler,
        clock: Callable[[], int],
    ) -> None:
        self._matching = matching
        self._revision = revision
        self._matcher_db = matcher_db
        self._settler = settler
        self._clock = clock
        self._starting = threading.Lock()
        self._steps = 0
        self._turns: dict[tuple[str, str | None], int] = {}  # the last step of a rule, and of a tenant (rule None)
        self._wake = threading.Event()
        self._wake.set()  # the last process may have left some

    def start(self, active: ActiveRule, from_ns: int, to_ns: int, *, trace_ids: Sequence[str] | None = None) -> str:
        """Run a revision of a rule over the spans that start from `from_ns` to before `to_ns`; return its id.

        With `trace_ids`, over the spans of these traces only. A rule about traces or sessions runs over those that have
        such a span, once they have settled. Targets that the revision has decided about already are passed over.

        Raises:
            Conflict: too many of the rule, or of its tenant, are under way.
            Overloaded: the database cannot be written now.
        """
        chosen = None if trace_ids is None else list(trace_ids)
        with self._starting:
            return self._start(
                active, {"from_ns": from_ns, "to_ns": to_ns, "trace_ids": chosen, "occasion": "backfill"}
            )

    def _start(self, active: ActiveRule, what: Mapping[str, Any], again: Sequence[int] = ()) -> str:
        self._require_room(active)
        backfill_id = secrets.token_hex(8)
        common = {"backfill_id": backfill_id, "revision": active.revision, "now_us": self._clock() // 1000}
        self._matching.backfills.add({**what, **common}, again)
        self._wake.set()
        self._matching.wake()
        return backfill_id

    def _require_room(self, active: ActiveRule) -> None:
        others = [other for _, other in self._running() if other is not None]
        of_rule = sum(other.rule_id == active.rule_id for other in others)
        if of_rule >= _MOST_OF_RULE:
            most, whose = _MOST_OF_RULE, f"the rule {active.rule.name!r}"
        elif active.tenant and sum(other.tenant == active.tenant for other in others) >= _MOST_OF_TENANT:
            most, whose = _MOST_OF_TENANT, "this tenant"
        else:
            return
        limit = Limit(value=most, unit="backfills under way", remedy="wait until one is done, or cancel one")
        raise Conflict(f"{whose} may have no more than {limit}")

    def start_baseline(self, active: ActiveRule, streams: Sequence[ComparedStream]) -> str:
        """Judge the releases that monitors compare, unless this revision did; return the id of the backfill.

        Results that the revision has, also from other backfills, count in the comparison from then on. If a baseline
        backfill of the revision runs, its id is returned, and none is started.

        Raises:
            Conflict: nothing that is stored of these releases is left to judge, or too many are under way.
            Overloaded: the database cannot be written now.
        """
        with self._starting:
            for each in self._matching.backfills.running():
                if each.occasion == "baseline" and each.revision == active.revision:
                    return each.backfill_id
            targets = self.targets_of_baseline(active, streams)
            what = {
                "from_ns": targets.from_ns,
                "to_ns": self._clock() if targets.of_sessions else targets.to_ns,
                "trace_ids": targets.trace_ids,
                "occasion": "baseline",
            }
            return self._start(active, what, targets.again)

    def targets_of_baseline(self, active: ActiveRule, streams: Sequence[ComparedStream]) -> BaselineTargets:
        """Return the targets that `start_baseline` would judge.

        Raises:
            Conflict: nothing that is stored of these releases is left to judge.
        """
        targets = self._matching.backfills.targets_of_baseline(
            BaselineRequest(
                rule_id=active.rule_id,
                revision=active.revision,
                of_side=max(_OF_SIDE, active.rule.monitoring.settings.minimum),
                streams=streams,
            )
        )
        if targets is None:
            raise Conflict(_nothing_left(active, streams))
        return targets

    def of_rule(self, rule_id: str) -> list[Backfill]:
        """Return the backfills of a rule's revisions, newest first."""
        return self._matching.backfills.of_rule(rule_id)

    def cancel(self, backfill_id: str) -> bool:
        """Stop a backfill; return False if none with that id is running. Its decisions so far stay.

        Raises:
            Overloaded: the database cannot be written now.
        """
        return self._matching.backfills.end(backfill_id, "cancelled", None, now_us=self._clock() // 1000)

    def step(self) -> int | None:
        """Make the next step; return how many jobs that makes, None if there is nothing to do, or nothing yet."""
        if not self._wake.is_set():
            return None
        self._wake.clear()
        chosen = self._choose()
        if chosen is None:
            return None
        running, active = chosen
        self._wake.set()
        if active is None or active.deleted:
            self._end(running, "cancelled", "the rule was deleted")
            return 0
        try:
            step = self._next(self._begun(running), active)
        except _NotAddedUp:
            return None
        if UNDECIDED in step.decisions["outcome"].unique().to_pylist():
            self._end(
                running, "failed", self._matcher_db.problems.get(running.revision, "the conditions of the rule failed")
            )
            return 0
        try:
            self._matching.backfills.store(replace(step, backfill=running))
        except WriteConflict as error:  # cancelled meanwhile, or stored by an attempt that seemed to fail
            log.info("%s", error)
            return 0
        return int(step.jobs.num_rows)

    def _running(self) -> list[tuple[Backfill, ActiveRule | None]]:
        return [(each, self._revision(each.revision)) for each in self._matching.backfills.running()]

    def _choose(self) -> tuple[Backfill, ActiveRule | None] | None:
        """Return the oldest backfill of the rule that waited longest, of the tenant that did; None if none runs."""
        running = self._running()
        keys = [_turn_of(active) for _, active in running]
        present = {*keys, *((tenant, None) for tenant, _ in keys)}
        self._turns = {key: step for key, step in self._turns.items() if key in present}
        if not running:
            return None
        last = [(self._turns.get((tenant, None), 0), self._turns.get((tenant, rule), 0)) for tenant, rule in keys]
        place = min(range(len(running)), key=last.__getitem__)
        self._steps += 1
        tenant, rule = keys[place]
        self._turns[tenant, None] = self._turns[tenant, rule] = self._steps
        return running[place]

    def _begun(self, backfill: Backfill) -> Backfill:
        until = backfill.until_seq
        return replace(backfill, until_seq=self._matching.state().seq if until < 0 else until)

    def _end(self, backfill: Backfill, state: str, error: str) -> None:
        log.warning("the backfill %s is %s: %s", backfill.backfill_id, state, error)
        self._matching.backfills.end(backfill.backfill_id, state, error, now_us=self._clock() // 1000)

    def _next(self, backfill: Backfill, active: ActiveRule) -> BackfillStep:
        questions = questions_of([active])
        look = self._spans if questions.spans else self._traces_or_sessions
        step = look(backfill, active, questions)
        if step is not None:
            return step
        return BackfillStep(
            backfill=backfill,
            after=backfill.until_seq,
            until=backfill.until_seq,
            decisions=TRACE_DECISIONS.empty_table(),
            jobs=JOBS.empty_table(),
            now_us=self._clock() // 1000,
            first=backfill.until_seq,
        )

    def _spans(self, backfill: Backfill, active: ActiveRule, questions: RuleQueries) -> BackfillStep | None:
        selection = SpanSelection(columns=questions.columns, limits=_LIMITS)
        window = self._matching.backfills.spans(backfill, active.judges, selection)
        if window is None:
            return None
        spans, last = window
        decisions = self._matcher_db.decide_spans(spans, questions.spans)
        return BackfillStep(
            backfill=backfill,
            after=last,
            until=backfill.until_seq,
            decisions=decisions,
            jobs=self._matcher_db.jobs_of_spans(spans, decisions, questions.releases),
            now_us=self._clock() // 1000,
            first=backfill.after_seq + 1,
        )

    def _traces_or_sessions(
        self, backfill: Backfill, active: ActiveRule, questions: RuleQueries
    ) -> BackfillStep | None:
        until, stored = self._matching.state().seq, self._matching.backfills
        look = stored.traces if questions.traces else stored.sessions
        window = look(backfill, active.judges, until=until, rows=_TRACE_ROWS)
        if window is None:
            return None
        settled, last = window
        if questions.totals:
            settled, is_whole = self._matching.open_traces.added_up(settled)
            if not is_whole:
                raise _NotAddedUp
        rule_questions = (*questions.traces, *questions.about_sessions)
        settlement = self._settler.decide(settled, questions, rule_questions, self._clock() // 1000)
        return BackfillStep(
            backfill=backfill,
            after=last,
            until=backfill.until_seq,
            decisions=settlement.decisions,
            jobs=settlement.jobs,
            now_us=settlement.now_us,
            first=extent_of(settled.spans)[0],
        )


def _nothing_left(active: ActiveRule, streams: Sequence[ComparedStream]) -> str:
    name = f"the rule {active.rule.name!r}"
    if not any(each.before or each.current for each in streams):
        return f"{name} has no results of a release: its releases are the values of {active.rule.compare_by}"
    return f"{name} has judged, or is judging, all results that are stored of the releases that its monitors compare"


def _turn_of(active: ActiveRule | None) -> tuple[str, str]:
    return ("", "") if active is None else (active.tenant, active.rule_id)
