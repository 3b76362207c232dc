"""A run: its sums, the requested items, and one of them beside its expected output."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.offline.run_export import exported
from collector.api.offline.runs import Own, Seen
from collector.experiments.exports import REPORT_FORMS, RunForm
from collector.result_labels import NO_VERDICT, NOT_PASSED, PASSED
from collector.web.navigation import may_use
from collector.web.offline.promoting import promote_item
from collector.web.quality.quality_numbers import short_print
from collector.web.rendering import page, plain_text, see_other
from collector.web.visitor import FormDep, page_router
from storage.errors import NotFound
from storage.offline.run_items import ItemCriteria
from storage.offline.runs import Run

router = page_router()

_ONE: Final = "/runs/{run_id}"
_PAGE_ROWS: Final = 50
_MOST_EVALUATORS: Final = 3  # whose scores stand in the list
_TEXTS: Final = ("inputs", "expected_outputs", "actual_outputs", "metadata", "error")

OUTCOMES: Final[Mapping[str, str]] = {
    "passed": PASSED,
    "not_passed": NOT_PASSED,
    "error": "error",
    "not_evaluated": NO_VERDICT,
    "unjudged": "not judged",
}
"""Outcomes of an item, in words."""

_ORDERS: Final = (("order", "run order"), ("score", "lowest score"), ("latency", "slowest"), ("cost", "highest cost"))
ItemNumber = Annotated[int, Path(ge=1, le=2**62)]


class ItemQuery(BaseModel):
    """Query parameters of the list of items, and the item to show whole."""

    outcome: Literal["", "passed", "not_passed", "error", "not_evaluated", "unjudged"] = ""
    evaluator: str = Field(default="", max_length=200)
    text: str = Field(default="", max_length=1_000)
    sort: Literal["order", "score", "cost", "latency"] = "order"
    item: int | None = Field(default=None, ge=1, le=2**62)
    page: int = Field(default=0, ge=0, le=MAX_PAGE)


@router.get(_ONE)
@needs(Permission.READ, by_tenant=True)
def show_run(
    request: Request, run: Seen, context: ContextDep, caller: CallerDep, query: Annotated[ItemQuery, Query()]
) -> Response:
    """Show the numbers of a run, its items, and one of these."""
    like = ItemCriteria(
        outcome=query.outcome or None,
        text=query.text.strip() or None,
        evaluator=query.evaluator or None,
        sort=query.sort,
    )
    sums = context.store.runs.sums([run.run_id])[run.run_id]
    if like == ItemCriteria():  # unfiltered: no search through all items
        items, total = (
            context.store.run_items.page(run.run_id, skip=query.page * _PAGE_ROWS, most=_PAGE_ROWS),
            sums.items,
        )
    else:
        items, total = _page_of(context, run, like, query.page)
    chosen = _item(context, run, query.item) if query.item else next(iter(items), None)
    return page(
        request,
        "run.html",
        run=run,
        sums=sums,
        config=json.loads(run.metadata),
        query=query,
        is_filtered=bool(like.outcome or like.text or like.evaluator),
        items=[_listed(each) for each in items],
        chosen=None if chosen is None else _shown(chosen),
        columns=[each.name for each in sums.evaluators][:_MOST_EVALUATORS],
        total=total,
        page_rows=_PAGE_ROWS,
        is_last=(query.page + 1) * _PAGE_ROWS >= total,
        outcomes=OUTCOMES,
        orders=_ORDERS,
        forms=REPORT_FORMS,
        short_print=short_print,
        may_promote=may_use(caller, promote_item, "POST"),
        may_pin=caller.owns(run.tenant) and may_use(caller, pin_run, "POST"),
    )


@router.post(_ONE + "/pin")
@needs(Permission.WRITE, by_tenant=True)
def pin_run(run: Own, context: ContextDep, form: FormDep) -> Response:
    """Keep a run beyond its expiry, or with `keep` 0 no longer."""
    context.store.runs.pin(run, keep=form.text("keep") != "0", now_us=context.now_ns() // 1000)
    return see_other(f"/runs/{run.run_id}")


@router.get(_ONE + "/export")
@needs(Permission.READ, by_tenant=True)
def export_run(run: Seen, context: ContextDep, form: Annotated[RunForm, Query(alias="format")] = "json") -> Response:
    """Export the run as a file."""
    return exported(context, run, form)


@router.get(_ONE + "/items/{number}/text")
@needs(Permission.READ, by_tenant=True)
def show_text(run: Seen, number: ItemNumber, context: ContextDep, of: str = "inputs") -> Response:
    """Show the whole of a text that the run's page cuts."""
    row = _item(context, run, number)
    if of not in _TEXTS or row[of] is None:
        raise HTTPException(404, "there is no such text here")
    return plain_text(row[of])


def _page_of(context: Context, run: Run, like: ItemCriteria, number: int) -> tuple[list[dict[str, Any]], int]:
    numbers, total = context.store.run_items.chosen(run.run_id, like, skip=number * _PAGE_ROWS, most=_PAGE_ROWS)
    return context.store.run_items.by_number(run.run_id, numbers), total


def _item(context: Context, run: Run, number: int) -> Mapping[str, Any]:
    rows = context.store.run_items.by_number(run.run_id, [number])
    if not rows:
        raise NotFound("this run has no such item")
    return rows[0]


def _listed(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "row": item,
        "input": readable(item["inputs"]),
        "scores": {score["name"]: score for score in item["scores"]},
    }


def _shown(item: Mapping[str, Any]) -> dict[str, Any]:
    return _listed(item) | {
        "expected": readable(item["expected_outputs"]),
        "actual": readable(item["actual_outputs"]),
        "metadata": json.loads(item["metadata"]),
    }


def readable(text: str) -> object:
    """Parse a map for display: a map with one value becomes that value, an empty one None."""
    value = json.loads(text)
    if isinstance(value, dict) and len(value) == 1:
        return next(iter(value.values()))
    return value or None
