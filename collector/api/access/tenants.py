"""Whose rows a request is about, and connections and receivers as far as they are the caller's."""

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
    """Whose traces are looked at, beside the shared ones."""
    if tenant is None:
        return who.visible_tenant
    if not who.sees_all and tenant != who.tenant:
        raise Forbidden(f"this key sees nothing of tenant {tenant}")
    return tenant


def tenant_of(who: Caller, tenant: str | None) -> str:
    """Whose rows are changed: the caller's own, or those of the tenant that he names.

    Raises:
        Forbidden: he has no business with that tenant.
    """
    named = visible_tenant_of(who, tenant)
    return who.tenant if named is None else named


def refuse_shared(who: Caller, tenant: str, what: str) -> None:
    """Refuse to change what the caller sees, and what is not his: it is shared.

    Raises:
        Forbidden: so it is.
    """
    if not who.owns(tenant):
        raise Forbidden(f"{what} belongs to no tenant, so a key with one may look at it and not change it")


def connections_seen(here: Context, who: Caller) -> list[LlmConnection]:
    """All of them, by name; to a key with a tenant its own, and those that its rules may use."""
    return [each for each in here.judging.connections.all() if _sees(who, each)]


def connection_seen(here: Context, who: Caller, connection_id: str) -> LlmConnection:
    """The connection, if the caller sees it.

    Raises:
        Missing: there is none.
    """
    found = here.judging.connections.get(connection_id)
    if not _sees(who, found):
        raise Missing(f"there is no connection {connection_id}")
    return found


def own_connection(here: Context, who: Caller, connection_id: str) -> LlmConnection:
    """A connection that belongs to the caller.

    Raises:
        Missing: there is none.
        Forbidden: it is shared.
    """
    found = connection_seen(here, who, connection_id)
    refuse_shared(who, found.row.tenant, f"the connection {found.row.name!r}")
    return found


def spent_over_connections(here: Context, who: Caller) -> list[SpentToday]:
    """What was spent over connections today; what a key with a tenant is told is what was spent for its spans."""
    budgets = here.judging.budgets
    return budgets.today() if who.visible_tenant is None else budgets.today_for(who.visible_tenant)


def own_webhooks(who: Caller, webhooks: Iterable[Webhook]) -> list[Webhook]:
    """The webhooks of the caller: a key with a tenant does not see those of nobody."""
    return [each for each in webhooks if who.owns(each.tenant)]


def _sees(who: Caller, found: LlmConnection) -> bool:
    return who.owns(found.row.tenant) or found.is_shared
