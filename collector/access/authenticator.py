"""Authentication of requests, for all listeners."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from collector.access.attempts import LIMIT, Attempts
from collector.access.caller import ANYBODY, READER, Caller, RequestInfo
from collector.access.errors import AccessRefused, Forbidden, TooMany, Unauthenticated
from collector.access.journal import AuditJournal
from collector.access.keyring import Keyring
from collector.access.pace import KeyRateLimits, Rates
from collector.access.permission import Permission, Requirements
from collector.access.secret import bearer, digest
from collector.meters import Traffic

_KEYLESS_S: Final = 3600.0
_MOST_KEYLESS: Final = 200  # addresses that are remembered; a guess
_NS: Final = 1_000_000_000
_SENDING: Final = Requirements(permission=Permission.SEND, by_tenant=True)


class Authenticator:
    """Authentication and authorization of requests. For the event loop; never blocks.

    `journal` stores writes and refusals, `traffic` counts all requests by outcome.
    """

    def __init__(
        self, keyring: Keyring, journal: AuditJournal, *, reads_are_open: bool, rates: Rates | None = None
    ) -> None:
        self.keyring = keyring
        self.journal = journal
        self.traffic = Traffic()
        self.reads_are_open = reads_are_open
        self._attempts = Attempts()
        self._keyless: dict[tuple[bool, str], float] = {}  # last use, by whether it sends and its address
        self._pace = KeyRateLimits(rates or Rates())

    def enter(
        self,
        authorization: str | None,
        request_info: RequestInfo,
        need: Requirements,
        without_key: Callable[[], None] | None = None,
        *,
        signed_in: bytes | None = None,
    ) -> Caller:
        """Return the caller of a request. `without_key` is called before a request without a key passes.

        `signed_in` is the digest of a key that was good before; it counts if no key is sent, while it is still valid.

        Raises:
            AccessRefused: the request may not pass; the refusal names the caller if known.
        """
        caller = self._signed_in(authorization, signed_in, need.permission)
        if caller is None:
            caller = self._caller(bearer(authorization), request_info, need.permission)
        shows_none = caller.key_id is None or (authorization is None and signed_in is None)
        if shows_none and without_key is not None and need.permission is not Permission.OPEN:
            without_key()
        try:
            check(caller, need)
        except AccessRefused as error:
            error.caller = caller
            raise
        return replace(caller, address=request_info.address)

    def enter_to_send(
        self, authorization: str | None, request_info: RequestInfo, without_key: Callable[[], None] | None = None
    ) -> Caller:
        """Return the caller of a request to a listener for spans, within the rates of its key.

        Raises:
            AccessRefused: the request may not pass.
        """
        caller = self.enter(authorization, request_info, _SENDING, without_key)
        try:
            self._pace.admit(caller.key_id or "", time.monotonic())
        except AccessRefused as error:
            error.caller = caller
            raise
        return caller

    def client_of(self, authorization: str | None, address: str) -> str:
        """Return the client of a request that was let in before, as `Caller.client`."""
        key = bearer(authorization)
        caller = None if key is None else self.keyring.find(digest(key), time.time_ns() // 1000)
        return address if caller is None else replace(caller, address=address).client

    def sign_in(self, key: str, request_info: RequestInfo) -> Caller:
        """Return the caller whose key was entered in a form.

        Raises:
            AccessRefused: the key is not valid, or there were too many wrong ones from the address.
        """
        return self._by_key(key, request_info)

    def sent(self, caller: Caller, nbytes: int) -> None:
        """Count the bytes that a caller sent."""
        self._pace.sent(caller.key_id or "", nbytes, time.monotonic())

    def _caller(self, key: str | None, request_info: RequestInfo, permission: Permission) -> Caller:
        if permission is Permission.OPEN:
            return READER
        if self.keyring.is_open:
            if not (self.reads_are_open and permission is Permission.READ):  # open also once there are keys
                self._note_keyless(request_info, permission)
            return ANYBODY
        if key is None:
            sender = self.keyring.sender_without_key(time.time_ns() // 1000) if permission is Permission.SEND else None
            if sender is not None:
                return sender
            if self.reads_are_open and permission is Permission.READ:
                return READER
            raise Unauthenticated
        return self._by_key(key, request_info)

    def keyless_clients(self) -> dict[str, list[str]]:
        """Return addresses whose requests of the last hour need a key once one exists: to send spans, and others."""
        since_s = time.monotonic() - _KEYLESS_S
        recent = sorted(each for each, at_s in list(self._keyless.items()) if at_s >= since_s)
        return {"sent": [at for sends, at in recent if sends], "asked": [at for sends, at in recent if not sends]}

    def _note_keyless(self, request_info: RequestInfo, permission: Permission) -> None:
        client = (permission is Permission.SEND, request_info.address)
        self._keyless.pop(client, None)
        self._keyless[client] = time.monotonic()
        if len(self._keyless) > _MOST_KEYLESS:
            del self._keyless[next(iter(self._keyless))]

    def _signed_in(self, authorization: str | None, signed_in: bytes | None, permission: Permission) -> Caller | None:
        if authorization is not None or signed_in is None or permission is Permission.OPEN or self.keyring.is_open:
            return None
        return self.keyring.find(signed_in, time.time_ns() // 1000)

    def _by_key(self, key: str, request_info: RequestInfo) -> Caller:
        key_digest, now_s = digest(key), time.monotonic()
        wait_s = self._attempts.wait_s(request_info.address, key_digest, now_s)
        if wait_s:
            raise TooMany(f"more wrong API keys came from this address than {LIMIT}", retry_after_s=wait_s)
        caller = self.keyring.find(key_digest, time.time_ns() // 1000)
        if caller is None:
            self._attempts.failed(request_info.address, key_digest, now_s)
            raise Unauthenticated
        self._attempts.succeeded(request_info.address, key_digest)
        return caller


def check(caller: Caller, need: Requirements) -> None:
    """Check that the caller has the permission that is needed.

    Raises:
        AccessRefused: the caller lacks the permission, or has a tenant and the route does not keep tenants apart.
    """
    if not caller.may(need.permission):
        raise Forbidden(f"a key with the role {caller.role} may not do this")
    if not caller.sees_all and not need.by_tenant and need.permission is not Permission.OPEN:
        if caller.key_id is None:
            raise Unauthenticated
        raise Forbidden("this is not for keys with a tenant, as it covers all tenants; use a key without one")
