"""Pages of connections to models: their cost today, and forms that change them. No page contains a key."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from markupsafe import Markup

from collector.access.permission import Permission, needs
from collector.api.access.tenants import connection_seen, connections_seen, own_connection, spent_over_connections
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.documents.connection_documents import connection_document
from collector.api.documents.rule_documents import judge_problems
from collector.connection_text import BadText
from collector.live.budgets.budgets import SpentToday
from collector.live.judges.llm_connection import LlmConnection
from collector.web.confirming import Confirmation, ask, attempt
from collector.web.edit_conflict import EditConflict, version_seen
from collector.web.navigation import may_use
from collector.web.operations.connection_form import (
    LABELS,
    by_field,
    connection_of,
    overtaken_by,
    values_of,
    values_sent,
)
from collector.web.operations.spending import SpendingMeasure, measures
from collector.web.rendering import page, see_other
from collector.web.text import one_line
from collector.web.visitor import Form, FormDep, page_router
from storage.errors import Conflict, Stale

router = page_router()

_PROTOCOLS = [("RESPONSES", "Responses"), ("CHAT_COMPLETIONS", "Chat Completions"), ("ANTHROPIC", "Anthropic Messages")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConnectionFormState:
    """State of the form of a connection, without its key."""

    values: Mapping[str, object]
    version: int = 0  # of the connection, when its form was first shown
    problems: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[str] = ()  # the problems that belong to no field
    overtaken: EditConflict | None = None


@router.get("/connections")
@needs(Permission.READ, by_tenant=True)
def list_connections(request: Request, context: ContextDep, caller: CallerDep) -> Response:
    """List connections by name; keys with a tenant see their own and those that their rules may use."""
    spent = spent_over_connections(context, caller)
    problems = judge_problems(context, caller)
    rows = [
        (each, _measures(each, spent), problems.of_connection(each.connection_id))
        for each in connections_seen(context, caller)
    ]
    return page(
        request, "connections.html", rows=rows, changed_ns=_ns, may_edit=may_use(caller, create_connection, "POST")
    )


@router.get("/connections/new")
@needs(Permission.ADMINISTER, by_tenant=True)
def new_connection(request: Request) -> Response:
    """Show the form of a new connection."""
    return _form(request, None, _ConnectionFormState(values=values_of({"protocol": "RESPONSES"})))


@router.post("/connections/new")
@needs(Permission.ADMINISTER, by_tenant=True)
def create_connection(request: Request, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Add a connection."""
    try:
        created = context.judging.connections.create(connection_of(form, {}), caller.tenant)
    except (BadText, Conflict) as error:
        return _refused(request, None, form, error)
    return see_other(f"/connections/{created.connection_id}")


@router.get("/connections/{connection_id}")
@needs(Permission.READ, by_tenant=True)
def show_connection(request: Request, connection_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Show a connection."""
    return _shown(request, context, caller, connection_seen(context, caller, connection_id))


@router.post("/connections/{connection_id}/test")
@needs(Permission.ADMINISTER, by_tenant=True)
def test_connection(request: Request, connection_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Send its model one tiny request, and show the result."""
    connection = own_connection(context, caller, connection_id)
    return _shown(request, context, caller, connection, context.connection_trials.ask(connection).document())


@router.get("/connections/{connection_id}/edit")
@needs(Permission.ADMINISTER, by_tenant=True)
def edit_connection(request: Request, connection_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Show the form of a connection."""
    connection = own_connection(context, caller, connection_id)
    return _form(
        request,
        connection,
        _ConnectionFormState(values=values_of(connection_document(connection, ())), version=connection.row.version),
    )


@router.post("/connections/{connection_id}/edit")
@needs(Permission.ADMINISTER, by_tenant=True)
def replace_connection(
    request: Request, connection_id: str, context: ContextDep, caller: CallerDep, form: FormDep
) -> Response:
    """Store a form as a connection, unless the connection was changed since the form was shown."""
    connection = own_connection(context, caller, connection_id)
    document = connection_of(form, connection_document(connection, ()))
    try:
        context.judging.connections.replace(connection_id, document, seen={version_seen(form)})
    except (BadText, Conflict) as error:
        return _refused(request, connection, form, error)
    except Stale:
        now = own_connection(context, caller, connection_id)
        conflict = overtaken_by(now, form, document)
        shown = _ConnectionFormState(values=values_sent(form), version=now.row.version, overtaken=conflict)
        return _form(request, now, shown, status=409)
    return see_other(f"/connections/{connection_id}")


@router.get("/connections/{connection_id}/delete")
@needs(Permission.ADMINISTER, by_tenant=True)
def ask_to_delete(request: Request, connection_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Ask for confirmation."""
    return ask(request, _question(own_connection(context, caller, connection_id)))


@router.post("/connections/{connection_id}/delete")
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_connection(request: Request, connection_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Delete a connection and its key."""
    connection = own_connection(context, caller, connection_id)
    delete = partial(context.judging.connections.delete, connection_id)
    return attempt(request, _question(connection), delete, then="/connections")


def _measures(connection: LlmConnection, spent: Sequence[SpentToday]) -> list[SpendingMeasure]:
    key = ("connection", "", connection.connection_id)
    today = next((each for each in spent if (each.kind, each.tenant, each.identity) == key), None)
    return measures(today, None if connection.text.budget is None else connection.text.budget.budget())


def _ns(moment: dt.datetime) -> int:
    return int(moment.replace(tzinfo=dt.UTC).timestamp() * 1_000_000) * 1_000


def _shown(
    request: Request,
    context: Context,
    caller: CallerDep,
    connection: LlmConnection,
    trial: dict[str, Any] | None = None,
) -> Response:
    is_own = caller.owns(connection.row.tenant)
    return page(
        request,
        "connection.html",
        connection=connection,
        problem=judge_problems(context, caller).of_connection(connection.connection_id),
        spent_today=_measures(connection, spent_over_connections(context, caller)),
        changed_ns=_ns,
        trial=trial,
        is_own=is_own,
        may_test=is_own and may_use(caller, test_connection, "POST"),
        may_edit=is_own and connection.row.origin != "FILE" and may_use(caller, replace_connection, "POST"),
    )


def _form(
    request: Request, connection: LlmConnection | None, shown: _ConnectionFormState, *, status: int = 200
) -> Response:
    return page(
        request,
        "connection_form.html",
        status=status,
        connection=connection,
        shown=shown,
        labels=LABELS,
        protocols=_PROTOCOLS,
    )


def _refused(request: Request, connection: LlmConnection | None, form: Form, error: BadText | Conflict) -> Response:
    """Show the form as sent, with its problems by field; without the key."""
    shown = _ConnectionFormState(values=values_sent(form), version=version_seen(form))
    if isinstance(error, BadText):
        problems, others = by_field(error.problems)
        return _form(request, connection, replace(shown, problems=problems, others=others), status=400)
    return _form(request, connection, replace(shown, others=[str(error)]), status=409)


def _question(connection: LlmConnection) -> Confirmation:
    place = f"/connections/{connection.connection_id}"
    message = Markup("This deletes the connection {} and its key. Its past usage stays recorded.")
    return Confirmation(
        title="Delete a connection",
        message=message.format(one_line(connection.row.name)),
        action=f"{place}/delete",
        button="Delete the connection",
        back=place,
    )
