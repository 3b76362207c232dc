"""JSON documents of experiments, runs, and what came of their items."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from collector.api.base.times import time_text
from storage.offline.run_sums import Evaluated, RunSums
from storage.offline.runs import Experiment, Run

Document = dict[str, object]


def experiment_document(experiment: Experiment, latest: Run | None, sums: RunSums | None) -> Document:
    """An experiment and its latest run."""
    run = None
    if latest is not None and sums is not None:
        started = time_text(latest.started_at_ns)
        run = {"runId": latest.run_id, "status": latest.status, **rate_document(sums), "startedAt": started}
        run["failedEvaluations"] = list(latest.failed_evaluations)
    return {
        "id": experiment.experiment_id,
        "tenant": experiment.tenant,
        "projectName": experiment.project,
        "name": experiment.name,
        "description": "" if latest is None else latest.description,
        "createdAt": time_text(experiment.created_at_ns),
        "latestRun": run,
    }


def run_document(run: Run, sums: RunSums) -> Document:
    """A run as a list tells it."""
    return _head(run) | {
        "itemCount": sums.items,
        "passedCount": sums.passed,
        **rate_document(sums),
        **_costs(sums),
    }


def latest_run_document(run: Run, sums: RunSums) -> Document:
    """A run as the list of all experiments tells it, with what each evaluator said."""
    return run_document(run, sums) | {"evaluators": [_evaluated(each) for each in sums.evaluators]}


def run_detail(run: Run, sums: RunSums) -> Document:
    """A run with what its items sum up to, and what each evaluator said."""
    return _head(run) | {
        "totalItems": sums.items,
        "caseCount": sums.cases,
        "passedItems": sums.passed,
        **rate_document(sums),
        **_costs(sums),
        "pricedItemCount": sums.priced,
        "tokenizedItemCount": sums.tokenized,
        "latencyP95Ms": sums.latency_p95_ms,
        "evaluators": [_evaluated(each) for each in sums.evaluators],
    }


def rate_document(sums: RunSums) -> Document:
    """Return the pass rate of a run, over the items with a verdict, and the counts of the others beside it."""
    return {
        "passRate": sums.pass_rate,
        "notPassedItems": sums.not_passed,
        "errorItems": sums.errors,
        "notEvaluatedItems": sums.not_evaluated,
        "unjudgedItems": sums.unjudged,
    }


def run_item_document(item: Mapping[str, Any]) -> Document:
    """What came of an item in one trial, with the scores that count."""
    return {
        "id": str(item["item_number"]),
        "datasetItemId": item["dataset_item_id"],
        "itemKey": item["item_key"] if item["is_keyed"] else None,
        "trial": item["trial"],
        "input": json.loads(item["inputs"]),
        "expectedOutput": json.loads(item["expected_outputs"]),
        "actualOutput": json.loads(item["actual_outputs"]),
        "metadata": json.loads(item["metadata"]),
        "outcome": item["outcome"],
        "success": item["outcome"] == "passed",
        "error": item["error"],
        "errorKind": item["error_kind"],
        "stopReason": item["stop_reason"],
        "cached": item["cached"],
        "retries": item["retries"],
        "tokensIn": item["tokens_in"],
        "tokensOut": item["tokens_out"],
        "cachedTokens": item["tokens_cached"],
        "reasoningTokens": item["tokens_reasoning"],
        "costUsd": item["cost_usd"],
        "latencyMs": item["latency_ms"],
        "traceId": item["trace_id"],
        "spanId": item["span_id"],
        "createdAt": time_text(item["created_at_ns"]),
        "evalResults": [_score(each) for each in item["scores"]],
    }


def _head(run: Run) -> Document:
    version = None if run.dataset_id is None else f"{run.dataset_id}@{run.dataset_version}"
    return {
        "id": run.run_id,
        "tenant": run.tenant,
        "projectName": run.project,
        "experimentId": run.experiment_id,
        "experimentName": run.experiment,
        "name": run.name,
        "description": run.description,
        "runKey": run.run_key,
        "status": run.status,
        "statusReason": run.state_reason,
        "failedEvaluations": list(run.failed_evaluations),
        "verdict": run.verdict,
        "config": json.loads(run.metadata),
        "gitSha": run.git_sha,
        "gitBranch": run.git_branch,
        "triggeredBy": run.triggered_by,
        "datasetName": run.dataset,
        "datasetVersionId": version,
        "datasetVersion": run.dataset_version,
        "trials": run.trials,
        "createdBy": run.created_by,
        "pinned": run.is_pinned,
        "startedAt": time_text(run.started_at_ns),
        "completedAt": time_text(run.completed_at_ns),
    }


def _costs(sums: RunSums) -> Document:
    return {
        "tokensIn": sums.tokens_in,
        "tokensOut": sums.tokens_out,
        "costUsd": sums.cost_usd,
        "latencyMs": sums.latency_ms,
    }


def _evaluated(evaluated: Evaluated) -> Document:
    told = asdict(evaluated)
    return {
        "evaluatorName": told["name"],
        "scoredCount": told["scored"],
        "failedCount": told["failed"],
        "skippedCount": told["skipped"],
        "passedCount": told["passed"],
        "passRate": evaluated.pass_rate,
        "averageScore": told["mean"],
        "scoreStdDev": told["deviation"],
        "lowestScore": told["lowest"],
        "highestScore": told["highest"],
        "threshold": told["threshold"],
        "direction": told["direction"],
        "fingerprint": told["fingerprint"],
        "version": told["version"],
        "costUsd": told["cost_usd"],
    }


def _score(score: Mapping[str, Any]) -> Document:
    return {
        "evaluatorName": score["name"],
        "outcome": score["outcome"],
        "score": score["score"],
        "label": score["label"],
        "threshold": score["threshold"],
        "direction": score["direction"],
        "success": score["passed"],
        "reason": score["reason"],
        "errorKind": score["error_kind"],
        "fingerprint": score["fingerprint"],
        "version": score["evaluator_version"],
        "metadata": None if score["metadata"] is None else json.loads(score["metadata"]),
        "evaluationId": score["evaluation_id"],
        "judgeModel": score["judge_model"],
        "costUsd": score["cost_usd"],
        "latencyMs": score["latency_ms"],
    }
