"""The page "Go to": links to pages, agents, projects and saved views; the command palette takes its entries from it."""

from typing import Final
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.base.routing import CallerDep, ContextDep
from collector.web.rendering import in_snapshot, page
from collector.web.visitor import page_router

router = page_router()

_DAY_NS: Final = 86_400 * 10**9


@router.get("/go")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def show_places(request: Request, context: ContextDep, caller: CallerDep) -> Response:
    """Show links to the pages, the agents of the last day, the projects and the saved views."""
    now_ns, tenant = context.now_ns(), caller.visible_tenant
    services = context.store.agents.since(now_ns - _DAY_NS, now_ns, project=None, tenant=tenant)
    agents = sorted({each.service for each in services if each.service})
    projects = context.store.rulebook.project_names("" if caller.sees_all else caller.tenant)
    places = {
        "Agent": [(name, f"/traces?{urlencode({'service': name})}") for name in agents],
        "Project": [(name, f"/?{urlencode({'project': name})}") for name in projects],
        "Saved view": [
            (view.name, f"/traces?{urlencode({'view': view.view_id})}")
            for view in context.store.saved_views.find(tenant)
        ],
    }
    return page(request, "places.html", places=places)
