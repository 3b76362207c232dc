"""Datasets: their list, the changes of each version, and its runs."""

from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import ValidationError

from collector.access.permission import Permission, needs
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.offline.datasets import NewDataset, Own, Seen
from collector.web.confirming import Confirmation, ask
from collector.web.navigation import may_use
from collector.web.rendering import page, see_other
from collector.web.text import one_line
from collector.web.visitor import FormDep, by_field, page_router
from storage.errors import Conflict
from storage.offline.datasets import Dataset

router = page_router()

_ONE: Final = "/datasets/{dataset_id}"
_PAGE_ROWS: Final = 50
_MOST_RUNS: Final = 20

Number = Annotated[int, Query(alias="page", ge=0, le=MAX_PAGE)]


@router.get("/datasets")
@needs(Permission.READ, by_tenant=True)
def list_datasets(request: Request, context: ContextDep, caller: CallerDep, number: Number = 0) -> Response:
    """List datasets by name."""
    rows = context.store.datasets.all(caller.visible_tenant)
    begin = number * _PAGE_ROWS
    return page(
        request,
        "datasets.html",
        datasets=rows[begin : begin + _PAGE_ROWS],
        number=number,
        is_last=len(rows) <= begin + _PAGE_ROWS,
        may_edit=may_use(caller, create_dataset, "POST"),
    )


@router.get("/datasets/new")
@needs(Permission.WRITE, by_tenant=True)
def new_dataset(request: Request) -> Response:
    """Show the form of a new dataset."""
    return _form(request, {"name": "", "description": "", "tags": ""}, {})


@router.post("/datasets/new")
@needs(Permission.WRITE, by_tenant=True)
def create_dataset(request: Request, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Create a dataset, which has no version yet."""
    values = {name: form.text(name).strip() for name in ("name", "description", "tags")}
    tags = [tag.strip() for tag in values["tags"].split(",") if tag.strip()]
    try:
        body = NewDataset.model_validate(values | {"tags": tags})
        made = context.store.datasets.create(caller.tenant, body.name, body.text(), now_us=context.now_ns() // 1000)
    except ValidationError as error:
        return _form(request, values, by_field(error), status=400)
    except Conflict as error:
        return _form(request, values, {"name": str(error)}, status=409)
    return see_other(f"/datasets/{made.dataset_id}")


@router.get(_ONE)
@needs(Permission.READ, by_tenant=True)
def show_dataset(
    request: Request, dataset: Seen, context: ContextDep, caller: CallerDep, number: Number = 0
) -> Response:
    """Show a dataset, its versions and the latest runs on them."""
    versions = context.store.datasets.versions(dataset, skip=number * _PAGE_ROWS, most=_PAGE_ROWS + 1)
    return page(
        request,
        "dataset.html",
        dataset=dataset,
        versions=versions[:_PAGE_ROWS],
        number=number,
        is_last=len(versions) <= _PAGE_ROWS,
        runs=context.store.runs.on_dataset(caller.visible_tenant, dataset.dataset_id, most=_MOST_RUNS),
        may_delete=caller.owns(dataset.tenant) and may_use(caller, delete_dataset, "POST"),
    )


@router.get(_ONE + "/delete")
@needs(Permission.WRITE, by_tenant=True)
def ask_to_delete(request: Request, dataset: Own) -> Response:
    """Ask for confirmation."""
    message = Markup(
        "<strong>{}</strong> is deleted with all of its versions. Its runs stay, with what they were run on."
    ).format(one_line(dataset.name))
    return ask(request, _question(dataset, message))


@router.post(_ONE + "/delete")
@needs(Permission.WRITE, by_tenant=True)
def delete_dataset(dataset: Own, context: ContextDep) -> Response:
    """Delete a dataset with all of its versions."""
    context.store.datasets.delete(dataset, now_us=context.now_ns() // 1000)
    return see_other("/datasets")


def _question(dataset: Dataset, message: Markup) -> Confirmation:
    place = f"/datasets/{dataset.dataset_id}"
    return Confirmation(
        title="Delete a dataset", message=message, action=f"{place}/delete", button="Delete the dataset", back=place
    )


def _form(request: Request, values: dict[str, str], problems: dict[str, str], *, status: int = 200) -> Response:
    return page(request, "dataset_form.html", status=status, values=values, problems=problems)
