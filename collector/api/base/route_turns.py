"""Routes that run in threads in turn, so that no client takes all threads and processors."""

from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import cached_property
from inspect import iscoroutinefunction
from typing import Any, Final, get_args, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import Match
from starlette.types import Scope

from collector.access.caller import Caller
from collector.access.permission import changes, requirements_of
from collector.api.base.fair_scheduler import FairScheduler
from collector.api.base.json_bodies import read_large
from collector.api.base.request_turns import SMALL_BYTES, RouteSchedulers
from collector.path_names import name_in, route_path

MATCHED: Final = "tracejury.matched"
"""Key of an ASGI scope: the matched route, and the entries that it adds to the scope."""


class ScheduledRoute(APIRoute):
    """A route whose large JSON is parsed in a thread, and which runs in a thread in its client's turn.

    A coroutine takes no turn: it runs on the event loop.
    """

    @cached_property
    def _beginning(self) -> str:
        return self.path.partition("{")[0]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return the match of the gate if there is one, else match the path, comparing literal prefixes first."""
        if matched := scope.get(MATCHED):
            route, child = matched
            return (Match.FULL, child) if route is self else (Match.NONE, {})
        path = route_path(scope)
        if not path.startswith(self._beginning):
            return Match.NONE, {}
        match, child = super().matches({**scope, "path": path})
        if parameters := child.get("path_params"):
            child["path_params"] = {key: name_in(value) for key, value in parameters.items()}
        return match, child

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:  # noqa: D102 - overrides
        handle = super().get_route_handler()
        is_on_loop, has_json = iscoroutinefunction(self.endpoint), self.body_field is not None
        checked = {method for method in self.methods or () if _is_checked(self, method)}
        known = _query_names(self.dependant)

        async def wait_and_handle(request: Request) -> Response:
            if request.method in checked:
                _check_query(request, known)
            turns: RouteSchedulers = request.app.state.context.route_turns
            async with AsyncExitStack() as stack:
                caller: Caller = request.state.caller

                def turn_of(kind: FairScheduler) -> AbstractAsyncContextManager[None]:
                    return kind.turn(request.is_disconnected, client_id=caller.client)

                if not is_on_loop and len(await request.body()) > SMALL_BYTES:
                    # Keep this slot until the response, even if the client leaves: the body still takes time and
                    # memory.
                    await stack.enter_async_context(turn_of(turns.large))
                if has_json:
                    await read_large(request, turns.bodies)
                if not is_on_loop:
                    await stack.enter_async_context(turn_of(turns.changes if changes(request.method) else turns.reads))
                return await handle(request)

        return wait_and_handle


def _takes_spans(route: APIRoute) -> bool:
    # Exporters of applications add parameters of their own to the URL.
    return any(requirements_of(route.endpoint, method).takes_spans for method in route.methods or ())


def _is_checked(route: APIRoute, method: str) -> bool:
    # Trackers append parameters to pages, probes and scrapers to `/health`, `/ready` and `/metrics`, and clients of
    # other servers to routes outside the contract, such as Jaeger's.
    return route.include_in_schema and not _takes_spans(route) and (changes(method) or route.path.startswith("/api/"))


def _check_query(request: Request, known: Mapping[str, bool]) -> None:
    """Refuse unknown and repeated parameters, and empty ones of DELETE, as an unset shell variable produces them.

    If the server ignored them, it would change, delete or list more than the client meant.
    """
    pairs = request.query_params.multi_items()
    counts, problems = Counter(name for name, _ in pairs), {}
    for name, value in pairs:
        if name not in known:
            problems[name] = f"unknown query parameter; {_listed(known)}"
        elif counts[name] > 1 and not known[name]:
            problems[name] = "the query parameter is repeated; send it once"
        elif not value and request.method == "DELETE":
            problems[name] = "the query parameter is empty; give it a value, or leave it out"
    if problems:
        raise RequestValidationError(
            [{"type": "query", "loc": ("query", name[:100]), "msg": text} for name, text in problems.items()]
        )


def _query_names(dependant: Dependant) -> dict[str, bool]:
    """Return the query parameters, and whether each may be repeated.

    They come from single parameters, from models, and from dependencies.
    """
    names: dict[str, bool] = {}
    for each in dependant.query_params:
        kind = each.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names |= {field.alias or name: _is_list(field.annotation) for name, field in kind.model_fields.items()}
        else:
            names[each.alias] = _is_list(kind)
    for dependency in dependant.dependencies:
        names |= _query_names(dependency)
    return names


def _is_list(kind: object) -> bool:
    return any(get_origin(each) is list for each in (kind, *get_args(kind)))


def _listed(names: Collection[str]) -> str:
    return f"known are {', '.join(sorted(names))}" if names else "this request takes none"
