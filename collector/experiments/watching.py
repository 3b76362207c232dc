"""The thread that compares each ended run with its baseline, and sends an event if it is worse."""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from collector.experiments.comparing import Baseline, ComparedRuns, RunComparer, baseline_of
from collector.experiments.kept import LruCache
from collector.follower import FollowerThread
from collector.gating.gate import Policy
from storage.alerting.outbox import RUN_REGRESSION, WebhookEvent
from storage.errors import Conflict, Overloaded
from storage.offline.run_items import RunItems
from storage.offline.run_looks import RunLooks
from storage.offline.runs import Run, Runs

log = logging.getLogger(__name__)

_TICK_S: Final = 1.0  # a guess: soon enough for a waiting client, and a check is one query
_AT_ONCE: Final = 20
_LATEST_S: Final = 600
"""Runs that ended longer ago are compared only if a webhook needs it: after an outage many may be due. A guess."""


_POLICY: Final = Policy(fail_on_removed_evaluator=False)
"""The gate's defaults, but a missing evaluator of the baseline is a note: its evaluation may be requested later."""


class RunWatcher:
    """Thread that compares each run once it has ended, and again after a new evaluation; events are sent once.

    Comparisons are cached, so the page of a run that has just ended need not wait.
    """

    def __init__(
        self,
        runs: Runs,
        items: RunItems,
        looks: RunLooks,
        kept: "LruCache[ComparedRuns]",
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._runs = runs
        self._items = items
        self._looks = looks
        self._kept = kept
        self._clock = clock
        self._thread = FollowerThread(
            self._look_on,
            name="run-regressions",
            doing="comparing runs",
            log=log,
            pause_s=_TICK_S,
            waits_first=True,
        )

    def start(self) -> None:
        """Start with the runs that ended while the server was down."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._thread.close()

    def look_now(self) -> int:
        """Compare runs that have ended; return their number.

        Raises:
            Overloaded: only some runs were compared, or the progress was not stored.
        """
        due = self._looks.due(most=_AT_ONCE, now_ns=self._clock())
        for run_id in due:
            at_ns = self._clock()  # before anything is read: later changes are read next time
            self._looks.note(run_id, at_ns, self._event(run_id, at_ns))
        return len(due)

    def _event(self, run_id: str, at_ns: int) -> WebhookEvent | None:
        run = self._runs.find(None, run_id)
        if run is None:
            return None
        is_subscribed = self._looks.is_asked_for(run.tenant, run.project, RUN_REGRESSION)
        if not is_subscribed and at_ns - (run.completed_at_ns or 0) > _LATEST_S * 1_000_000_000:
            return None
        try:
            event = self._regression(run, at_ns)
        except Conflict as error:
            log.info("run %s is not compared with the previous run: %s", run_id, error)
        except Overloaded:
            raise  # other comparisons were running; the run stays due
        except Exception:  # noqa: BLE001 - one run that cannot be compared must not hold up the others
            log.exception("run %s could not be compared with the previous run", run_id)
        else:
            return event if is_subscribed else None
        return None

    def _regression(self, run: Run, at_ns: int) -> WebhookEvent | None:
        """Return the event if the run is significantly worse than its baseline, else None."""
        before = baseline_of(run, self._runs)
        if before is None:
            return None
        if run.status == "EVALUATING":
            run = replace(run, status="SUCCESS")  # evaluations are missing; compare the results so far
        comparer = RunComparer(self._items, self._kept)
        document = comparer.compare(comparer.pair(run, before.run, _POLICY.options)).decision(_POLICY).document
        if document["verdict"] != "regressed":
            return None
        log.info("the run %s of %r is worse than %s", run.run_id, run.experiment, before.run.run_id)
        return WebhookEvent(
            tenant=run.tenant,
            event_id=hashlib.sha256(f"{RUN_REGRESSION}/{run.run_id}".encode()).hexdigest()[:32],
            project=run.project,
            type=RUN_REGRESSION,
            alert_id=None,
            document={"run": _run_document(run, before, document)},
            at_ns=at_ns,
        )

    def _look_on(self) -> None:
        while self.look_now() and not self._thread.stopping.is_set():
            pass


def _run_document(run: Run, before: Baseline, document: Mapping[str, Any]) -> dict[str, Any]:
    names = ("baselinePassRate", "candidatePassRate", "passRateDelta", "verdict", "significant", "regressedCount")
    return {
        "tenant": run.tenant,
        "projectName": run.project,
        "experimentId": run.experiment_id,
        "experimentName": run.experiment,
        "runId": run.run_id,
        "runName": run.name,
        "baselineRunId": before.run.run_id,
        "baselineRunName": before.run.name,
        "gitBranch": run.git_branch,
        "gitSha": run.git_sha,
        **{name: document[name] for name in names},
        "improvedCount": document["improvedCount"],
        "regressedEvaluators": document["regressedEvaluators"],
        "failures": document["failures"],
        "warnings": [*document["warnings"], *before.warnings],
    }
