"""Jobs over the lake, over HTTP: what they have to know, and the judges of rules."""

import json
from pathlib import Path
from typing import Annotated, Any

from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from collector.access.permission import Permission, needs
from collector.api.base.json_encoding import json_response
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.declaration import response_model
from collector.api.responses.lake import CaseResultDocument, LakeDocument, LakeRuleDocument
from collector.api.rules.rules import RULES, find_own
from collector.evaluation.rule_trial import TargetExample
from collector.live.jobs.work.target import ExaminedPart
from collector.live.rules.executor_kinds import executor_kind_of
from storage.errors import BadQuery, Conflict

router = api_router(prefix="/api/v1")


@router.get("/lake", responses={409: {"description": "The server has no lake, or nothing has moved to it yet."}})
@needs(Permission.ADMINISTER)
@response_model(LakeDocument)
def show(context: ContextDep) -> Response:
    """Return where the lake is and what is in it alone, for jobs that read its files."""
    uri, scope = context.settings.lake, context.store.lake_scope()
    if uri is None:
        raise Conflict("this server has no lake; set TRACEJURY_LAKE, or `lake` in its settings")
    if scope is None:
        raise Conflict("nothing has moved to the lake yet; traces move `lake_hot_days` after they arrived")
    place = uri if "://" in uri else str(Path(uri).absolute())
    own = context.own_keys
    return json_response(
        LakeDocument.of(scope, uri=place, attribute_keys=own.projects, model_prices=own.prices.settings)
    )


@router.get(f"{RULES}/{{rule_id}}/lake")
@needs(Permission.ADMINISTER)
@response_model(LakeRuleDocument)
def show_rule(project: str, rule_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Return a rule as jobs over the lake use it, with all defaults."""
    active = find_own(context, caller, project, rule_id).active
    return json_response(LakeRuleDocument.of(active, document=active.rule.document()))


class CaseOfTarget(BaseModel):
    """A test case that was made of a trace or a span in the lake."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)

    tenant: str
    project: str | None
    trace_id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    span_id: Annotated[str | None, Field(pattern=r"^[0-9a-f]{16}$")] = None
    case: Annotated[str, Field(description="As JSON.")]
    part: Annotated[tuple[int, int] | None, Field(description="Spans read, and spans in all, of a long trace.")] = None


@router.post(f"{RULES}/{{rule_id}}/judge-case")
@needs(Permission.ADMINISTER)
@response_model(CaseResultDocument)
def judge_case(project: str, rule_id: str, body: CaseOfTarget, context: ContextDep, caller: CallerDep) -> Any:  # noqa: ANN401 - a document
    """Have the judge of a rule evaluate a test case, within the budgets of rule, project and connection.

    Nothing is stored but the usage of the judge.
    """
    kept = find_own(context, caller, project, rule_id)
    if executor_kind_of(kept.active.rule) != "judge":
        raise BadQuery(f"the rule {kept.active.rule.name} calls no model")
    target = TargetExample(
        tenant=body.tenant,
        project=body.project,
        seq=0,
        trace_id=body.trace_id,
        span_id=body.span_id,
    )
    try:
        json.loads(body.case)
    except (ValueError, RecursionError) as error:
        raise BadQuery(f"case: no JSON ({error})") from error
    part = None if body.part is None else ExaminedPart(*body.part)
    (result,) = context.trials.ask_about(kept.active, target, body.case, part).results
    return json_response(CaseResultDocument.of(result))
