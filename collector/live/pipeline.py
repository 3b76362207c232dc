"""Online evaluation: its components, started and stopped together."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from collector.connection_text import parse_project_budgets
from collector.live.jobs.item_traces import ItemTraces
from collector.live.jobs.run_evaluator import RunEvaluator, RunStore
from collector.live.jobs.trials import JudgesAtHand, Trials
from collector.live.jobs.work.retry_policy import RetryPolicy
from collector.live.jobs.workers import WorkerOptions, Workers
from collector.live.judges.budget_shares import BudgetShares
from collector.live.judges.connection_trial import ConnectionTrials
from collector.live.judges.failing_judges import FailingJudges, RuleProblems, Waiting
from collector.live.judges.judge_services import JudgeServices, OwnDoor
from collector.live.judges.playground import Playground
from collector.live.judges.unbound_budgets import unbound_budgets
from collector.live.matching.matcher import Matcher, MatcherEnvironment
from collector.live.monitors.metric_monitors import MetricMonitorThread
from collector.live.monitors.monitors import MonitorThread
from collector.live.monitors.score_counter import ScoreCounter
from collector.live.rules.active_rules import ActiveRules
from collector.live.upkeep.review_feeder import ReviewFeeder
from collector.self_tracing import Watch
from collector.settings import Settings
from storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Active rules, the matcher of committed spans, the workers that judge, and the monitors of results."""

    rules: ActiveRules
    judging: JudgeServices
    workers: Workers
    matcher: Matcher
    monitors: MonitorThread
    metric_monitors: MetricMonitorThread
    trials: Trials
    connection_trials: ConnectionTrials
    playground: Playground
    run_evaluator: RunEvaluator
    rule_problems: RuleProblems
    unbound_budgets: Callable[[], Mapping[str, str]]  # by payer: why its limit in USD has no effect
    _undo: ExitStack

    @classmethod
    def open(
        cls,
        store: Store,
        settings: Settings,
        *,
        own_door: OwnDoor,
        ingest_is_behind: Callable[[], bool],
        watch: Watch | None = None,
    ) -> Self:
        """Start online evaluation.

        Raises:
            Overloaded: the database cannot be written.
        """
        with ExitStack() as undo:
            judging = JudgeServices.open(store, settings, own_door)
            undo.callback(judging.close)
            rules = ActiveRules(store.rulebook, settings.rules, connections=lambda tenant: _names(judging, tenant))
            rules.start()
            undo.callback(rules.close)
            monitors = _monitors(store, rules, ingest_is_behind)
            undo.callback(monitors.close)
            metric_monitors = _metric_monitors(store, settings, rules, judging, ingest_is_behind)
            undo.callback(metric_monitors.close)
            undo.callback(_review_feeder(store, ingest_is_behind).close)
            workers = Workers(store.jobs, store.windows, rules.revision, judging.judges, _worker_options(settings))
            judging.connections.follow(workers.wake)
            judging.judges.health.follow(workers.resume)
            workers.start()
            undo.callback(workers.close)
            trials = Trials(store.windows, settings.own_keys, JudgesAtHand(of=judging.judges, run=workers.run))
            undo.callback(trials.close)
            run_evaluator = _run_evaluator(store, settings, judging, workers)
            run_evaluator.start()
            undo.callback(run_evaluator.close)
            matcher = Matcher(
                store.matching,
                rules.active,
                settings.settling,
                enqueued=workers.wake,
                revision=rules.revision,
                surroundings=MatcherEnvironment(ingest_is_behind=ingest_is_behind, watch=watch),
            )
            matcher.start()
            undo.callback(matcher.close)
            return cls(
                rules=rules,
                judging=judging,
                workers=workers,
                matcher=matcher,
                monitors=monitors,
                metric_monitors=metric_monitors,
                trials=trials,
                connection_trials=_connection_trials(judging, workers),
                playground=Playground(judging.connections, judging.judges, settings.own_keys.prices, workers.run),
                run_evaluator=run_evaluator,
                rule_problems=_rule_problems(store, judging, rules, run_evaluator),
                unbound_budgets=_unbound_budgets(settings, judging, rules),
                _undo=undo.pop_all(),
            )

    def cut_off(self) -> None:
        """Cancel requests that wait for judges, since the server is being stopped; safe to repeat."""
        self.run_evaluator.close()
        self.trials.close()
        self.workers.cut_off()
        self.judging.flush()  # while the listener that takes the spans is open

    def close(self) -> None:
        """Stop within seconds, in reverse; unfinished work goes on after the next start."""
        self._undo.close()


def _connection_trials(judging: JudgeServices, workers: Workers) -> ConnectionTrials:
    return ConnectionTrials(judging.connections, judging.budgets, judging.judges.health, workers.run)


def _monitors(store: Store, rules: ActiveRules, ingest_is_behind: Callable[[], bool]) -> MonitorThread:
    """Start the thread that watches results, and scores by others that rules count."""
    monitors = MonitorThread(
        store.monitors,
        rules.revision,
        ingest_is_behind=ingest_is_behind,
        count_scores=ScoreCounter(store.counted_scores, rules.active).count,
    )
    monitors.start()
    return monitors


def _metric_monitors(
    store: Store,
    settings: Settings,
    rules: ActiveRules,
    judging: JudgeServices,
    ingest_is_behind: Callable[[], bool],
) -> MetricMonitorThread:
    of_projects = parse_project_budgets(settings.project_budgets)
    shares = BudgetShares(judging.budgets, rules.kept, judging.connections, of_projects)
    monitors = MetricMonitorThread(
        store.metric_monitors, shares.share, ingest_is_behind=ingest_is_behind, clock=store.delays.now_ns
    )
    monitors.start()
    return monitors


def _run_evaluator(store: Store, settings: Settings, judging: JudgeServices, workers: Workers) -> RunEvaluator:
    of_runs = RunStore(runs=store.runs, items=store.run_items, evaluations=store.run_evaluations)
    traces = ItemTraces(
        queries=store.queries,
        judgements=store.judgements,
        own_keys=settings.own_keys,
        settling=settings.settling,
    )
    return RunEvaluator(of_runs, judging.judges, workers.run, traces, retention_days=settings.run_retention_days)


def _rule_problems(
    store: Store, judging: JudgeServices, rules: ActiveRules, run_evaluator: RunEvaluator
) -> RuleProblems:
    waiting = Waiting(of_rules=store.rule_record.waiting, of_runs=run_evaluator.waiting)
    failing = FailingJudges(judging.judges, judging.budgets, judging.connections, rules.kept, waiting)
    return RuleProblems(judges=judging.judges, rules=rules, failing=failing.find)


def _unbound_budgets(settings: Settings, judging: JudgeServices, rules: ActiveRules) -> Callable[[], dict[str, str]]:
    of_projects = parse_project_budgets(settings.project_budgets)
    return lambda: unbound_budgets(rules.active(), judging.judges, judging.connections, of_projects)


def _review_feeder(store: Store, ingest_is_behind: Callable[[], bool]) -> ReviewFeeder:
    feeder = ReviewFeeder(store.review_queues, store.review_feeding, ingest_is_behind=ingest_is_behind)
    feeder.start()
    return feeder


def _worker_options(settings: Settings) -> WorkerOptions:
    return WorkerOptions(
        own=settings.own_keys,
        code_judges=settings.code_judges,
        retry_policy=RetryPolicy(attempts=settings.job_attempts, retries_over_budget=settings.retry_over_budget),
    )


def _names(judging: JudgeServices, tenant: str) -> set[str]:
    return {name for each in judging.connections.for_rules_of(tenant) for name in (each.connection_id, each.row.name)}
