"""Texts of API keys: generation, digests, and masking of keys within other texts."""

import hashlib
import re
import secrets
from typing import Final

PREFIX: Final = "tj_"
"""Prefix of all keys, by which secret scanners find keys that were committed by mistake."""

_HINT_CHARACTERS: Final = 8
_KEY: Final = re.compile(r"tj_[A-Za-z0-9_-]{20,}")


def new_key() -> str:
    """Make a key of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(key: str) -> bytes:
    """Return the stored digest of a key.

    SHA-256 without salt or stretching is right here, and would be wrong for passwords: 2^256 keys cannot be tried out,
    however fast each try is, and a digest must be computed for every request.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def hint_of(key: str) -> str:
    """Return the beginning of a key, by which a person recognises it: 30 of its 256 bits."""
    return key[:_HINT_CHARACTERS]


def masked(text: str) -> str:
    """Mask whatever looks like one of our keys in a text."""
    return _KEY.sub(f"{PREFIX}***", text)


def bearer(authorization: str | None) -> str | None:
    """Return the key in an `Authorization` header; None without a header, "" if it holds something else."""
    if authorization is None:
        return None
    scheme, _, key = authorization.strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
