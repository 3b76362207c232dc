"""What may be done, who may do it, and how a route says what it asks for."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., object])
_MARK: Final = "__tracejury_need__"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Permission(StrEnum):
    """One kind of thing to do. `OPEN` asks for nothing, not even a key.

    `SEE_QUEUES` is looking at queues of reviews and at what is in them, `REVIEW` is answering their questions.
    """

    OPEN = "OPEN"
    READ = "READ"
    SEE_QUEUES = "SEE_QUEUES"
    REVIEW = "REVIEW"
    SEND = "SEND"
    WRITE = "WRITE"
    ADMINISTER = "ADMINISTER"


class Role(StrEnum):
    """What a key is for."""

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
"""What each role may do. A key that sends spans is in the environment of an application, so it can read nothing.
Whoever reviews sees nothing but what he is asked about, so that what judges said cannot sway him."""


def may(role: Role, permission: Permission) -> bool:
    """Whether a role grants it."""
    return permission in GRANTS[role]


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a route asks for.

    `by_tenant` is its promise that whatever it shows or changes belongs to the asker's tenant, or is shared where it is
    only shown. Routes that do not promise it are closed to keys with a tenant.
    """

    permission: Permission
    by_tenant: bool = False
    takes_files: bool = False  # its body is a file, which may be larger than a request else may be
    takes_spans: bool = False  # its body is read, bounded and counted as that of an export request


def needs(
    permission: Permission, *, by_tenant: bool = False, takes_files: bool = False, takes_spans: bool = False
) -> Callable[[_Endpoint], _Endpoint]:
    """Declare what a route asks for; below the line that makes it a route."""

    def declare(endpoint: _Endpoint) -> _Endpoint:
        need = Need(permission=permission, by_tenant=by_tenant, takes_files=takes_files, takes_spans=takes_spans)
        setattr(endpoint, _MARK, need)
        return endpoint

    return declare


def need_of(endpoint: object, method: str) -> Need:
    """What a route asks for: as it declares, else reading where its method changes nothing, and writing elsewhere."""
    declared = getattr(endpoint, _MARK, None)
    if isinstance(declared, Need):
        return declared
    return Need(permission=Permission.READ if method in _SAFE else Permission.WRITE)


def changes(method: str) -> bool:
    """Whether a method is one of those that change something."""
    return method not in _SAFE
