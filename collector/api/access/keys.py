"""API keys over HTTP: made, listed, disabled, deleted."""

import datetime as dt
import re
from typing import Annotated

from fastapi.responses import Response
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from collector.access.keyring import KeyDraft
from collector.access.permission import Permission, Role, needs
from collector.api.base.context import Context
from collector.api.base.pages import PARTED, Part
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.times import time_text
from collector.units import count_text
from storage.operation.access import ApiKey

router = api_router(prefix="/api/v1/api-keys", tags=["keys"])

TENANT_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}")
_NAMED = 10
_SHARED = "SELECT count(*) FROM traces WHERE tenant = ''"
_SHARED_S = 10
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST_US = (dt.datetime(9999, 12, 31, tzinfo=dt.UTC) - _EPOCH) // dt.timedelta(microseconds=1)


def _written(value: object) -> object:
    # pydantic would also accept numbers, and numbers as text.
    if not isinstance(value, str) or not _INSTANT.match(value):
        raise ValueError("must be an instant as in RFC 3339, such as 2030-01-31T00:00:00Z")
    return value


Instant = Annotated[AwareDatetime, BeforeValidator(_written)]


class NewKey(BaseModel):
    """A key to be made."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
    role: Role
    tenantId: str | None = Field(
        default=None, pattern=TENANT_PATTERN, description="Null: no tenant, or that of the key in use."
    )
    expiresAt: Instant | None = None
    ingestOpenUntil: Instant | None = Field(
        default=None,
        description="Spans are accepted without a key until then, by a key named `export requests without a key`.",
    )


class KeyDocument(BaseModel):
    """An API key, without its text."""

    id: str
    name: str
    role: Role
    tenantId: str | None
    enabled: bool
    hint: str = Field(description="The first characters of the key.")
    createdAt: str
    createdBy: str | None
    expiresAt: str | None
    lastUsedAt: str | None = Field(description="Within some minutes; the exact time is not stored.")


class MadeKey(KeyDocument):
    """A key just made, with its text."""

    key: str = Field(description="The key itself. It is returned this once, and stored nowhere.")
    warnings: list[str] = Field(description="Clients that the first key locks out; shared rows that a tenant sees.")


@router.get("", responses=PARTED)
@needs(Permission.ADMINISTER, by_tenant=True)
def list_keys(context: ContextDep, caller: CallerDep, part: Part) -> list[KeyDocument]:
    """List keys, oldest first; a key with a tenant sees those of its tenant."""
    return [_document(key) for key in part.of(context.authenticator.keyring.keys(caller))]


@router.post("", status_code=201)
@needs(Permission.ADMINISTER, by_tenant=True)
def create_key(new: NewKey, context: ContextDep, caller: CallerDep) -> MadeKey:
    """Create a key. The first one ends access without a key, and must be an ADMIN key of no tenant without expiry."""
    draft = KeyDraft(
        name=new.name,
        role=new.role,
        tenant=new.tenantId,
        expires_us=_microseconds(new.expiresAt),
        ingest_open_until_us=_microseconds(new.ingestOpenUntil),
    )
    keyring = context.authenticator.keyring
    # Before the key is stored: if this fails, no key is left whose text was not returned.
    warnings = _locked_out(context, new.ingestOpenUntil) if keyring.is_open else []
    warnings += _shared_rows(context, new.role, caller.tenant if new.tenantId is None else new.tenantId)
    key, text = keyring.create(draft, caller)
    return MadeKey(key=text, warnings=warnings, **_document(key).model_dump())


@router.post("/{key_id}/disable")
@needs(Permission.ADMINISTER, by_tenant=True)
def disable_key(key_id: str, context: ContextDep, caller: CallerDep) -> KeyDocument:
    """Disable a key. It stays in the list."""
    return _document(context.authenticator.keyring.disable(key_id, caller))


@router.delete("/{key_id}", status_code=204)
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_key(key_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Delete a key."""
    context.authenticator.keyring.delete(key_id, caller)
    return Response(status_code=204)


def _locked_out(context: Context, until: dt.datetime | None) -> list[str]:
    """Return warnings that name the clients that sent no key before the first one was made."""
    clients = context.authenticator.keyless_clients()
    opened = "are refused from now on"
    if until is not None:
        opened = f"are taken without a key until {until.isoformat()}, then refused"
    reads = ", except to read" if context.authenticator.reads_are_open else ""
    groups = [
        (clients["sent"], f"exporters {opened}: give each a key with the role INGEST"),
        (
            clients["asked"],
            f"pages, commands and clients of the API are refused from now on{reads}: sign in, or send the key",
        ),
    ]
    return [f"{text}. In the last hour without a key: {_listed(addresses)}" for addresses, text in groups if addresses]


def _listed(addresses: list[str]) -> str:
    more = len(addresses) - _NAMED
    return ", ".join(addresses[:_NAMED]) + (f" and {more} more addresses" if more > 0 else "")


def _shared_rows(context: Context, role: Role, tenant: str) -> list[str]:
    """Return a warning if a tenant's key also reads rows of no tenant, such as those stored before tenants existed."""
    if not tenant or role in {Role.INGEST, Role.REVIEWER}:
        return []
    rows = context.store.queries.sql(_SHARED, max_rows=1, timeout_s=_SHARED_S).rows
    count = int(str(rows[0][0]))
    if not count:
        return []
    traces = count_text(count, "trace")
    warning = (
        f"this key, like every tenant's key, also sees the {traces} of no tenant, such as those from before tenants"
    )
    return [f"{warning}. `tracejury delete` deletes them"]


def _document(key: ApiKey) -> KeyDocument:
    return KeyDocument(
        id=key.key_id,
        name=key.name,
        role=Role(key.role),
        tenantId=key.tenant or None,
        enabled=key.enabled,
        hint=key.hint,
        createdAt=_text(key.created_us) or "",
        createdBy=key.created_by,
        expiresAt=_text(key.expires_us),
        lastUsedAt=_text(key.last_used_us),
    )


def _text(instant_us: int | None) -> str | None:
    return time_text(None if instant_us is None else instant_us * 1000)


def _microseconds(instant: dt.datetime | None) -> int | None:
    # Clamp to the times that can be written: after the epoch, and before the year 10000 in any time zone.
    if instant is None:
        return None
    return min(max((instant - _EPOCH) // dt.timedelta(microseconds=1), 1), _LAST_US)
