"""Signatures that show who sent a webhook: `X-Dokimos-Signature`, and the headers of Standard Webhooks.

Sources: the specification at standardwebhooks.com, "Webhook metadata" and "Signature scheme".
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from secrets import token_bytes

_PREFIX = "whsec_"
_LEAST_KEY_BYTES, _MOST_KEY_BYTES = 24, 64
_LONGEST_SECRET = 512


class BadSecret(ValueError):
    """Refusal of a secret that cannot sign; the message says why, without the secret."""


def check_secret(secret: str) -> None:
    """Refuse a secret that one of the two signature schemes cannot use.

    Raises:
        BadSecret: the secret is empty, too long or not printable, or begins with `whsec_` without a valid base64 key.
    """
    if not 0 < len(secret) <= _LONGEST_SECRET:
        raise BadSecret(f"a secret has 1 to {_LONGEST_SECRET} characters")
    if not secret.isprintable() or secret != secret.strip():
        raise BadSecret("a secret is printable text without spaces around it")
    if secret.startswith(_PREFIX) and _decoded(secret) is None:
        raise BadSecret(f"{_PREFIX} must be followed by {_LEAST_KEY_BYTES} to {_MOST_KEY_BYTES} bytes in base64")


def new_secret() -> str:
    """Make a secret of 256 random bits for both signature schemes."""
    return _PREFIX + base64.b64encode(token_bytes(32)).decode("ascii")


def standard_key(secret: str) -> bytes:
    """Return the key of Standard Webhooks: of `whsec_…` the decoded base64, of any other text its UTF-8."""
    return (_decoded(secret) if secret.startswith(_PREFIX) else None) or secret.encode()


def signature_headers(body: bytes, *, event_id: str, timestamp_s: int, secrets: Sequence[str]) -> dict[str, str]:
    """Return the signature headers of a body, with a signature per secret; without secrets, only the id and time.

    `X-Dokimos-Signature` is made with the newest secret as text.
    """
    headers = {"webhook-id": event_id, "webhook-timestamp": str(timestamp_s)}
    if secrets:
        signed = f"{event_id}.{timestamp_s}.".encode() + body
        headers["webhook-signature"] = " ".join(_standard(secret, signed) for secret in secrets)
        headers["X-Dokimos-Signature"] = hmac.new(secrets[0].encode(), body, hashlib.sha256).hexdigest()
    return headers


def _standard(secret: str, signed: bytes) -> str:
    digest = hmac.new(standard_key(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode('ascii')}"


def _decoded(secret: str) -> bytes | None:
    """Decode a base64 key, padded or not; None if its length does not fit."""
    text = secret.removeprefix(_PREFIX).rstrip("=")
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if _LEAST_KEY_BYTES <= len(key) <= _MOST_KEY_BYTES else None
