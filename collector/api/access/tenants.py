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
from storage.errors import Missing

Tenant = Annotated[
    str | None,
    Query(pattern=TENANT_PATTERN, description="Look as this tenant, which comes first where ids are the same."),
]


def visible_tenant_of(who: Caller, tenant: str | None) -> str | None:
    """Return the tenant whose traces the caller reads, beside the shared ones; None for all tenants.

    Raises:
        Forbidden: the caller does not see that tenant.
    """
    if tenant is None:
        return who.visible_tenant
    if not who.sees_all and tenant != who.tenant:
        raise Forbidden(f"this key sees nothing of tenant {tenant}")
    return tenant


def tenant_of(who: Caller, tenant: str | None) -> str:
    """Return the tenant whose rows are changed: the named one, else the caller's own.

    Raises:
        Forbidden: the caller does not see that tenant.
    """
    named = visible_tenant_of(who, tenant)
    return who.tenant if named is None else named


def refuse_shared(who: Caller, tenant: str, what: str) -> None:
    """Refuse a change of a shared record, which a caller with a tenant only reads.

    Raises:
        Forbidden: the record is shared.
    """
    if not who.owns(tenant):
        raise Forbidden(f"{what} belongs to no tenant, so a key with one may look at it and not change it")


def connections_seen(here: Context, who: Caller) -> list[LlmConnection]:
    """Return the connections that the caller sees, by name: with a tenant, its own and those that its rules may use."""
    return [each for each in here.judging.connections.all() if _sees(who, each)]


def connection_seen(here: Context, who: Caller, connection_id: str) -> LlmConnection:
    """Return a connection that the caller sees.

    Raises:
        Missing: the caller sees no such connection.
    """
    connection = here.judging.connections.get(connection_id)
    if not _sees(who, connection):
        raise Missing(f"there is no connection {connection_id}")
    return connection


def own_connection(here: Context, who: Caller, connection_id: str) -> LlmConnection:
    """Return a connection that the caller may change.

    Raises:
        Missing: the caller sees no such connection.
        Forbidden: the connection is shared.
    """
    connection = connection_seen(here, who, connection_id)
    refuse_shared(who, connection.row.tenant, f"the connection {connection.row.name!r}")
    return connection


def spent_over_connections(here: Context, who: Caller) -> list[SpentToday]:
    """Return today's spending over each connection; for a caller with a tenant, on its own spans only."""
    budgets = here.judging.budgets
    return budgets.today() if who.visible_tenant is None else budgets.today_for(who.visible_tenant)


def own_webhooks(who: Caller, webhooks: Iterable[Webhook]) -> list[Webhook]:
    """Return the webhooks that the caller owns; with a tenant, none that belong to no tenant."""
    return [each for each in webhooks if who.owns(each.tenant)]


def _sees(who: Caller, connection: LlmConnection) -> bool:
    return who.owns(connection.row.tenant) or connection.is_shared
