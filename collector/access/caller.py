"""The caller of a request, by its key, and its address."""

from dataclasses import dataclass
from typing import Final

from collector.access.permission import Permission, Role, may


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a request, by its key."""

    role: Role
    key_id: str | None  # None: he showed none, and none is needed
    key_name: str | None = None
    tenant: str = ""  # owner of the data that the caller writes
    sees_all: bool = True  # the rows of every tenant, not only of his own and the shared ones
    address: str = ""  # where the request comes from

    @property
    def client(self) -> str:
        """Return the name of the client for fair queues: its key, or its address without one.

        The key of a tenant comes after its tenant and a slash, as `group_of` reads it.
        """
        if self.key_id and self.tenant:
            return f"{self.tenant}/{self.key_id}"
        return self.key_id or self.address

    @property
    def visible_tenant(self) -> str | None:
        """Return the tenant whose rows the caller sees beside the shared ones; None for all."""
        return None if self.sees_all else self.tenant

    def sees(self, tenant: str) -> bool:
        """Return True if the caller sees the data of a tenant; "" stands for shared data."""
        return self.sees_all or tenant in {self.tenant, ""}

    def owns(self, tenant: str) -> bool:
        """Return True if the caller may change the data of a tenant; "" stands for shared data."""
        return self.sees_all or (tenant != "" and tenant == self.tenant)

    def may(self, permission: Permission) -> bool:
        """Return True if the caller's role grants it."""
        return may(self.role, permission)


ANYBODY: Final = Caller(role=Role.ADMIN, key_id=None)
"""The caller of a server without keys."""

READER: Final = Caller(role=Role.VIEWER, key_id=None, sees_all=False)
"""The caller without a key of a server whose reads are open: sees shared data, and none of any tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """A request: its method, its path, its id, and the address of its client."""

    method: str
    path: str
    address: str
    request_id: str | None = None
