"""Whoever asks: the caller, once his key is known, and where he calls from."""

from dataclasses import dataclass
from typing import Final

from collector.access.permission import Permission, Role, may


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, by the key that he showed."""

    role: Role
    key_id: str | None  # None: he showed none, and none is needed
    key_name: str | None = None
    tenant: str = ""  # what he writes belongs to it
    sees_all: bool = True  # the rows of every tenant, not only of his own and the shared ones
    address: str = ""  # where the request comes from

    @property
    def client(self) -> str:
        """The client that shares room and places with others: its key, or its address if it shows none.

        The key of a tenant comes after its tenant and a slash, as `group_of` reads it.
        """
        if self.key_id and self.tenant:
            return f"{self.tenant}/{self.key_id}"
        return self.key_id or self.address

    @property
    def visible_tenant(self) -> str | None:
        """The tenant whose rows he sees beside the shared ones; None for those of all."""
        return None if self.sees_all else self.tenant

    def sees(self, tenant: str) -> bool:
        """Whether he sees what belongs to a tenant, or to none: that is shared."""
        return self.sees_all or tenant in {self.tenant, ""}

    def owns(self, tenant: str) -> bool:
        """Whether what belongs to a tenant, or to none, is his to change."""
        return self.sees_all or (tenant != "" and tenant == self.tenant)

    def may(self, permission: Permission) -> bool:
        """Whether his role grants it."""
        return may(self.role, permission)


ANYBODY: Final = Caller(role=Role.ADMIN, key_id=None)
"""The caller of a server that asks for no key."""

READER: Final = Caller(role=Role.VIEWER, key_id=None, sees_all=False)
"""Who shows no key to a server whose reads are open: sees what is shared, and nothing of any tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """One request: what for, and where from."""

    method: str
    path: str
    address: str
    request_id: str | None = None
