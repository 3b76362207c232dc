"""Connections and receivers as far as they are the caller's: for the API's routes, and for the pages alike."""

from collections.abc import Iterable

from collector.access.caller import Caller
from collector.api.access.tenants import refuse_shared
from collector.api.base.context import Context
from collector.live.budgets.budgets import SpentToday
from collector.live.judges.llm_connection import LlmConnection
from storage.alerting.webhooks import Webhook
from storage.errors import Missing


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
    return budgets.today() if who.sight is None else budgets.today_for(who.sight)


def own_webhooks(who: Caller, webhooks: Iterable[Webhook]) -> list[Webhook]:
    """Those of the caller: a key with a tenant does not see those of nobody."""
    return [each for each in webhooks if who.owns(each.tenant)]


def _sees(who: Caller, found: LlmConnection) -> bool:
    return who.owns(found.row.tenant) or found.is_shared
