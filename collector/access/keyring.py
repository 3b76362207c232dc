"""The API keys of the server: a copy in memory of the stored keys."""

import hmac
import threading
import time
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Final

from collector.access import secret
from collector.access.caller import Caller
from collector.access.errors import Forbidden
from collector.access.permission import Role
from storage.errors import Conflict, NotFound
from storage.limit import Limit
from storage.operation.access import Access, ApiKey

MAX_KEYS: Final = 1_000
"""Maximum number of keys of no tenant. A guess: more than people can keep apart."""

MAX_OF_TENANT: Final = 100
"""Maximum number of keys of one tenant; those of other tenants do not count. A guess."""

OPERATOR: Final = "operator"
"""The id in the audit of the key that is set as TRACEJURY_API_KEY."""

OWN: Final = "tracejury"
"""The id under which the server's own key appears in the audit."""

_WITHOUT_KEY: Final = secret.digest("\0")  # no header can contain this text
"""The digest of a placeholder key: while it is stored and valid, export requests without a key are accepted."""

_LASTING: Final = "there has to be an enabled ADMIN key of no tenant that does not expire, or TRACEJURY_API_KEY"
_US: Final = 1_000_000
_USE_IS_NOTED_AFTER_US: Final = 600 * _US
"""Minimum time between two updates of the stored last use of a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDraft:
    """Settings of a new key."""

    name: str
    role: Role
    tenant: str | None = None  # None: the tenant of the caller that creates the key
    expires_us: int | None = None
    ingest_open_until_us: int | None = None  # export requests need no key until then


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """A key that is accepted, by its digest, and the caller that it stands for."""

    digest: bytes
    caller: Caller
    expires_us: int | None = None


class Keyring:
    """Callers by key. A lookup reads a dictionary that is replaced as a whole when keys change.

    Once there is any key, also one that is disabled or has expired, requests without one are refused, unless reads
    or ingest are open. A lasting administrator credential is the key of the settings, or an enabled
    ADMIN key of no tenant that does not expire. The first key must be such a credential, and the last such credential
    cannot be disabled or deleted.
    """

    def __init__(self, access: Access, operator_key: str | None) -> None:
        self._access = access
        self._operator = None if operator_key is None else secret.digest(operator_key)
        self.own_key = secret.new_key()  # for this process alone, which sends spans of its own requests to judges
        self._changing = threading.Lock()
        self._used_us: dict[str, int] = {}
        self._keys: dict[str, ApiKey] = {}
        self._openings: dict[bytes, _Opening] = {}
        self._reload()

    @property
    def is_open(self) -> bool:
        """Return True while no key exists, so none is needed."""
        return self._operator is None and not self._keys

    @property
    def has_lasting_credential(self) -> bool:
        """Return True if a credential can administer the server, and does not expire."""
        return self._operator is not None or any(map(_lasts, self._keys.values()))

    def find(self, digest: bytes, now_us: int) -> Caller | None:
        """Return the caller of a key by its digest; None if the key is not valid."""
        opening = self._openings.get(digest)
        if opening is None or not hmac.compare_digest(opening.digest, digest):
            return None
        if opening.expires_us is not None and now_us >= opening.expires_us:
            return None
        if opening.caller.key_id in self._keys:
            self._used_us[opening.caller.key_id] = now_us
        return opening.caller

    def keys(self, caller: Caller) -> list[ApiKey]:
        """Return the keys that a caller administers: all, or those of the caller's tenant; oldest first."""
        return [self._fresh(key) for key in self._keys.values() if caller.sees_all or key.tenant == caller.tenant]

    def create(self, draft: KeyDraft, caller: Caller) -> tuple[ApiKey, str]:
        """Create a key; return it and its text, which is not stored.

        If the draft keeps ingest open, a placeholder key for export requests without a key is stored too, and replaces
        an earlier one. It is listed, and can be disabled or deleted like other keys.

        Raises:
            Forbidden: the key would belong to another tenant than the caller, or a tenant would keep ingest open.
            Conflict: the key is the first one and could not administer the server, or there are too many keys.
            Overloaded: nothing can be written now.
        """
        tenant = caller.tenant if draft.tenant is None else draft.tenant
        if not caller.sees_all and tenant != caller.tenant:
            raise Forbidden(f"a key of tenant {caller.tenant!r} makes keys of this tenant only")
        until_us = draft.ingest_open_until_us
        if until_us is not None and not caller.sees_all:
            raise Forbidden("ingest is kept open by keys of no tenant only")
        text = secret.new_key()
        key = ApiKey(
            key_id=f"key_{token_hex(8)}",
            tenant=tenant,
            name=draft.name,
            role=draft.role.value,
            digest=secret.digest(text),
            hint=secret.hint_of(text),
            enabled=True,
            expires_us=draft.expires_us,
            last_used_us=None,
            created_us=time.time_ns() // 1000,
            created_by=caller.key_id,
        )
        opening = replace(
            key,
            key_id=f"key_{token_hex(8)}",
            tenant="",
            name="export requests without a key",
            role=Role.INGEST.value,
            digest=_WITHOUT_KEY,
            hint="",
            expires_us=until_us,
        )
        with self._changing:
            self._require_room(tenant)
            if self.is_open and not _lasts(key):
                raise Conflict(f"with the first key, requests without a key are refused, so {_LASTING}")
            if until_us is None:
                self._access.add_keys([key])
            else:
                closed = [each.key_id for each in self._keys.values() if each.digest == _WITHOUT_KEY]
                self._access.add_keys([key, opening], instead_of=closed)
            self._reload()
        return key, text

    def sender_without_key(self, now_us: int) -> Caller | None:
        """Return the caller that sends spans without a key; None if the server does not allow this."""
        return self.find(_WITHOUT_KEY, now_us)

    def disable(self, key_id: str, caller: Caller) -> ApiKey:
        """Disable a key.

        Raises:
            NotFound: the caller administers no key of this id.
            Conflict: the key is the last one that can administer the server.
            Overloaded: nothing can be written now.
        """
        with self._changing:
            key = self._get(key_id, caller)
            if key.enabled:
                self._require_another(key)
                self._access.disable_key(key_id)
                self._reload()
            return self._fresh(self._keys[key_id])

    def delete(self, key_id: str, caller: Caller) -> None:
        """Delete a key.

        Raises:
            NotFound, Conflict, Overloaded: as for `disable`.
        """
        with self._changing:
            self._require_another(self._get(key_id, caller))
            self._access.delete_key(key_id)
            self._reload()

    def uses_to_note(self) -> dict[str, int]:
        """Return the keys whose last use should be stored again, and the time of that use."""
        keys = self._keys
        return {
            key_id: used_us
            for key_id, used_us in list(self._used_us.items())
            if key_id in keys and used_us - (keys[key_id].last_used_us or 0) > _USE_IS_NOTED_AFTER_US
        }

    def noted(self, uses: dict[str, int]) -> None:
        """Reload the keys after these uses were stored."""
        if uses:
            with self._changing:
                self._reload()

    def _require_room(self, tenant: str) -> None:
        most, of_tenant = (MAX_OF_TENANT, f"of tenant {tenant!r}") if tenant else (MAX_KEYS, "of no tenant")
        if sum(key.tenant == tenant for key in self._keys.values()) >= most:
            limit = Limit(value=most, unit=f"keys {of_tenant}", remedy="delete some first")
            raise Conflict(f"there can be no more than {limit}")

    def _require_another(self, key: ApiKey) -> None:
        others = [other for other in self._keys.values() if other.key_id != key.key_id]
        if self._operator is None and (not others or (_lasts(key) and not any(map(_lasts, others)))):
            raise Conflict(f"this is the last key that can administer the server: {_LASTING}")

    def _get(self, key_id: str, caller: Caller) -> ApiKey:
        key = self._keys.get(key_id)
        if key is None or not (caller.sees_all or key.tenant == caller.tenant):
            raise NotFound(f"there is no key {key_id}")
        return key

    def _fresh(self, key: ApiKey) -> ApiKey:
        used_us = max(self._used_us.get(key.key_id, 0), key.last_used_us or 0)
        return replace(key, last_used_us=used_us or None)

    def _reload(self) -> None:
        keys = self._access.keys()
        openings = [
            _Opening(digest=key.digest, caller=_caller_of(key), expires_us=key.expires_us)
            for key in keys
            if key.enabled
        ]
        if self._operator is not None:
            operator = Caller(role=Role.ADMIN, key_id=OPERATOR, key_name="TRACEJURY_API_KEY")
            openings.append(_Opening(digest=self._operator, caller=operator))
        own = Caller(role=Role.INGEST, key_id=OWN, key_name=OWN)
        openings.append(_Opening(digest=secret.digest(self.own_key), caller=own))
        self._openings = {opening.digest: opening for opening in openings}
        self._keys = {key.key_id: key for key in keys}


def _caller_of(key: ApiKey) -> Caller:
    return Caller(role=Role(key.role), key_id=key.key_id, key_name=key.name, tenant=key.tenant, sees_all=not key.tenant)


def _lasts(key: ApiKey) -> bool:
    return key.enabled and key.role == Role.ADMIN and not key.tenant and key.expires_us is None
