"""How a webhook shows who sent it: `X-Dokimos-Signature`, and the headers of Standard Webhooks.

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
    """Nothing can be signed with it; the message says why, and not what it was."""


def check_secret(secret: str) -> None:
    """Refuse what the two ways to sign cannot both use.

    Raises:
        BadSecret: it is empty or too long, or looks like a key in base64 and is none.
    """
    if not 0 < len(secret) <= _LONGEST_SECRET:
        raise BadSecret(f"a secret has 1 to {_LONGEST_SECRET} characters")
    if not secret.isprintable() or secret != secret.strip():
        raise BadSecret("a secret is printable text without spaces around it")
    if secret.startswith(_PREFIX) and _decoded(secret) is None:
        raise BadSecret(
            f"what begins with {_PREFIX} goes on with the base64 of {_LEAST_KEY_BYTES} to {_MOST_KEY_BYTES} bytes"
        )


def new_secret() -> str:
    """A secret that both ways to sign can use, of 256 random bits."""
    return _PREFIX + base64.b64encode(token_bytes(32)).decode("ascii")


def standard_key(secret: str) -> bytes:
    """The key of Standard Webhooks: of `whsec_…` what its base64 stands for, of any other text its UTF-8."""
    return (_decoded(secret) if secret.startswith(_PREFIX) else None) or secret.encode()


def signature_headers(body: bytes, *, event_id: str, timestamp_s: int, secrets: Sequence[str]) -> dict[str, str]:
    """The headers over a body, for the secrets in use, the newest first; without any, the id and the time alone.

    `X-Dokimos-Signature` is made with the newest secret as it was written.
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
    """The bytes of a key in base64, with or without its padding; None where it is none of a fitting length."""
    text = secret.removeprefix(_PREFIX).rstrip("=")
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if _LEAST_KEY_BYTES <= len(key) <= _MOST_KEY_BYTES else None
