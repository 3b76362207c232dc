"""Improvement of a judge: trials of another version on labelled results, and examples for its prompt."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.json_encoding import json_response
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.annotating import (
    JudgeFlip,
    JudgeTrialDocument,
    JudgeVersion,
    LabelledExample,
    LabelledExamples,
)
from collector.api.responses.declaration import response_model
from collector.api.review.annotations import VERDICT
from collector.api.review.judge_accuracy import SOURCES
from collector.api.rules.body import BODY
from collector.api.rules.rules import Body, about_of, find, find_own
from collector.evaluation.rule_trial import TargetExample
from collector.live.rules.executor_kinds import executor_kind_of
from evaluators.judges.criteria import MAX_EXAMPLE
from evaluators.model import text_of
from rules.rule import Rule
from rules.statistics.calibration import calibrate, confusion_of
from rules.statistics.formulas.pairs import mcnemar_exact
from storage.errors import BadQuery
from storage.judging.job_results import JobResult
from storage.records import JsonValue
from storage.review.labels import JudgedByRule, LabelledResult

router = api_router(prefix="/api/v1/projects/{project:name}/trace-eval-rules/{rule_id}")

_AT_ONCE: Final = 10
"""Examples judged in parallel; limits of the connection apply as well. A guess."""

_MOST: Final = 100
_ALPHA: Final = 0.05


class LabelledQuery(BaseModel):
    """Selection of labels: the question, and the maximum number, balanced between passed and failed."""

    model_config = ConfigDict(extra="forbid")

    labels: int = Field(default=20, ge=2, le=_MOST, description="The maximum number, half passes if possible.")
    name: str = Field(
        default=VERDICT, min_length=1, max_length=200, description="The name of the question that the votes answer."
    )
    source: Literal["people", "user", "application"] = "people"


@router.post("/judge-trial", openapi_extra=BODY)
@needs(Permission.WRITE, by_tenant=True)
@response_model(JudgeTrialDocument)
def try_judge(
    project: str,
    rule_id: str,
    body: Body,
    context: ContextDep,
    caller: CallerDep,
    query: Annotated[LabelledQuery, Query()],
) -> Response:
    """Judge what people voted on with another version of a rule's judge, and compare it with the active version.

    Each label costs a call of the judge, or of each judge of a jury, which counts against the budgets. No result is
    stored. Labels that either version has as an example are held out.
    """
    kept = find_own(context, caller, project, rule_id)
    about = about_of(context, caller, project)
    rule = context.rules.checked(about, body.parsed, tenant=caller.tenant)
    if executor_kind_of(rule) != "judge":
        raise BadQuery(f"evaluator: {rule.evaluator} asks no judge; `tracejury rules test` tries out checks")
    shown = _example_traces(rule)
    labelled = _labelled(context, caller.tenant, kept.stored.rule_id, about, query)
    tested = [each for each in labelled if each.trace_id not in shown and not each.is_example]
    chosen = _in_turns(tested, query.labels)
    results = _judged(context, caller.tenant, kept.stored.rule_id, rule, chosen)
    return json_response(_trial(chosen, results, held_out=len(labelled) - len(tested)))


@router.get("/labelled-examples")
@needs(Permission.READ, by_tenant=True)
@response_model(LabelledExamples)
def labelled_examples(
    project: str, rule_id: str, context: ContextDep, caller: CallerDep, query: Annotated[LabelledQuery, Query()]
) -> Response:
    """List what people voted on as `examples` of an `llm_judge`: fails, then passes; the judge's errors first in each.

    Examples in the prompt of a judge are held out when it is tried, since their labels do not measure it any more.
    """
    kept = find(context, caller, project, rule_id)
    labelled = _labelled(context, caller.tenant, kept.stored.rule_id, about_of(context, caller, project), query)
    labelled.sort(key=lambda each: each.label is each.judged)
    chosen = _in_turns(labelled, query.labels, shuffled=False)
    cases = context.trials.cases(kept.active.rule, [_to_judge(caller.tenant, each) for each in chosen])
    examples = map(_example, chosen, cases)
    return json_response(
        LabelledExamples(rule_id=kept.stored.rule_id, examples=[each for each in examples if each is not None])
    )


def _labelled(
    context: Context, tenant: str, rule_id: str, about: str | None, query: LabelledQuery
) -> list[LabelledResult]:
    """Return the latest judge's last result on each target whose voters agree."""
    selection = JudgedByRule(
        tenant=tenant, rule_id=rule_id, project=about, from_us=None, name=query.name, sources=SOURCES[query.source]
    )
    latest = next(iter(context.store.labels.judged(selection)), None)
    if latest is None:
        return []
    results = context.store.labels.results(selection)
    return [each for each in results if each.fingerprint == latest.fingerprint and each.label is not None]


