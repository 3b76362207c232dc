"""The audit: entries are gathered in memory, repeated ones counted, and stored once a second by a separate thread."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from collector.access.caller import Caller, RequestInfo
from collector.access.keyring import Keyring
from collector.access.secret import masked
from collector.follower import WaitLog
from storage.errors import Overloaded
from storage.operation.access import Access, AuditEntry

log = logging.getLogger(__name__)

_INTERVAL_S: Final = 1.0
_MOST_AT_ONCE: Final = 1_000
"""Maximum number of different entries between two writes to the store; further requests are only counted by status. A
guess: 200 bytes each."""

_PATH_CHARACTERS: Final = 200
_DETAIL_CHARACTERS: Final = 300
_MORE: Final = "(more than was kept apart)"


class AuditJournal:
    """Log of writes and refusals. `start` begins to store them; `close` stores the rest.

    A crash loses the entries of the last second. While the store refuses writes, entries wait in memory: at most
    `_MOST_AT_ONCE` different ones, and further requests are only counted by status.
    """

    def __init__(
        self, access: Access, keyring: Keyring, *, kept: int, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._access = access
        self._keyring = keyring
        self._kept = kept
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._entries: dict[tuple[object, ...], AuditEntry] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self.noted: dict[int, int] = {}  # number of noted requests, by status

    def start(self) -> None:
        """Begin to store."""
        self._thread.start()

    def close(self) -> None:
        """Store the rest, and stop."""
        self._stop.set()
        self._thread.join()

    def note(self, request_info: RequestInfo, caller: Caller | None, status: int, detail: str | None = None) -> None:
        """Add a write or a refused request to the entries; from any thread, and without waiting."""
        entry = AuditEntry(
            at_us=self._clock_ns() // 1000,
            key_id=caller.key_id if caller else None,
            key_name=caller.key_name if caller else None,
            tenant=caller.tenant if caller else "",
            address=request_info.address,
            method=request_info.method[:20],
            path=masked(request_info.path)[:_PATH_CHARACTERS],
            status=status,
            detail=None if detail is None else masked(detail)[:_DETAIL_CHARACTERS],
            request_id=request_info.request_id,
        )
        self._add(entry)

    def _add(self, entry: AuditEntry) -> None:
        with self._lock:
            self.noted[entry.status] = self.noted.get(entry.status, 0) + entry.times
            self._keep(entry)

    def _keep(self, entry: AuditEntry) -> None:
        alike = _alike(entry)
        if alike not in self._entries and len(self._entries) >= _MOST_AT_ONCE:
            entry = replace(entry, key_id=None, key_name=None, tenant="", request_id=None)
            entry = replace(entry, address="", method="", path="", detail=_MORE)
            alike = _alike(entry)
        before = self._entries.get(alike)
        self._entries[alike] = entry if before is None else replace(before, times=before.times + entry.times)

    def store(self) -> None:
        """Store the entries gathered so far at once, without waiting for the interval.

        Raises:
            Overloaded: nothing can be written now; the entries are kept for the next attempt.
        """
        with self._lock:
            entries, self._entries = self._entries, {}
        uses = self._keyring.uses_to_note()
        if not entries and not uses:
            return
        try:
            self._access.record(list(entries.values()), uses, kept=self._kept)
        except Overloaded:
            with self._lock:
                later, self._entries = self._entries, entries
                for entry in later.values():
                    self._keep(entry)
            raise
        self._keyring.noted(uses)

    def _run(self) -> None:
        stopping, waits = False, WaitLog(log, "the audit cannot be stored now, and waits: %s")
        while not stopping:
            stopping = self._stop.wait(_INTERVAL_S)
            try:
                self.store()
                waits.end()
            except Overloaded as error:
                waits.note(error)
            except Exception:  # noqa: BLE001 - the top of a thread: the next entries may be stored again
                log.exception("audit entries were lost")


def _alike(entry: AuditEntry) -> tuple[object, ...]:
    return (entry.key_id, entry.address, entry.method, entry.path, entry.status, entry.detail)
