"""The results behind a number, one by one, with the traces that they are about."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Final, Literal

from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import Field

from collector.access.permission import Permission, needs
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import CallerDep, ContextDep
from collector.result_labels import NO_VERDICT, NOT_PASSED, PASSED, SKIPPED
from collector.web.quality.quality_chosen import About, chosen_of
from collector.web.quality.quality_numbers import short_print
from collector.web.questions import questions_of
from collector.web.rendering import in_snapshot, page
from collector.web.visitor import page_router, with_parameters
from storage.alerting.quality import ResultCriteria

router = page_router()

_ROWS: Final = 50
_LAST_US: Final = 1 << 53

VERDICTS: Final[Mapping[str, tuple[str | None, bool | None]]] = {
    "": (None, None),
    "scored": ("scored", None),
    "passed": ("scored", True),
    "failed": ("scored", False),
    "broken": ("failed", None),
    "skipped": ("skipped", None),
}
"""Values of `verdict`, named as in the list of traces (which lacks `scored`): `outcome` and `passed` of the store."""

VERDICT_OPTIONS: Final = (
    ("", "all"),
    ("scored", "scored"),
    ("passed", PASSED),
    ("failed", NOT_PASSED),
    ("broken", NO_VERDICT),
    ("skipped", SKIPPED),
)


class ResultFilter(About):
    """Query parameters of the list of results; unset ones match all. Scores are from `low` to less than `high`."""

    from_us: int | None = Field(default=None, ge=0, le=_LAST_US)
    to_us: int | None = Field(default=None, ge=0, le=_LAST_US)
    fingerprint: str | None = None
    service: str | None = None
    release: str | None = None
    unreleased: bool = False
    verdict: Literal["", "scored", "passed", "failed", "broken", "skipped"] = ""
    low: float | None = None
    high: float | None = None
    order: Literal["latest", "worst"] = "latest"
    page: int = Field(default=0, ge=0, le=MAX_PAGE)

    @property
    def like(self) -> ResultCriteria:
        """Return the filter of the store."""
        outcome, passed = VERDICTS[self.verdict]
        return ResultCriteria(
            from_us=self.from_us,
            to_us=self.to_us,
            fingerprint=self.fingerprint or None,
            service=self.service,
            release=self.release,
            unreleased=self.unreleased,
            outcome=outcome,
            passed=passed,
            low=self.low,
            high=self.high,
            **asdict(self.basis),
        )


@router.get("/quality/results")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def list_results(
    request: Request, context: ContextDep, caller: CallerDep, query: Annotated[ResultFilter, Query()]
) -> Response:
    """List the results of a rule in a project, latest first, or worst first."""
    if not query.rule:
        return RedirectResponse("/quality", 303)
    chosen = chosen_of(context, caller, query)
    rows = context.store.quality.results(
        chosen.key,
        query.like,
        worst=chosen.worst if query.order == "worst" else None,
        offset=query.page * _ROWS,
        limit=_ROWS + 1,
    )
    return page(
        request,
        "quality_results.html",
        chosen=chosen,
        query=query,
        results=rows[:_ROWS],
        questions=questions_of(context, [each.trace_id for each in rows], chosen.key.tenant),
        older=with_parameters(request, page=query.page + 1) if len(rows) > _ROWS else None,
        newer=with_parameters(request, page=query.page - 1 or None) if query.page else None,
        verdicts=VERDICT_OPTIONS,
        short_print=short_print,
    )
