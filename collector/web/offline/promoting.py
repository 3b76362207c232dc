"""The form that makes a dataset item of a recorded call: its dataset, and its expected output."""

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import visible_tenant_of
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.offline.datasets import NewDataset
from collector.api.offline.runs import Seen
from collector.api.review.dataset_promotion import (
    Promoted,
    Promotion,
    corrected_by_people,
    id_in,
    promoted,
    recorded_case,
    unstored_dataset,
)
from collector.web.rendering import page, see_other
from collector.web.visitor import Form, FormDep, by_field, page_router, with_query
from evaluators.model import text_of
from storage.errors import BadQuery, Conflict, NotFound
from storage.offline.datasets import Dataset

router = page_router()

_OF_ITEM: Final = "/runs/{run_id}/items/{number}/promote"
_NEW: Final = ""  # value of the field `dataset` for a new dataset
SpanId = Annotated[str, Query(pattern="^([0-9a-f]{16})?$")]
TraceId = Annotated[str, Path(pattern="^[0-9a-fA-F]{32}$")]
ItemNumber = Annotated[int, Path(ge=1, le=2**62)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded call that becomes a dataset item: inputs, output, expected output, and its origin."""

    title: str
    back: str
    action: str
    target: dict[str, Any]
    inputs: object
    answered: object
    expected: object = None
    tenant: str = ""
    corrected: object = None  # the output that people gave as the right one
    dataset_id: str | None = None  # the dataset that the item came from


@dataclass(frozen=True, slots=True, kw_only=True)
class _PromotionFormState:
    """State of the form."""

    dataset: str
    name: str = ""
    expectation: str = "none"
    expected: str = ""
    problems: dict[str, str] = field(default_factory=dict)


@router.get("/traces/{trace_id}/promote")
@needs(Permission.WRITE, by_tenant=True)
def ask_for_trace(
    request: Request,
    trace_id: TraceId,
    context: ContextDep,
    caller: CallerDep,
    span: SpanId = "",
    tenant: str | None = None,
) -> Response:
    """Show the form for a trace, or a span of it."""
    recorded = _of_trace(context, caller, trace_id.lower(), span, tenant)
    return _form(request, context, caller, recorded, _first(context, caller, recorded))


@router.post("/traces/{trace_id}/promote")
@needs(Permission.WRITE, by_tenant=True)
def promote_trace(
    request: Request, trace_id: TraceId, context: ContextDep, caller: CallerDep, form: FormDep
) -> Response:
    """Add the trace or span to a dataset."""
    tenant = form.text("tenant") if form.checked("tenant") else None
    recorded = _of_trace(context, caller, trace_id.lower(), form.text("span"), tenant)
    return _promoted(request, context, caller, recorded, form)


@router.get(_OF_ITEM)
@needs(Permission.WRITE, by_tenant=True)
def ask_for_item(request: Request, run: Seen, number: ItemNumber, context: ContextDep, caller: CallerDep) -> Response:
    """Show the form for an item of a run."""
    recorded = _of_item(context, run.run_id, number)
    return _form(request, context, caller, recorded, _first(context, caller, recorded))


@router.post(_OF_ITEM)
@needs(Permission.WRITE, by_tenant=True)
def promote_item(
    request: Request, run: Seen, number: ItemNumber, context: ContextDep, caller: CallerDep, form: FormDep
) -> Response:
    """Add the item to a dataset; an item that came from this dataset replaces itself under its id."""
    return _promoted(request, context, caller, _of_item(context, run.run_id, number), form)


def _of_trace(context: Context, caller: Caller, trace_id: str, span: str, tenant: str | None) -> Recorded:
    case = json.loads(text_of(recorded_case(context, visible_tenant_of(caller, tenant), trace_id, span or None)))
    target = {"traceId": trace_id} | ({"spanId": span} if span else {})
    return Recorded(
        title="span" if span else "trace",
        back=with_query(f"/traces/{trace_id}", span=span or None, tenant=tenant),
        action=f"/traces/{trace_id}/promote",
        target=target,
        inputs=_value(case.get("inputs")),
        answered=_value(case.get("actualOutputs"), "output"),
        tenant=tenant or "",
        corrected=_corrected(context, visible_tenant_of(caller, tenant), target),
    )


def _of_item(context: Context, run_id: str, number: int) -> Recorded:
    row = next(iter(context.store.run_items.by_number(run_id, [number])), None)
    if row is None:
        raise NotFound("this run has no such item")
    run = context.store.runs.find(None, run_id)
    return Recorded(
        title="item of a run",
        back=f"/runs/{run_id}?item={number}",
        action=f"/runs/{run_id}/items/{number}/promote",
        target={"itemResultId": str(number)},
        inputs=_value(json.loads(row["inputs"])),
        answered=_value(json.loads(row["actual_outputs"])),
        expected=_value(json.loads(row["expected_outputs"])),
        corrected=_corrected(context, run.tenant if run else None, {"itemResultId": str(number)}),
        dataset_id=None if run is None else run.dataset_id,
    )


def _corrected(context: Context, tenant: str | None, target: dict[str, Any]) -> object:
    return _value(corrected_by_people(context, tenant, Promoted.model_validate(target)), "output")


def _value(value: Any, name: str = "") -> object:  # noqa: ANN401 - JSON
    """Simplify a map for display: return its value of `name`, else its only value, else the map; None if empty."""
    if isinstance(value, dict) and name in value:
        return value[name]
    if isinstance(value, dict) and len(value) == 1:
        return next(iter(value.values()))
    return value or None


def own_datasets(context: Context, caller: Caller) -> list[Dataset]:
    """Return the datasets that the caller may add to."""
    return [each for each in context.store.datasets.all(caller.visible_tenant) if caller.owns(each.tenant)]


def _first(context: Context, caller: Caller, recorded: Recorded) -> _PromotionFormState:
    """Return the initial form: it selects the item's dataset, else the caller's only dataset, else a new one."""
    own = [each.dataset_id for each in own_datasets(context, caller)]
    chosen = recorded.dataset_id if recorded.dataset_id in own else own[0] if len(own) == 1 else _NEW
    likely = (recorded.corrected, recorded.expected, recorded.answered)
    shown = next((each for each in likely if each is not None), None)
    text = shown if isinstance(shown, str) else "" if shown is None else json.dumps(shown, indent=2, ensure_ascii=False)
    corrected = "other" if recorded.corrected is not None else None
    expectation = corrected or ("keep" if recorded.expected is not None else "none")
    return _PromotionFormState(dataset=chosen, expectation=expectation, expected=text)


def _promoted(request: Request, context: Context, caller: Caller, recorded: Recorded, form: Form) -> Response:
    values = _PromotionFormState(
        dataset=form.text("dataset"),
        name=form.text("name").strip(),
        expectation=form.text("expectation", "none"),
        expected=form.text("expected"),
    )
    typed = values.expected.strip()
    if values.expectation != "other" and typed not in {"", _first(context, caller, recorded).expected.strip()}:
        problem = "An expected output is entered, but another option is chosen: choose “Enter it”, or clear the field."
        return _refused(request, context, caller, (recorded, values), {"": problem})
    choices: dict[str, object] = {"useOutput": values.expectation == "output"}
    if values.expectation == "other":
        choices["overriddenExpectedOutput"] = _typed(values.expected)
    item = Promoted.model_validate(recorded.target | choices)
    try:
        dataset = chosen_dataset(context, caller, values.dataset, values.name)
        body = Promotion(datasetName=dataset.name, items=[item])
        dataset, (version, _) = promoted(context, caller, dataset, body)
    except ValidationError as error:
        return _refused(request, context, caller, (recorded, values), by_field(error))
    except (BadQuery, Conflict) as error:
        return _refused(request, context, caller, (recorded, values), {"": str(error)})
    place = f"/datasets/{dataset.dataset_id}/versions/{version.version}"
    return see_other(with_query(place, item=id_in(context, dataset, item)))


def chosen_dataset(context: Context, caller: Caller, dataset_id: str, name: str) -> Dataset:
    """Return the chosen dataset; if a name was typed, an unstored one, which `promoted` will store.

    Raises:
        ValidationError: the name is not valid.
        NotFound: the chosen dataset was deleted.
    """
    if name or dataset_id == _NEW:
        return unstored_dataset(caller.tenant, NewDataset(name=name).name)
    dataset = next((each for each in own_datasets(context, caller) if each.dataset_id == dataset_id), None)
    if dataset is None:
        raise NotFound("this dataset no longer exists")
    return dataset


def _typed(text: str) -> object:
    """Parse typed text: a JSON object, or else the text itself."""
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else text
    except ValueError:
        return text
    return value


def _refused(
    request: Request,
    context: Context,
    caller: Caller,
    shown: tuple[Recorded, _PromotionFormState],
    problems: dict[str, str],
) -> Response:
    recorded, values = shown
    return _form(
        request,
        context,
        caller,
        recorded,
        _PromotionFormState(
            dataset=values.dataset,
            name=values.name,
            expectation=values.expectation,
            expected=values.expected,
            problems=problems,
        ),
        status=400,
    )


def _form(
    request: Request,
    context: Context,
    caller: Caller,
    recorded: Recorded,
    values: _PromotionFormState,
    *,
    status: int = 200,
) -> Response:
    return page(
        request,
        "promote.html",
        status=status,
        recorded=recorded,
        values=values,
        datasets=own_datasets(context, caller),
        new=_NEW,
    )
