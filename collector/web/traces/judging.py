"""The page that judges a span or a trace at once: the rules, their cost, and the result."""

from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import visible_tenant_of
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.rules.judging_now import ManualVerdict, judge_now, offers, target_of
from collector.web.rendering import page
from collector.web.rules import rule_access
from collector.web.visitor import FormDep, page_router, with_query
from evaluators.chat.request_budget import ASSUMED_OUTPUT_TOKENS
from storage.errors import Conflict, Overloaded
from storage.judging.judgements import TargetToJudge

router = page_router()

_SEE_OTHER = 303


@dataclass(frozen=True, slots=True, kw_only=True)
class _FailedAttempt:
    """An attempt that led to no score."""

    verdict: ManualVerdict | None = None
    rule: str = ""  # its name
    problem: str = ""
    status: int = 200


@router.get("/traces/{trace_id}/judge")
@needs(Permission.WRITE, by_tenant=True)
def ask_to_judge(
    request: Request, trace_id: str, context: ContextDep, caller: CallerDep, span: str = "", tenant: str = ""
) -> Response:
    """Show the rules that can judge the target now, and the highest cost of each."""
    return _page(
        request, context, caller, target_of(context, visible_tenant_of(caller, tenant or None), trace_id, span or None)
    )


@router.post("/traces/{trace_id}/judge")
@needs(Permission.WRITE, by_tenant=True)
def judge_trace(request: Request, trace_id: str, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Judge the target by a rule, and go to the verdict; show failures here."""
    tenant, span = form.text("tenant"), form.text("span")
    target = target_of(context, visible_tenant_of(caller, tenant or None), trace_id, span or None)
    kept = rule_access.find_own(context, caller, form.required("rule"))
    try:
        verdict = judge_now(context, kept, target)
    except (Conflict, Overloaded) as error:
        return _page(request, context, caller, target, _FailedAttempt(problem=str(error), status=409))
    if verdict.job_id is None:
        return _page(request, context, caller, target, _FailedAttempt(verdict=verdict, rule=kept.active.rule.name))
    return RedirectResponse(f"{_place(target)}#verdicts", _SEE_OTHER)


def _page(
    request: Request, context: Context, caller: Caller, target: TargetToJudge, attempt: _FailedAttempt | None = None
) -> Response:
    return page(
        request,
        "judge.html",
        status=200 if attempt is None else attempt.status,
        target=target,
        offers=offers(context, caller, target),
        attempt=attempt or _FailedAttempt(),
        back=_place(target),
        assumed_tokens=ASSUMED_OUTPUT_TOKENS,
    )


def _place(target: TargetToJudge) -> str:
    view = None if target.span_id else "verdicts"
    return with_query(f"/traces/{target.trace_id}", span=target.span_id, view=view, tenant=target.tenant or None)