def _in_turns(results: Sequence[LabelledResult], most: int, *, shuffled: bool = True) -> list[LabelledResult]:
    """Select up to `most` results, half failed and half passed by people if possible; ordered by hash if `shuffled`."""

    def lot(each: LabelledResult) -> str:
        return hashlib.sha256(f"{each.trace_id}/{each.span_id}".encode()).hexdigest()

    ordered = sorted(results, key=lot) if shuffled else list(results)
    sides = [[each for each in ordered if each.label is verdict] for verdict in (False, True)]
    fails = min(len(sides[0]), max(most // 2, most - len(sides[1])))
    return [*sides[0][:fails], *sides[1][: most - fails]]


def _judged(
    context: Context, tenant: str, rule_id: str, rule: Rule, chosen: Sequence[LabelledResult]
) -> list[JobResult]:
    results: list[JobResult] = []
    for first in range(0, len(chosen), _AT_ONCE):
        examples = [_to_judge(tenant, each) for each in chosen[first : first + _AT_ONCE]]
        results += context.trials.ask(tenant, rule_id, rule, examples).results
    return results


def _to_judge(tenant: str, result: LabelledResult) -> TargetExample:
    return TargetExample(
        tenant=tenant,
        project=result.project,
        seq=result.seq,
        trace_id=result.trace_id,
        span_id=result.span_id,
        session_id=result.session_id,
    )


def _trial(chosen: Sequence[LabelledResult], results: Sequence[JobResult], *, held_out: int) -> JudgeTrialDocument:
    both = [(was, now) for was, now in zip(chosen, results, strict=True) if now.passed is not None]
    mended = sum(was.judged is not was.label and now.passed is was.label for was, now in both)
    spoilt = sum(was.judged is was.label and now.passed is not was.label for was, now in both)
    p_value = mcnemar_exact(spoilt, mended)
    flips = [(was, now) for was, now in both if was.judged is not now.passed]
    return JudgeTrialDocument(
        labels=len(both),
        held_out=held_out,
        failed=len(chosen) - len(both),
        current=_version([(was.label, was.judged, was) for was, _ in both]),
        candidate=_version([(was.label, bool(now.passed), now) for was, now in both]),
        mended=mended,
        spoilt=spoilt,
        p_value=p_value,
        in_words=_in_words(len(both), mended, spoilt, p_value),
        flips=[_flip(was, now) for was, now in flips],
        problems=sorted({now.reason or "" for now in results if now.passed is None})[:5],
    )


def _version(verdicts: Sequence[tuple[bool | None, bool, LabelledResult | JobResult]]) -> JudgeVersion | None:
    if not verdicts:
        return None
    passed = sum(verdict for _, verdict, _ in verdicts)
    table = confusion_of((people, verdict) for people, verdict, _ in verdicts)
    calibration = calibrate(table, judged_passed=passed, judged_failed=len(verdicts) - passed)
    costs = [each.cost_usd for _, _, each in verdicts if each.cost_usd is not None]
    return JudgeVersion.of(
        calibration,
        fingerprint=verdicts[0][2].fingerprint,
        cost_usd_each=sum(costs) / len(costs) if costs else None,
    )


def _in_words(labels: int, mended: int, spoilt: int, p_value: float) -> str:
    if not labels:
        return "No comparison: no results of the current judge have votes, or the judge was unavailable."
    summary = f"Of {labels} labels it corrects {mended} and breaks {spoilt}"
    if p_value >= _ALPHA:
        return f"{summary}: the difference is not significant."
    return f"{summary}: it is {'better' if mended > spoilt else 'worse'}."


def _flip(was: LabelledResult, now: JobResult) -> JudgeFlip:
    return JudgeFlip.of(was, people_passed=was.label, before=was.judged, after=now.passed, reason=now.reason)


def _example_traces(rule: Rule) -> set[str]:
    listed = rule.configuration.get("examples")
    named = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return {str(each["traceId"]) for each in named if each.get("traceId") is not None}


def _example(result: LabelledResult, case: Mapping[str, Any] | None) -> LabelledExample | None:
    inputs, outputs = (case.get(part, {}) for part in ("inputs", "actualOutputs")) if case is not None else ({}, {})
    if outputs.get("output") is None:
        return None
    return LabelledExample.of(
        result,
        input=_text(inputs["input"]) if inputs.get("input") else None,
        output=_text(outputs["output"]),
        passed=bool(result.label),
    )


def _text(value: JsonValue) -> str:
    return (value if isinstance(value, str) else text_of(value))[:MAX_EXAMPLE]
