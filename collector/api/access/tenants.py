"""Tenant of a request, and the connections and webhooks that the caller sees or owns."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Query

from collector.access.caller import Caller
from collector.access.errors import Forbidden
from collector.api.access.keys import TENANT_PATTERN
from collector.api.base.context import Context
from collector.live.budgets.budgets import SpentToday
from collector.live.judges.llm_connection import LlmConnection
from storage.alerting.webhooks import Webhook
from storage.errors import NotFound

Tenant = Annotated[
    str | None,
    Query(
        pattern=TENANT_PATTERN,
        description="Read as this tenant. If an id is both its own and a shared one, its own counts.",
    ),
]


def visible_tenant_of(caller: Caller, tenant: str | None) -> str | None:
    """Return the tenant whose traces the caller reads, beside the shared ones; None for all tenants.

    Raises:
        Forbidden: the caller does not see that tenant.
    """
    if tenant is None:
        return caller.visible_tenant
    if not caller.sees_all and tenant != caller.tenant:
        raise Forbidden(f"this key sees nothing of tenant {tenant}")
    return tenant


def tenant_of(caller: Caller, tenant: str | None) -> str:
    """Return the tenant whose rows are changed: the named one, else the caller's own.

    Raises:
        Forbidden: the caller does not see that tenant.
    """
    named = visible_tenant_of(caller, tenant)
    return caller.tenant if named is None else named


def refuse_shared(caller: Caller, tenant: str, what: str) -> None:
    """Refuse a change of a shared record, which a caller with a tenant only reads.

    Raises:
        Forbidden: the record is shared.
    """
    if not caller.owns(tenant):
        raise Forbidden(f"{what} belongs to no tenant, so a key with one may look at it and not change it")


def connections_seen(context: Context, caller: Caller) -> list[LlmConnection]:
    """List the connections that the caller sees: a key of a tenant sees the tenant's own and the shared ones."""
    return [each for each in context.judging.connections.all() if _sees(caller, each)]


def connection_seen(context: Context, caller: Caller, connection_id: str) -> LlmConnection:
    """Return a connection that the caller sees.

    Raises:
        NotFound: the caller sees no such connection.
    """
    connection = context.judging.connections.get(connection_id)
    if not _sees(caller, connection):
        raise NotFound(f"there is no connection {connection_id}")
    return connection


def own_connection(context: Context, caller: Caller, connection_id: str) -> LlmConnection:
    """Return a connection that the caller may change.

    Raises:
        NotFound: the caller sees no such connection.
        Forbidden: the connection is shared.
    """
    connection = connection_seen(context, caller, connection_id)
    refuse_shared(caller, connection.row.tenant, f"the connection {connection.row.name!r}")
    return connection


def spent_over_connections(context: Context, caller: Caller) -> list[SpentToday]:
    """Return today's spending over each connection; for a caller with a tenant, on its own spans only."""
    budgets = context.judging.budgets
    return budgets.today() if caller.visible_tenant is None else budgets.today_for(caller.visible_tenant)


def own_webhooks(caller: Caller, webhooks: Iterable[Webhook]) -> list[Webhook]:
    """Return the webhooks that the caller owns; with a tenant, none that belong to no tenant."""
    return [each for each in webhooks if caller.owns(each.tenant)]


def _sees(caller: Caller, connection: LlmConnection) -> bool:
    return caller.owns(connection.row.tenant) or connection.is_shared
