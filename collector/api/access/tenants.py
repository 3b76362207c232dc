"""Whose rows a request is about, where its caller may choose."""

from typing import Annotated

from fastapi import Query

from collector.access.caller import Caller
from collector.access.errors import Forbidden
from collector.api.access.keys import TENANT_PATTERN

Tenant = Annotated[
    str | None,
    Query(pattern=TENANT_PATTERN, description="Look as this tenant, which comes first where ids are the same."),
]


def sight_of(who: Caller, tenant: str | None) -> str | None:
    """Whose traces are looked at, beside the shared ones."""
    if tenant is None:
        return who.sight
    if not who.sees_all and tenant != who.tenant:
        raise Forbidden(f"this key sees nothing of tenant {tenant}")
    return tenant


def tenant_of(who: Caller, tenant: str | None) -> str:
    """Whose rows are changed: the caller's own, or those of the tenant that he names.

    Raises:
        Forbidden: he has no business with that tenant.
    """
    named = sight_of(who, tenant)
    return who.tenant if named is None else named


def refuse_shared(who: Caller, tenant: str, what: str) -> None:
    """Refuse to change what the caller sees, and what is not his: it is shared.

    Raises:
        Forbidden: so it is.
    """
    if not who.owns(tenant):
        raise Forbidden(f"{what} belongs to no tenant, so a key with one may look at it and not change it")
