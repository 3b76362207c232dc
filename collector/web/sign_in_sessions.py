"""Sign-in sessions: a random id in the browser's cookie stands for an API key while that key is valid."""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LIFE_S: Final = 12 * 3600
"""A guess: a working day. After it, or when the server starts again, people sign in again."""

MAX_SESSIONS: Final = 2_000
MAX_PER_KEY: Final = 100
"""Guesses: more people than use one server. Beyond a limit the oldest session ends; the limit per key keeps one key
from displacing all other sessions."""

_ID_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    key_digest: bytes
    until_s: float


class Sessions:
    """Sessions by the digest of their id, so that lookups leak nothing through timing. Thread-safe."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._secret = secrets.token_bytes(_ID_BYTES)
        self._lock = threading.Lock()
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()

    def begin(self, key_digest: bytes) -> str:
        """Begin a session for the key with this digest, and return its id."""
        session_id = new_id()
        with self._lock:
            self._forget(key_digest)
            self._sessions[_hidden(session_id)] = _Session(key_digest=key_digest, until_s=self._clock_s() + LIFE_S)
        return session_id

    def key_of(self, session_id: str) -> bytes | None:
        """Return the key digest of a session; None if it does not exist, or has expired."""
        session = self._sessions.get(_hidden(session_id))
        return None if session is None or self._clock_s() >= session.until_s else session.key_digest

    def end(self, session_id: str) -> None:
        """End a session, if it exists."""
        with self._lock:
            self._sessions.pop(_hidden(session_id), None)

    def token(self, session_id: str) -> str:
        """Return the CSRF token of a session."""
        return hmac.new(self._secret, session_id.encode(), hashlib.sha256).hexdigest()

    def is_token(self, session_id: str, token: str) -> bool:
        """Return True if the token is that of the session."""
        return hmac.compare_digest(self.token(session_id).encode(), token.encode("utf-8", "replace"))

    def _forget(self, key_digest: bytes) -> None:
        """Make room for one more of this key."""
        now_s = self._clock_s()
        for name in [name for name, session in self._sessions.items() if session.until_s <= now_s]:
            del self._sessions[name]
        same = [name for name, session in self._sessions.items() if session.key_digest == key_digest]
        for name in same[: max(len(same) - MAX_PER_KEY + 1, 0)]:
            del self._sessions[name]
        while len(self._sessions) >= MAX_SESSIONS:
            self._sessions.popitem(last=False)


def new_id() -> str:
    """Return an unguessable id."""
    return secrets.token_urlsafe(_ID_BYTES)


def _hidden(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode("utf-8", "replace")).digest()
