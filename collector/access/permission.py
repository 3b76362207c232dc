"""Permissions, the roles that grant them, and their declaration on routes."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., object])
_MARK: Final = "__tracejury_need__"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Permission(StrEnum):
    """A permission. `OPEN` needs no key.

    `SEE_QUEUES` is to read review queues and their entries, `REVIEW` is to answer their questions.
    """

    OPEN = "OPEN"
    READ = "READ"
    SEE_QUEUES = "SEE_QUEUES"
    REVIEW = "REVIEW"
    SEND = "SEND"
    WRITE = "WRITE"
    ADMINISTER = "ADMINISTER"


class Role(StrEnum):
    """Role of a key."""

    VIEWER = "VIEWER"
    EDITOR = "EDITOR"
    ADMIN = "ADMIN"
    INGEST = "INGEST"
    REVIEWER = "REVIEWER"


GRANTS: Final[dict[Role, frozenset[Permission]]] = {
    Role.INGEST: frozenset({Permission.OPEN, Permission.SEND}),
    Role.REVIEWER: frozenset({Permission.OPEN, Permission.SEE_QUEUES, Permission.REVIEW}),
    Role.VIEWER: frozenset({Permission.OPEN, Permission.READ, Permission.SEE_QUEUES}),
    Role.EDITOR: frozenset(Permission) - {Permission.ADMINISTER},
    Role.ADMIN: frozenset(Permission),
}
"""Permissions of each role. A key that sends spans is in the environment of an application, so it can read nothing.
Reviewers can read review queues only, so that the results of judges cannot influence their answers.
"""


def may(role: Role, permission: Permission) -> bool:
    """Return True if a role grants the permission."""
    return permission in GRANTS[role]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Requirements of a route.

    `by_tenant` declares that the route shows only data of the caller's tenant and shared data, and changes only data
    of the tenant. Keys with a tenant cannot use routes without this declaration.
    """

    permission: Permission
    by_tenant: bool = False
    takes_files: bool = False  # its body is a file, for which a higher size limit applies
    takes_spans: bool = False  # its body is read, bounded and counted as that of an export request


def needs(
    permission: Permission, *, by_tenant: bool = False, takes_files: bool = False, takes_spans: bool = False
) -> Callable[[_Endpoint], _Endpoint]:
    """Declare the requirements of a route; put it below the route's decorator."""

    def declare(endpoint: _Endpoint) -> _Endpoint:
        need = Requirements(
            permission=permission, by_tenant=by_tenant, takes_files=takes_files, takes_spans=takes_spans
        )
        setattr(endpoint, _MARK, need)
        return endpoint

    return declare


def requirements_of(endpoint: object, method: str) -> Requirements:
    """Return the declared requirements of a route; by default READ for safe methods, else WRITE."""
    declared = getattr(endpoint, _MARK, None)
    if isinstance(declared, Requirements):
        return declared
    return Requirements(permission=Permission.READ if method in _SAFE else Permission.WRITE)


def changes(method: str) -> bool:
    """Return True if a method changes something."""
    return method not in _SAFE
