"""Manual evaluation of a span or a trace, over HTTP."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, visible_tenant_of
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.declaration import response_model
from collector.api.responses.judging import JudgedNowDocument
from collector.api.rules.judging_now import judge_now, offer_of, target_of
from collector.api.rules.rules import RULES, find_own

router = api_router(prefix="/api/v1")


class ToJudge(BaseModel):
    """A trace, or a span of it."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)

    trace_id: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{32}$")]
    span_id: Annotated[str | None, Field(pattern=r"^[0-9a-fA-F]{16}$")] = None
    price_only: Annotated[bool, Field(description="Return the maximum cost, and call no model.")] = False


@router.post(f"{RULES}/{{rule_id}}/judge")
@needs(Permission.WRITE, by_tenant=True)
@response_model(JudgedNowDocument)
def judge(
    project: str, rule_id: str, body: ToJudge, context: ContextDep, caller: CallerDep, tenant: Tenant = None
) -> dict[str, Any]:
    """Have a rule judge a span or a trace now, whether its conditions match it or not.

    A score replaces the rule's earlier result; monitors do not count it.
    """
    kept = find_own(context, caller, project, rule_id)
    target = target_of(context, visible_tenant_of(caller, tenant), body.trace_id, body.span_id)
    offer = offer_of(context, kept, target)
    most = {"costUsdAtMost": offer.usd, "model": ", ".join(each.model for each in offer.terms) or None}
    if body.price_only:
        return most | {"result": None, "jobId": None}
    verdict = judge_now(context, kept, target)
    result = verdict.result
    return most | {
        "jobId": verdict.job_id,
        "result": {
            "outcome": result.outcome,
            "score": result.score,
            "passed": result.passed,
            "threshold": result.threshold,
            "reason": result.reason,
            "errorKind": result.error_kind,
            "calls": verdict.calls,
            "inputTokens": verdict.taken.input_tokens,
            "outputTokens": verdict.taken.output_tokens,
            "costUsd": verdict.usd,
        },
    }
