"""What came of jobs whose evaluators did not come to speak."""

from dataclasses import replace

from collector.live.active import ActiveRule
from collector.live.jobs.work.storable import count_of, storable_text
from evaluators.outcome import Usage
from storage.judging.job_results import JobResult, OutcomeName
from storage.judging.jobs import Job


def failed(job: Job, active: ActiveRule | None, kind: str, message: str) -> JobResult:
    """A job whose evaluator did not come to speak."""
    return _without_score(job, active, "failed", kind, message)


def skipped(job: Job, active: ActiveRule | None, kind: str, message: str, usage: Usage | None = None) -> JobResult:
    """A job that is not done, and will not be, with what it took so far."""
    result = _without_score(job, active, "skipped", kind, message)
    if usage is None:
        return result
    return replace(
        result,
        judge_calls=usage.calls,
        input_tokens=count_of(usage.input_tokens),
        output_tokens=count_of(usage.output_tokens),
        cost_usd=usage.cost_usd,
    )


def _without_score(job: Job, active: ActiveRule | None, outcome: OutcomeName, kind: str, message: str) -> JobResult:
    name = "" if active is None else active.rule.configuration.get("name") or active.rule.evaluator
    return JobResult(
        job_id=job.job_id,
        name=storable_text(str(name)),
        outcome=outcome,
        error_kind=kind,
        reason=storable_text(message),
    )
