"""The list of traces."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from collector.access.permission import Permission, needs
from collector.api.context import Context, Here, Who
from collector.api.trace_filters import place_of, place_text
from collector.web.rendering import page
from collector.web.traces.trace_list import SINCE, VERDICTS, asked_of, chips, rows_of
from collector.web.visitor import with_parameters

router = APIRouter()

_PAGE_ROWS = 50


@router.get("/")
@needs(Permission.READ, by_tenant=True)
def first_page() -> Response:
    """The list of traces is where people begin."""
    return RedirectResponse("/traces", 303)


@router.get("/traces")
@needs(Permission.READ, by_tenant=True)
def list_traces(request: Request, here: Here, who: Who, before: str = "", live: str = "") -> Response:
    """Traces of which all is true that the address asks for, newest first."""
    asked = asked_of(request, here.now_ns())
    after = place_of(before) if before else None
    listed = here.listing.traces(asked.like, after=after, limit=_PAGE_ROWS, tenant=who.sight)
    older = None if listed.next is None else with_parameters(request, before=place_text(listed.next), live=None)
    return page(
        request,
        "traces.html",
        asked=asked.values,
        is_detailed=asked.is_detailed,
        chips=chips(request, asked),
        rows=rows_of(listed.traces, here.listing.briefs(listed.traces, listed.commits)),
        older=older,
        newest=with_parameters(request, before=None) if before else None,
        searched_to_ns=None if listed.is_full or listed.next is None else listed.next.start_ns,
        is_live=live == "1" and not before,
        projects=_projects(here, who.tenant if not who.sees_all else ""),
        times=[(key, f"Last {told}") for key, (told, _) in SINCE.items()],
        verdicts=list(VERDICTS),
        rules=sorted({kept.active.rule.name for kept in here.rules.kept()}) if who.sees_all else [],
        is_empty=not listed.traces and not asked.given and after is None,
        address_of_door=_door(request),
    )


def _projects(here: Context, tenant: str) -> list[str]:
    return sorted({project.name for project in here.rulebook.projects(tenant)})


def _door(request: Request) -> str:
    """Where an application on the same machine sends, if nothing else is configured."""
    return f"http://{request.url.hostname}:4318"
