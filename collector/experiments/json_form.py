"""A run as JSON: what the gate and other programs read."""

import json
from collections.abc import Iterator
from typing import Any, Final

from collector.experiments.report import VERDICTS, CaseEvaluation, CaseResult, RunReport, plain_number
from collector.units import instant_text

_MAPS: Final = (("input", "inputs"), ("expectedOutput", "expected_outputs"), ("actualOutput", "actual_outputs"))


def write_json(report: RunReport) -> Iterator[bytes]:
    """Write one document, one item per line."""
    yield _text(_head(report))[:-1].encode() + b',"items":['
    between = "\n"
    for case in report.cases():
        yield f"{between}{_case(case)}".encode()
        between = ",\n"
    yield b"\n]}\n"


def _head(report: RunReport) -> dict[str, Any]:
    run = report.run
    return {
        "version": 1,
        "experimentName": run.experiment,
        "timestamp": f"{instant_text(run.started_at_ns).replace(' ', 'T')}Z",
        "description": run.description,
        "metadata": json.loads(run.metadata),
        "config": {"runs": report.trial_count},
        "summary": {
            "totalExamples": len(report.groups),
            "passCount": plain_number(report.count("passed")),
            "failCount": plain_number(report.count("not_passed")),
            "passRate": report.pass_rate,
            "runCount": report.trial_count,
            "evaluators": {
                each.name: {
                    "averageScore": each.mean,
                    "stdDev": each.deviation,
                    "passRate": each.pass_rate,
                    "failedCount": each.failed,
                    "skippedCount": each.skipped,
                }
                for each in report.evaluators
            },
            "errorCount": plain_number(report.count("error")),
            "notEvaluatedCount": plain_number(report.count("not_evaluated")),
            "unjudgedCount": plain_number(report.count("unjudged")),
        },
        "run": {
            "id": run.run_id,
            "name": run.name,
            "projectName": run.project,
            "status": run.status,
            "failedEvaluations": list(run.failed_evaluations),
            "verdict": run.verdict,
            "datasetName": run.dataset,
            "datasetVersion": run.dataset_version,
            "gitSha": run.git_sha,
            "gitBranch": run.git_branch,
        },
    }


def _case(case: CaseResult) -> str:
    """Encode an item. Maps are written as stored, so that numbers are not reformatted."""
    members = [] if case.key is None else [f'"id":{_text(case.key)}']
    members += [f'"{name}":{case.shown[column]}' for name, column in _MAPS]
    members += [
        f'"success":{_text(VERDICTS.get(case.outcome))}',
        f'"evaluations":{_text([_evaluation(each) for each in case.evaluations])}',
        f'"outcome":{_text(case.outcome)}',
        f'"metadata":{case.first["metadata"]}',
    ]
    for name, column in (("costUsd", "cost_usd"), ("latencyMs", "latency_ms"), ("traceId", "trace_id")):
        values = [trial[column] for trial in case.trials]
        if any(value is not None for value in values):
            members.append(f'"{name}":{_text(values[0] if len(values) == 1 else values)}')
    if case.error is not None:
        members.append(f'"error":{_text(case.error)}')
    return "{" + ",".join(members) + "}"


def _evaluation(evaluation: CaseEvaluation) -> dict[str, Any]:
    """Serialize one evaluator's results; `outcome` is present only if no trial was scored, unlike a bad score."""
    document: dict[str, Any] = {"evaluator": evaluation.name, "averageScore": evaluation.mean}
    if len(evaluation.rows) == 1:
        document["score"] = evaluation.scores[0]
    else:
        document |= {"stdDev": evaluation.deviation, "scores": evaluation.scores}
    threshold = evaluation.common("threshold")
    document |= {} if threshold is None else {"threshold": threshold}
    document |= {"success": evaluation.success, "reason": evaluation.reason}
    document |= {"better": "lower"} if evaluation.common("direction") == "lower" else {}
    version = evaluation.common("evaluator_version") if evaluation.outcome == "scored" else None
    fingerprint = evaluation.common("fingerprint") or version
    document |= {} if fingerprint is None else {"fingerprint": fingerprint}
    return document | ({} if evaluation.outcome == "scored" else {"outcome": evaluation.outcome})


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
