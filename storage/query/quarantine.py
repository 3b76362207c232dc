"""Statements that triggered a bug of DuckDB, and their callers: both are refused for some minutes."""

import hashlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar

from storage.errors import BadQuery, Barred

ALLOWED: Final = 3
"""Number of statements of a caller that may break the database within `_FORGOTTEN_S`; then the caller is refused. A
guess: each one stops all users for 0.1 s on a large database, and a client that met a bug by accident will rephrase."""

_FORGOTTEN_S: Final = 600.0
_REMEMBERED: Final = 1_000

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Offences:
    """The latest statements that broke the database, and their callers. Thread-safe."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._statements: OrderedDict[bytes, float] = OrderedDict()
        self._askers: OrderedDict[str, list[float]] = OrderedDict()
        self.count = 0

    def check(self, client_id: str, statement: str) -> None:
        """Refuse a caller whose statements broke the database too often, and a statement that broke it recently.

        Raises:
            Barred: this caller's statements broke the database too often.
            BadQuery: the statement broke the database recently.
        """
        with self._lock:
            since_s = self._now_s() - _FORGOTTEN_S
            lately = [at_s for at_s in self._askers.get(client_id, ()) if at_s > since_s]
            if len(lately) >= ALLOWED:
                wait_s = math.ceil(lately[-ALLOWED] - since_s)
                raise Barred("statements of this key made the database fail too often", retry_after_s=wait_s)
            if self._statements.get(_digest(statement), -math.inf) > since_s:
                raise BadQuery("this statement made the database fail a short time ago, and is refused")

    def add(self, client_id: str, statement: str) -> None:
        """Note that a statement broke the database."""
        with self._lock:
            now_s = self._now_s()
            self.count += 1
            _note(self._statements, _digest(statement), now_s)
            _note(self._askers, client_id, [*self._askers.get(client_id, [])[-ALLOWED:], now_s])


def _note(remembered: "OrderedDict[_Key, _Value]", key: _Key, value: _Value) -> None:
    remembered[key] = value
    remembered.move_to_end(key)
    if len(remembered) > _REMEMBERED:
        remembered.popitem(last=False)


def _digest(statement: str) -> bytes:
    return hashlib.blake2b(statement.strip().encode(errors="replace"), digest_size=16).digest()
