"""The key with which a server encrypts secrets: the configured one, else one generated at the first start.

A generated key is a file in the data directory that only its owner can read. It is generated only while there are no
secrets: a new key would silently make secrets that another key encrypted unreadable.
"""

import logging
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from collector.secrets import VARIABLE, CannotDecrypt, Secrets
from collector.units import count_text
from storage.errors import Overloaded
from storage.store import Store

log = logging.getLogger(__name__)

KEY_FILE: Final = "encryption.key"
_PLACE: Final = f"{KEY_FILE} of the data directory"  # in errors, since clients must not see paths of the machine
_MOST_BYTES: Final = 1024
_NAMED: Final = 5
_KEY: Final = re.compile(r"[0-9a-fA-F]{64}")
_LOST: Final = (
    f"put the file back, or set {VARIABLE} to the key that they were encrypted with; "
    f"if both are lost, set it to a new key and enter the secrets again"
)


class _Replace(Protocol):
    def __call__(self, *, sealed: bytes, before: bytes) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSecret:
    """A secret of the database."""

    name: str  # for logs and errors
    belongs_to: str
    sealed: bytes
    replace: _Replace


def kept_secrets(store: Store) -> Sequence[KeptSecret]:
    """Return all secrets of a store."""
    connections = [
        KeptSecret(
            name=f"the key of the connection {row.name!r}",
            belongs_to=owner_of_connection(row.tenant, row.connection_id),
            sealed=row.secret,
            replace=partial(store.connections.replace_secret, row.connection_id),
        )
        for row in store.connections.all()
        if row.secret is not None and not row.is_deleted
    ]
    webhooks = [
        KeptSecret(
            name=f"the secrets of the webhook {webhook.url}",
            belongs_to=owner_of_webhook(webhook.webhook_id),
            sealed=webhook.sealed,
            replace=partial(store.webhooks.replace_secret, webhook.webhook_id),
        )
        for webhook in store.webhooks.all()
        if webhook.sealed is not None
    ]
    return [*connections, *webhooks]


def owner_of_connection(tenant: str, connection_id: str) -> str:
    """Return the associated data of a connection's encrypted key, which cannot be decrypted for another row."""
    return f"llm_connection {tenant} {connection_id}"


def owner_of_webhook(webhook_id: str) -> str:
    """Return the associated data of a webhook's encrypted secrets."""
    return f"alert webhook {webhook_id}"


def secrets_for_looking(directory: Path, configured: str | None) -> Secrets:
    """Return the cipher of a data directory for a command, which never generates a key."""
    file = directory / KEY_FILE
    try:
        made = _read(file, _PLACE)
    except BadKeyFile as error:
        made, why = None, f"{error}; {_LOST}"
    else:
        why = f"secrets are kept encrypted, {VARIABLE} is not set, and {_PLACE} is not there; {_LOST}"
    if configured is not None:
        return Secrets(configured, older=made)
    return Secrets(made, named=_PLACE, missing=why)


def secrets_of_server(store: Store, directory: Path, configured: str | None) -> Secrets:
    """Return the cipher of a server; generate the first key, or re-encrypt stored secrets with the configured key."""
    file = directory / KEY_FILE
    kept = kept_secrets(store)
    if configured is None and not kept and not os.path.lexists(file):
        try:
            make_key(directory)
        except OSError as error:
            log.warning("cannot create a key for secrets: %s is not writable: %s", file, error.strerror)
    secrets = secrets_for_looking(directory, configured)
    if configured is not None:
        _encrypt_again(secrets, kept, file)
    if lost := unreadable(secrets, kept):
        why = f"another key than {secrets.named} encrypted them" if secrets.has_key else secrets.missing
        log.error("%s: %s: %s", directory, cannot_be_read(lost), why)
    elif not secrets.has_key and os.path.lexists(file):
        log.error("%s: no secret can be stored: %s", directory, secrets.missing)
    return secrets


def unreadable(secrets: Secrets, kept: Sequence[KeptSecret]) -> Sequence[KeptSecret]:
    """Return the secrets that no available key decrypts."""
    return [each for each in kept if not secrets.has_key or not _opens(secrets, each)]


def cannot_be_read(lost: Sequence[KeptSecret]) -> str:
    """Describe secrets that cannot be read."""
    names = [each.name for each in lost[:_NAMED]] + ([f"{len(lost) - _NAMED} more"] if len(lost) > _NAMED else [])
    return f"{count_text(len(lost), 'secret')} cannot be read: {', '.join(names)}"


def make_key(directory: Path, key: str | None = None) -> None:
    """Store `key`, or a new one of 32 random bytes, unless the directory has one. The file is written atomically."""
    file, part = directory / KEY_FILE, directory / f"{KEY_FILE}.{os.urandom(8).hex()}.part"
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as writing:
            writing.write(f"{key or os.urandom(32).hex()}\n")
            writing.flush()
            os.fsync(writing.fileno())
        with suppress(FileExistsError):
            os.link(part, file)  # a rename would replace a key that another process has made meanwhile
            log.info("created %s, which encrypts secrets; backups do not contain it, so keep a copy elsewhere", file)
    finally:
        part.unlink(missing_ok=True)
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def take_key(file: Path, directory: Path) -> None:
    """Copy a generated key from elsewhere into a data directory, unless that has one.

    Raises:
        BadKeyFile: the file holds no key.
        OSError: the copy cannot be written.
    """
    key = _read(file, str(file))
    if key is None:
        raise BadKeyFile(f"{file} is not there")
    make_key(directory, key)


class BadKeyFile(Exception):
    """Refusal of a file that should hold a key."""


def _read(file: Path, name: str) -> str | None:
    """Read a generated key from a file, which errors call `name`; None if the file does not exist."""
    try:
        with file.open("rb") as reading:
            text = reading.read(_MOST_BYTES).decode("ascii", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadKeyFile(f"{name} cannot be read: {error.strerror}") from error
    if not _KEY.fullmatch(text.strip()):
        raise BadKeyFile(f"{name} does not hold a key of 64 hexadecimal digits")
    return text.strip()


def _encrypt_again(secrets: Secrets, kept: Sequence[KeptSecret], file: Path) -> None:
    """Re-encrypt with the configured key what the generated key encrypted, so that its file is no longer needed."""
    count = 0
    for each in kept:
        if secrets.is_current(each.sealed, belongs_to=each.belongs_to) or not _opens(secrets, each):
            continue
        text = secrets.decrypt(each.sealed, belongs_to=each.belongs_to)
        try:
            each.replace(sealed=secrets.encrypt(text, belongs_to=each.belongs_to), before=each.sealed)
        except Overloaded as error:
            log.warning("%s is still encrypted with %s: %s", each.name, file, error)
        else:
            count += 1
    if count:
        message = "encrypted %d secrets with %s, which %s opened until now; keep the file for the backups of before"
        log.info(message, count, VARIABLE, file)


def _opens(secrets: Secrets, kept: KeptSecret) -> bool:
    try:
        secrets.decrypt(kept.sealed, belongs_to=kept.belongs_to)
    except CannotDecrypt:
        return False
    return True
