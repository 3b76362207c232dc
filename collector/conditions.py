"""Lasting states, such as a full disk: logged once when they begin and once when they are over."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from collector.units import duration_text

log = logging.getLogger(__name__)

CANNOT_COMMIT: Final = "cannot_commit"
"""While a condition of this name holds, the server is not ready."""

DAMAGED: Final = "data_damaged"
"""While a condition of this name holds, stored data cannot be read; new spans are still stored."""

RECORDED_TWICE: Final = "recorded_twice"
"""The subject of a condition with this name is TENANT/…, or "" if it concerns several tenants."""

_LOOK_S: Final = 1.0
_CHANGE: Final = {"is_change": True}  # exempts the line from the log's filter of repetitions


class Sighting(NamedTuple):
    """The text of a condition, and its start, if it began before it was checked."""

    message: str
    since_ns: int
    cause: str = ""  # one word; each cause is logged once while the condition holds


Sightings: TypeAlias = Mapping[str, str | Sighting]
"""The texts of the conditions that hold now, by their subject; "" if there is only one subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCondition:
    """A state that the server may be in for a while."""

    name: str  # one word, the same in the log, in the status and in /metrics
    look: Callable[[], Sightings]  # called from a thread of its own
    every_s: float = _LOOK_S
    begins_after_s: float = 0.0  # shorter ones are not reported
    ends_after_s: float = 0.0  # if the condition is back sooner, it did not end


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """A condition that holds."""

    name: str
    about: str
    message: str  # as of the last look
    since_ns: int  # since the Unix epoch


@dataclass(slots=True, kw_only=True)
class _Episode:
    first_s: float
    last_s: float
    message: str
    since_ns: int
    has_begun: bool = False
    causes: set[str] = field(default_factory=set)  # those logged


class ServerConditions:
    """Watcher of conditions. Thread-safe."""

    def __init__(self, conditions: Sequence[ServerCondition]) -> None:
        self._conditions = conditions
        self._due_s = dict.fromkeys((condition.name for condition in conditions), float("-inf"))
        self._episodes: dict[tuple[str, str], _Episode] = {}
        self._lasting: tuple[Lasting, ...] = ()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conditions", daemon=True)

    def start(self) -> None:
        """Start the thread that checks conditions."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._stopping.set()
        self._thread.join()

    @property
    def lasting(self) -> Sequence[Lasting]:
        """Return the conditions that held at the last look."""
        return self._lasting

    def holds(self, name: str) -> bool:
        """Return True if a condition of this name holds."""
        return any(each.name == name for each in self._lasting)

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the number of conditions that hold, for each name, also if it is 0."""
        held = [each.name for each in self._lasting]
        return {condition.name: held.count(condition.name) for condition in self._conditions}

    def look(self, now_s: float) -> None:
        """Check the conditions that are due. Only one thread may call this, and `now_s` must not decrease."""
        for condition in self._conditions:
            if now_s >= self._due_s[condition.name]:
                self._due_s[condition.name] = now_s + condition.every_s
                lines = list(self._follow(condition, _checked(condition), now_s))
                self._lasting = tuple(self._held())  # before logging: the log's readers then see the same state
                for line in lines:
                    log.warning(line, extra=_CHANGE)

    def _follow(self, condition: ServerCondition, sightings: Sightings, now_s: float) -> Iterator[str]:
        for about, seen in sightings.items():
            key = condition.name, about
            message, since_ns, cause = seen if isinstance(seen, Sighting) else (seen, time.time_ns(), "")
            if key not in self._episodes:
                self._episodes[key] = _Episode(first_s=now_s, last_s=now_s, message=message, since_ns=since_ns)
            episode = self._episodes[key]
            episode.last_s, episode.message = now_s, message
            if not episode.has_begun and now_s - episode.first_s >= condition.begins_after_s:
                episode.has_begun = True
                episode.causes.add(cause)
                yield f"{condition.name}: {message}"
            elif episode.has_begun and cause not in episode.causes:  # once: two alternating causes would fill the log
                episode.causes.add(cause)
                yield f"{condition.name} changed: {message}"
        for key, episode in list(self._episodes.items()):
            is_over = key[0] == condition.name and key[1] not in sightings
            if is_over and now_s - episode.last_s >= condition.ends_after_s:
                del self._episodes[key]
                if episode.has_begun:
                    took = duration_text((now_s - episode.first_s) * 1e3)
                    yield f"{condition.name} is over after {took}; it was: {episode.message}"

    def _held(self) -> Iterator[Lasting]:
        for (name, about), episode in self._episodes.items():
            if episode.has_begun:
                yield Lasting(name=name, about=about, message=episode.message, since_ns=episode.since_ns)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            self.look(time.monotonic())


def _checked(condition: ServerCondition) -> Sightings:
    try:
        return condition.look()
    except Exception as error:  # noqa: BLE001 - a check that fails must not hide the others, and is reported itself
        return {"": f"its check failed: {type(error).__name__}: {error}"}
