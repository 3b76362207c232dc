"""Routes whose work in a thread waits for its turn, so that no client takes all threads and processors."""

import os
from collections.abc import Callable, Collection, Coroutine
from inspect import iscoroutinefunction
from typing import Any, Final

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from collector.access.caller import Caller
from collector.access.permission import Permission, changes, need_of
from collector.api.base.json_bodies import BodyParser, read_large
from collector.api.base.turns import Turns
from storage.errors import BadQuery

_READS_AT_ONCE: Final = 16
_READS_OF_ONE: Final = max(2, os.cpu_count() or 1)
_CHANGES_AT_ONCE: Final = 16
_CHANGES_OF_ONE: Final = 8
"""Together fewer than the 40 threads of the pool. DuckDB takes all processors for each read: with two processors and
one key that searched over 60 connections, pages of another key took 9.9 s at most with all threads, 2.8 s with four for
each client and 1.5 s with two. Changes mostly wait for their commit: a guess."""

_WAIT_S: Final = 30.0
"""A guess: browsers and programs wait that long."""


class RouteTurns:
    """Turns of the requests whose routes run in threads, those that read and those that change; and of large bodies."""

    def __init__(self) -> None:
        self.reads = Turns(at_once=_READS_AT_ONCE, of_one=_READS_OF_ONE, wait_s=_WAIT_S)
        self.changes = Turns(at_once=_CHANGES_AT_ONCE, of_one=_CHANGES_OF_ONE, wait_s=_WAIT_S)
        self.bodies = BodyParser()


class TurnRoute(APIRoute):
    """A route whose large JSON is parsed in a thread. It runs in one itself once it is the turn of its client.

    A coroutine takes no turn: it runs on the event loop.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:  # noqa: D102 - overrides
        handle = super().get_route_handler()
        is_on_loop, has_json = iscoroutinefunction(self.endpoint), self.body_field is not None
        known = _query_names(self.dependant) if self.include_in_schema and not _sends(self) else None

        async def wait_and_handle(request: Request) -> Response:
            if known is not None and changes(request.method):
                _check_query(request, known)
            turns: RouteTurns = request.app.state.context.route_turns
            if has_json:
                await read_large(request, turns.bodies)
            if is_on_loop:
                return await handle(request)
            await request.body()
            caller: Caller = request.state.caller
            kind = turns.changes if changes(request.method) else turns.reads
            async with kind.turn(request.is_disconnected, asker=caller.client):
                return await handle(request)

        return wait_and_handle


def _sends(route: APIRoute) -> bool:
    """Return whether a route takes what applications send, with whatever their exporters add to its address."""
    return any(need_of(route.endpoint, method).permission is Permission.SEND for method in route.methods or ())


def _check_query(request: Request, known: Collection[str]) -> None:
    """Refuse a change by a query in which a condition is misspelt, repeated, or empty as an unset variable is.

    Else more would be changed or deleted than the client means. No route that changes something takes a list there.

    Raises:
        BadQuery: it is; the message names the parameter.
    """
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        if name not in known:
            raise BadQuery(f"unknown query parameter {name[:100]!r}; {_listed(known)}")
        if name in seen:
            raise BadQuery(f"the query parameter {name!r} is repeated; send it once")
        if not value and request.method == "DELETE":
            raise BadQuery(f"the query parameter {name!r} is empty; name what is to go, or leave it out")
        seen.add(name)


def _query_names(dependant: Dependant) -> set[str]:
    """Return the names in an address: of single parameters, of models of several, and of what a route depends on."""
    names: set[str] = set()
    for each in dependant.query_params:
        kind = each.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names.update(field.alias or name for name, field in kind.model_fields.items())
        else:
            names.add(each.alias)
    return names.union(*map(_query_names, dependant.dependencies))


def _listed(names: Collection[str]) -> str:
    return f"known are {', '.join(sorted(names))}" if names else "this request takes none"
