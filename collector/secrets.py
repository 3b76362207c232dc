"""Secrets at rest: AES-256-GCM under a key that is derived, with a salt for each secret, from one that is configured.

The name of its owner is authenticated with a secret, so that it cannot be decrypted for another owner. The same text
encrypted twice gives two unlike results.
"""

import base64
import binascii
import os
import threading
from collections import OrderedDict
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

VARIABLE: Final = "TRACEJURY_ENCRYPTION_KEY"
LEAST_CHARACTERS: Final = 12
"""Fewest characters of a passphrase. A guess: too many for a slip of the keyboard; the salt and scrypt do the rest."""

_KEY_BYTES: Final = 32
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_FROM_KEY, _FROM_PASSPHRASE = b"\x01", b"\x02"  # the first byte of a stored secret: how its key was derived
_SCRYPT_COST: Final = 1 << 15  # 32 MiB and about 80 ms a secret: measured here
_KEYS_KEPT: Final = 256  # derived keys that are cached


class NoEncryptionKey(Exception):
    """Refusal without an encryption key; the message names the variable."""


class CannotDecrypt(Exception):
    """Refusal of a secret of another key or owner, or a changed one; the message says what to do."""


class Secrets:
    """Encryption with one key, or a refusal without one. Thread-safe."""

    def __init__(
        self,
        key: str | None,
        *,
        older: str | None = None,
        named: str = VARIABLE,
        missing: str = f"secrets are kept encrypted, and {VARIABLE} is not set; set it for the server",
    ) -> None:
        """Set up a key, of 32 bytes as hexadecimal digits or base64, else a passphrase.

        `older` is another key that decrypts, too; errors say `named` for the key, and `missing` if there is none.
        """
        self._key = None if key is None else _Key(key)
        self._older = None if older is None else _Key(older)
        self.named = named
        self.missing = missing

    @property
    def has_key(self) -> bool:
        """Return whether there is a key."""
        return self._key is not None

    def encrypt(self, text: str, *, belongs_to: str) -> bytes:
        """Encrypt a text for storage; decrypting needs the same `belongs_to`.

        Raises:
            NoEncryptionKey: no key is configured.
        """
        return self._required().encrypt(text, belongs_to)

    def decrypt(self, stored: bytes, *, belongs_to: str) -> str:
        """Decrypt a stored text.

        Raises:
            NoEncryptionKey: no key is configured.
            CannotDecrypt: the text was encrypted with another key or for another `belongs_to`, or was changed.
        """
        text = self._required().decrypt(stored, belongs_to)
        if text is None and self._older is not None:
            text = self._older.decrypt(stored, belongs_to)
        if text is None:
            raise CannotDecrypt(
                f"it cannot be decrypted: {self.named} is not the key that it was encrypted with, or it was changed; "
                "set the old key again, or enter the secret anew"
            )
        return text

    def is_current(self, stored: bytes, *, belongs_to: str) -> bool:
        """Return True if the key decrypts the secret, so that the older one is not needed."""
        return self._required().decrypt(stored, belongs_to) is not None

    def _required(self) -> "_Key":
        if self._key is None:
            raise NoEncryptionKey(self.missing)
        return self._key


class _Key:
    """A key, and the keys derived from it."""

    def __init__(self, key: str) -> None:
        raw = as_key(key)
        self._how = _FROM_KEY if raw is not None else _FROM_PASSPHRASE
        self._source = key.encode() if raw is None else raw
        self._derived: OrderedDict[bytes, AESGCM] = OrderedDict()
        self._lock = threading.Lock()

    def encrypt(self, text: str, belongs_to: str) -> bytes:
        salt, nonce = os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
        sealed = self._cipher(salt).encrypt(nonce, text.encode(), self._how + belongs_to.encode())
        return self._how + salt + nonce + sealed

    def decrypt(self, stored: bytes, belongs_to: str) -> str | None:
        """Return the text, or None if the secret was not encrypted with this key for `belongs_to`."""
        how, rest = stored[:1], stored[1:]
        salt, nonce = rest[:_SALT_BYTES], rest[_SALT_BYTES : _SALT_BYTES + _NONCE_BYTES]
        try:
            text = self._cipher(salt).decrypt(nonce, rest[_SALT_BYTES + _NONCE_BYTES :], how + belongs_to.encode())
        except (InvalidTag, ValueError):
            return None
        return text.decode()

    def _cipher(self, salt: bytes) -> AESGCM:
        with self._lock:
            cipher = self._derived.get(salt)
            if cipher is None:
                cipher = self._derived[salt] = AESGCM(_DERIVE[self._how](self._source, salt))
            self._derived.move_to_end(salt)
            if len(self._derived) > _KEYS_KEPT:
                self._derived.popitem(last=False)
            return cipher


def as_key(configured: str) -> bytes | None:
    """Decode a hexadecimal or base64 text of 32 bytes; None for a passphrase."""
    text = configured.strip()
    for decoded in (_hex(text), _base64(text)):
        if decoded is not None and len(decoded) == _KEY_BYTES:
            return decoded
    return None


def _hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _base64(text: str) -> bytes | None:
    plain = text.translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _from_key(key: bytes, salt: bytes) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=_KEY_BYTES, salt=salt, info=b"tracejury secret").derive(key)


def _from_passphrase(passphrase: bytes, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=_KEY_BYTES, n=_SCRYPT_COST, r=8, p=1).derive(passphrase)


_DERIVE: Final = {_FROM_KEY: _from_key, _FROM_PASSPHRASE: _from_passphrase}
