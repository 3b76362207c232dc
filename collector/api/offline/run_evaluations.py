"""Runs of the server's evaluators on the reported items of a run, over HTTP."""

import json
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.exact_json import body_of, json_body
from collector.api.base.json_encoding import json_response
from collector.api.base.numbers import Number
from collector.api.base.pages import PARTED, Part
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.offline.runs import Own, Seen
from collector.api.responses.declaration import response_model
from collector.api.responses.offline import RunEvaluationDocument
from collector.live.jobs.run_evaluator import name_of
from rules.rule_text import JURIES, parse_json
from storage.errors import BadQuery, Conflict, NotFound
from storage.offline.run_evaluations import NewEvaluation
from storage.offline.runs import Run

router = api_router(prefix="/api/v1/runs/{run_id}")


class EvaluationBody(BaseModel):
    """An evaluator with its configuration, in fields of a rule; or a judge with its criteria, as in `judge-jobs`."""

    model_config = ConfigDict(extra="forbid")

    evaluator: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    config: dict[str, Any] | None = None
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    connectionId: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    jury: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=200)]],
            Field(min_length=min(JURIES), max_length=max(JURIES)),
        ]
        | None
    ) = None
    threshold: Number | None = None
    evaluatorName: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    criteria: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    evaluationParams: list[str] | None = None
    minScore: Number | None = None
    maxScore: Number | None = None

    def document(self) -> dict[str, Any]:
        """Return the equivalent rule."""
        fields = self.model_dump(exclude_none=True)
        name = fields.pop("name", None)
        parameters = fields.pop("evaluationParams", None)
        config = dict(fields.pop("config", {}))
        config |= {} if parameters is None else {"evaluationParams": parameters}
        config |= {} if name is None else {"name": name}
        called = name or self.evaluatorName or self.evaluator or "evaluation"
        return {"name": called, **fields} | ({"config": config} if config else {})


Body = Annotated[EvaluationBody, Depends(json_body(EvaluationBody))]


@router.get("/evaluations", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@response_model(list[RunEvaluationDocument])
def list_evaluations(run: Seen, context: ContextDep, part: Part) -> Response:
    """List the evaluations of a run, oldest first."""
    return part.answer(context.store.run_evaluations.of_run(run.run_id), RunEvaluationDocument.of)


@router.post("/evaluations", status_code=HTTPStatus.CREATED, openapi_extra=body_of(EvaluationBody))
@needs(Permission.WRITE, by_tenant=True)
@response_model(RunEvaluationDocument)
def evaluate(run: Own, body: Body, context: ContextDep, caller: CallerDep) -> Response:
    """Score the items of a run that has ended; earlier scores of the same name are superseded."""
    return _made(context, run, body, caller.key_name)


@router.post("/judge-jobs", status_code=HTTPStatus.CREATED, openapi_extra=body_of(EvaluationBody))
@needs(Permission.WRITE, by_tenant=True)
@response_model(RunEvaluationDocument)
def judge(run: Own, body: Body, context: ContextDep, caller: CallerDep) -> Response:
    """Score the items of a run with judges."""
    return _made(context, run, body, caller.key_name)


@router.get("/judge-jobs", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@response_model(list[RunEvaluationDocument])
def list_judge_jobs(run: Seen, context: ContextDep, part: Part) -> Response:
    """List the judge jobs of a run, oldest first."""
    return list_evaluations(run, context, part)


@router.delete("/evaluations/{evaluation_id}", status_code=HTTPStatus.NO_CONTENT)
@needs(Permission.WRITE, by_tenant=True)
def cancel(run: Own, evaluation_id: str, context: ContextDep) -> Response:
    """Cancel an evaluation; its results stay."""
    if all(each.evaluation_id != evaluation_id for each in context.store.run_evaluations.of_run(run.run_id)):
        raise NotFound(f"the run has no evaluation {evaluation_id}")
    if not context.store.run_evaluations.set_state(evaluation_id, "cancelled", now_us=context.now_ns() // 1000):
        raise Conflict("the evaluation is over")
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _made(context: Context, run: Run, body: EvaluationBody, by: str | None) -> Response:
    if run.status == "CANCELLED":
        raise Conflict("the run was cancelled, so it may lack items")
    if body.evaluator is None and body.criteria is None:
        raise BadQuery("evaluator: name an evaluator, or give the criteria of a judge")
    parsed = parse_json(json.dumps(body.document()))
    rule = context.rules.checked(None, parsed, tenant=run.tenant)
    name = name_of(rule)
    if any(
        each.name == name and each.state in {"waiting", "running"}
        for each in context.store.run_evaluations.of_run(run.run_id)
    ):
        raise Conflict(f"an evaluation called {name!r} is under way")
    problem = context.judging.judges.problem_of(context.run_evaluator.active(run.tenant, "", rule))
    if problem is not None:
        raise Conflict(problem)
    new = NewEvaluation(
        evaluator=rule.evaluator,
        name=name,
        configuration=json.dumps(rule.document()),
        connection=rule.connection,
        created_by=by,
    )
    made = context.store.run_evaluations.add(run, new, now_us=context.now_ns() // 1000)
    context.run_evaluator.wake()
    headers = {"location": f"/api/v1/runs/{run.run_id}/evaluations"}
    return json_response(RunEvaluationDocument.of(made), status=HTTPStatus.CREATED, headers=headers)
