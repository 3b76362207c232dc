"""Damage of stored data: recognized by DuckDB's messages, and remembered until the process ends."""

import threading
from collections.abc import Mapping
from typing import Final

from storage.engine.cursors import is_bug

_DAMAGE: Final = (
    "Corrupt database file",
    "Corrupt WAL file",
    "Failure while replaying WAL",
    "WAL does not match",
    "Failed to deserialize",
)
_OWN_WORDS: Final = ("IO Error: Corrupt database file", "IO Error: Failure while replaying WAL")
"""An error that begins like this cannot be made by the text of a statement, such as `SELECT error('…')`."""
_INTERNAL: Final = "INTERNAL Error"
_MOST: Final = 20
"""Different places that are remembered. A guess: one is enough to act."""

NEXT_STEP: Final = "stop the server and run `tracejury check` on its data directory"
LOST_COMMITS: Final = (
    "spans among them come back from the spool if it still holds them; rules, keys, results, annotations and deletions "
    "do not: check whether any are missing, or restore a backup"
)

LOST_RECORDS: Final = "look for other damage with `tracejury check`, and have the senders send them again, if they can"


def is_damage(error: BaseException) -> bool:
    """Return True if DuckDB reports corrupt data, with a text that no statement of a client can imitate."""
    return str(error).startswith(_OWN_WORDS)


def is_damage_text(text: str) -> bool:
    """Return True if an error of the server's own work contains a message of damage."""
    return any(words in text for words in _DAMAGE)


class Damage:
    """The damage that was met since the start. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[str, str] = {}
        self.count = 0  # errors that reported damage
        self.lost_rows = 0  # acknowledged spans and log records that are lost: at least this many

    @property
    def places(self) -> Mapping[str, str]:
        """Return the damage so far and its remedies, by file or by a name of the place."""
        with self._lock:
            return dict(self._places)

    def note(self, place: str, message: str, next_step: str = NEXT_STEP) -> None:
        """Remember a damaged place, and what to do about it."""
        with self._lock:
            self.count += 1
            if place in self._places or len(self._places) < _MOST:
                self._places.setdefault(place, f"{message}; {next_step}")

    def note_error(self, error: Exception, *, own: bool) -> bool:
        """Remember an error if it reports damage; `own` is a statement of the server, which never breaks DuckDB.

        An internal error of DuckDB at such a statement is treated as damage: sound data does not cause one.
        """
        text = str(error).partition("\n")[0]
        if is_damage(error) or (own and is_damage_text(text)):
            self.note("database", text)
            return True
        if own and is_bug(error) and text.startswith(_INTERNAL):
            self.note("database", f"DuckDB failed at a statement of the server: {text}")
            return True
        return False
