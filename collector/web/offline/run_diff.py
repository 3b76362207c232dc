"""Two runs side by side: the gate's verdict, and each item with the outputs of both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import BaseModel, Field

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.gating.run_diff import baseline_for
from collector.api.gating.run_gate import compared_runs
from collector.api.offline.runs import Seen
from collector.experiments.comparing import Baseline, ComparedRuns
from collector.experiments.side_by_side import DIFF_FILTERS, DiffCase, DiffFilter, cases_of
from collector.gating.gate import Policy
from collector.web.offline.marked import marked
from collector.web.offline.run import OUTCOMES, readable
from collector.web.rendering import page
from collector.web.text import block, value_text
from collector.web.visitor import page_router
from rules.statistics.runs.options import Options
from storage.errors import Conflict
from storage.offline.runs import Run

router = page_router()

_ONE: Final = "/runs/{run_id}/diff"
_PAGE_ROWS: Final = 50
_MOST_EVALUATORS: Final = 3  # whose scores stand in the list
_MOST_BASELINES: Final = 50
_ENDED: Final = frozenset({"SUCCESS", "FAILED"})

_SHOWN: Final[Mapping[str, "DiffFilter"]] = {
    "": "ALL",
    "changed": "CHANGED",
    "worse": "REGRESSED",
    "better": "IMPROVED",
    "same": "UNCHANGED",
    "unscored": "UNSCORED",
    "added": "ADDED",
    "removed": "REMOVED",
}
"""Filters of the list: values of the query parameter `show`, and of the API."""

MOVEMENTS: Final[Mapping[str, tuple[str, str]]] = {
    "REGRESSED": ("worse", "bad"),
    "IMPROVED": ("better", "good"),
    "UNCHANGED": ("same", ""),
    "UNSCORED": ("unscored", "warn"),
    "ADDED": ("added", "accent"),
    "REMOVED": ("removed", "warn"),
}
"""Label and colour of each movement of an item."""


class DiffQuery(BaseModel):
    """Query parameters: the baseline, the filter of the list, and the item to show whole."""

    baseline: str = Field(default="", max_length=100)
    show: Literal["", "changed", "worse", "better", "same", "unscored", "added", "removed"] = ""
    slices: str = Field(default="", max_length=200)
    item: int | None = Field(default=None, ge=0, le=2**31)
    page: int = Field(default=0, ge=0, le=MAX_PAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCase:
    """An item with the outputs of both runs; `before` or `after` is None if that run does not have the item."""

    case: "DiffCase"
    input: object
    expected: object
    before: Markup | None
    after: Markup | None


@router.get(_ONE)
@needs(Permission.READ, by_tenant=True)
def show_run_diff(
    request: Request, run: Seen, context: ContextDep, caller: CallerDep, query: Annotated[DiffQuery, Query()]
) -> Response:
    """Show the verdict on a run and a baseline, and their items, flips first."""
    shown: dict[str, Any] = {"run": run, "query": query, "before": None, "comparison": None, "problem": None}
    shown["baselines"] = [
        each
        for each in context.store.runs.of_experiment(run.experiment_id, most=_MOST_BASELINES)
        if each.status in _ENDED and each.run_id != run.run_id
    ]
    status = 200
    try:
        baseline = baseline_for(run, query.baseline or None, context, caller) or _other(run, shown["baselines"])
        if baseline is not None:
            shown["before"] = baseline.run
            shown |= _difference(run, baseline, query, context)
    except Conflict as error:
        shown["problem"], status = str(error), 409
    return page(request, "run_diff.html", status=status, **shown)


def _other(run: Run, others: Sequence[Run]) -> Baseline | None:
    # `others` begin with the newest.
    chosen = next((each for each in others if each.started_at_ns < run.started_at_ns), next(iter(others), None))
    warning = "No earlier successful run has the same dataset and branch, so this compares with another run."
    return None if chosen is None else Baseline(chosen, (warning,))


def _difference(run: Run, before: Baseline, query: DiffQuery, context: Context) -> dict[str, Any]:
    options = Options(slices=(query.slices,) if query.slices else ())
    compared = compared_runs(run, before.run, options, context)
    listed = compared.table.listed(DIFF_FILTERS[_SHOWN[query.show]])
    first = query.page * _PAGE_ROWS
    places = listed[first : first + _PAGE_ROWS]
    chosen = query.item if query.item is not None and query.item < compared.table.order.size else None
    chosen = chosen if chosen is not None else next(iter(places), None)
    case = None if chosen is None else cases_of(compared, [chosen], context.store.run_items)[0]
    verdict = compared.decision(Policy(options=options)).document
    return {
        "comparison": compared,
        "verdict": {**verdict, "warnings": [*verdict["warnings"], *before.warnings]},
        "items": rows_of(compared, places),
        "chosen": chosen,
        "case": None if case is None else _shown(case, compared),
        "columns": [each.name for each in compared.table.columns][:_MOST_EVALUATORS],
        "total": len(listed),
        "page_rows": _PAGE_ROWS,
        "is_last": first + _PAGE_ROWS >= len(listed),
        "flips": (int((compared.table.flips < 0).sum()), int((compared.table.flips > 0).sum())),
        "outcomes": OUTCOMES,
        "words": MOVEMENTS,
        **_words(),
    }


def _words() -> dict[str, Any]:
    from collector.gating import summary  # noqa: PLC0415 - loaded by the first comparison

    names = ("moved_text", "evaluator_text", "needed_text", "interval_text", "p_value_text", "ratio_text")
    return {"titles": summary.VERDICTS} | {name: getattr(summary, name) for name in names}


def rows_of(compared: "ComparedRuns", places: Sequence[int]) -> list[dict[str, Any]]:
    """Return list rows for these indexes of the comparison table, without reading the stored items."""
    from collector.experiments.side_by_side import item_of, scores_of  # noqa: PLC0415 - loaded by the first comparison
    from rules.statistics.runs.items import MOVEMENTS as ways  # noqa: N811, PLC0415 - loaded by the first comparison

    return [
        {
            "place": place,
            "item": item_of(compared, place),
            "movement": ways[compared.table.movements[place]],
            "flip": int(compared.table.flips[place]),
            "scores": scores_of(compared, place)[:_MOST_EVALUATORS],
        }
        for place in places
    ]


def _shown(case: "DiffCase", compared: "ComparedRuns") -> ShownCase:
    side = case.candidate or case.baseline
    pair = compared.pair
    texts, wholes = [], []
    for each, run in ((case.baseline, pair.baseline.run), (case.candidate, pair.candidate.run)):
        texts.append(None if each is None else _output_text(each.row))
        number = 0 if each is None else each.row["item_number"]
        wholes.append(f"/runs/{run.run_id}/items/{number}/text?of=actual_outputs")
    before, after = texts
    shown: tuple[Markup | None, Markup | None]
    if before is not None and after is not None:
        shown = marked(before, after, (wholes[0], wholes[1]))
    else:
        shown = (
            None if before is None else block(before, wholes[0]),
            None if after is None else block(after, wholes[1]),
        )
    return ShownCase(
        case=case,
        input=None if side is None else readable(side.row["inputs"]),
        expected=None if side is None else readable(side.row["expected_outputs"]),
        before=shown[0],
        after=shown[1],
    )


def _output_text(row: Mapping[str, Any]) -> str:
    value = readable(row["actual_outputs"])
    return "" if value is None else value_text(value)
