"""The caller of a request, by its key, and its address."""

from dataclasses import dataclass
from typing import Final

from collector.access.permission import Permission, Role, may


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a request, by its key."""

    role: Role
    key_id: str | None  # None: the request has no key, and needs none
    key_name: str | None = None
    tenant: str = ""  # owner of the data that the caller writes
    sees_all: bool = True  # True: rows of every tenant; False: only shared rows and those of `tenant`
    address: str = ""  # where the request comes from

    @property
    def client(self) -> str:
        """Return the name of the client in fair queues: the id of its key, or its address if it has no key.

        The id of a tenant's key is preceded by the tenant and a slash, which `group_of` splits.
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
        """Return True if the caller's role grants the permission."""
        return may(self.role, permission)


ANYBODY: Final = Caller(role=Role.ADMIN, key_id=None)
"""The caller of a server without keys."""

READER: Final = Caller(role=Role.VIEWER, key_id=None, sees_all=False)
"""The caller of a request without a key, if the server allows reading without one: sees shared data only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """A request: its method, its path, its id, and the address of its client."""

    method: str
    path: str
    address: str
    request_id: str | None = None
