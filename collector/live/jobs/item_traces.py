"""Traces of the items of runs, read if an evaluator requires values that an item lacks."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from collector.conventions.own_keys import OwnKeys
from collector.conventions.trace import read_trace
from collector.evaluation.item_case import spans_below, with_trace
from collector.evaluation.trace_case import case_of_trace
from collector.live.jobs.work.target import ExaminedPart
from rules.settling import Arrivals, Settling, settles_at_ns
from storage.judging.judgements import Judgements
from storage.offline.run_evaluations import Unscored
from storage.offline.runs import Run
from storage.query.queries import Queries

_NS: Final = 1_000_000_000
_LOOK_NS: Final = 2 * _NS
"""Interval between look-ups of a trace that has not arrived. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceAwaited:
    """Signal that spans of an item's trace may still arrive."""

    reason: str
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedItem:
    """An item completed from its trace; `absence` says why there is no trace."""

    item: Unscored
    absence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTraces:
    """Reader of the traces of items. Thread-safe."""

    queries: Queries
    judgements: Judgements
    own_keys: OwnKeys
    settling: Settling
    now_ns: Callable[[], int] = time.time_ns

    def complete(self, run: Run, item: Unscored) -> CompletedItem | TraceAwaited:
        """Return an item of an ended run with the parts of its trace that it lacks; `TraceAwaited` until that settles.

        The trace is one of the run's tenant, else a shared one, as everywhere. Its root need not have arrived: the run
        has ended, so that only spans on their way are waited for.
        """
        trace_id, now_ns = item.trace_id or "", self.now_ns()
        targets = (self.judgements.target(trace_id, None, tenant=tenant) for tenant in dict.fromkeys((run.tenant, "")))
        target = next((each for each in targets if each is not None), None)
        if target is None:
            ended_ns = now_ns if run.completed_at_ns is None else run.completed_at_ns
            left_ns = ended_ns + round(self.settling.missing_s * _NS) - now_ns
            if left_ns > 0:
                until = f"and is waited for until {self.settling.missing_s:g} s after the end of the run"
                return TraceAwaited(
                    reason=f"trace {trace_id} has not arrived, {until}", wait_s=min(_LOOK_NS, left_ns) / _NS
                )
            return _without(item)
        arrivals = Arrivals(root_ended=True, first_ns=target.first_arrival_ns, last_ns=target.last_arrival_ns)
        settles_ns = settles_at_ns(arrivals, self.settling)
        if now_ns < settles_ns:
            return TraceAwaited(reason=f"trace {trace_id} has not settled", wait_s=(settles_ns - now_ns) / _NS)
        trace = self.queries.trace(trace_id, tenant=target.tenant)
        if trace is None:  # it expired meanwhile
            return _without(item)
        spans = spans_below(trace.spans, item.span_id)
        ids = {span.span_id for span in spans}
        logs = [log for log in trace.logs if len(spans) == len(trace.spans) or log.span_id in ids]
        case = case_of_trace(read_trace(spans, logs, self.own_keys), spans)
        if len(trace.spans) < trace.summary.span_count:
            case = ExaminedPart(len(trace.spans), trace.summary.span_count).case(case)
        return CompletedItem(item=with_trace(item, case))


def _without(item: Unscored) -> CompletedItem:
    absence = f"trace {item.trace_id} of the item is not stored: it did not arrive, or has expired"
    return CompletedItem(item=replace(item, trace_id=None), absence=absence)
