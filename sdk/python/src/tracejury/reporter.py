"""Items on their way to the server: in batches, tried again, and on record where they could not be delivered."""

import json
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tracejury.client import Client, Refused, Unreachable

_BATCH_ITEMS: Final = 1_000  # a server takes 245 us of CPU for each of 1,000 small items, and 520 for each of 100
_BATCH_BYTES: Final = 4 << 20  # half of what a request may hold
_BATCH_S: Final = 0.5  # an item waits no longer for others
_SPOOL: Final = "failed-items.ndjson"
_TAKEN: Final = "failed-items.replaying"
_OF_AN_ITEM: Final = frozenset({400, 413, 422})  # what is said of a batch because of some item of it

_log: Final = logging.getLogger(__name__)

Item = Mapping[str, Any]
OnLost = Callable[[str, int, Sequence[Item]], None]
"""Is told the run, how many items could not be delivered, and these."""


class Reporter:
    """Sends the items of runs in a thread of its own. `flush` waits for it, and `close` ends it."""

    def __init__(self, client: Client, *, spool: Path | None = None, on_lost: OnLost | None = None) -> None:
        self._client = client
        self._spool = spool
        self._on_lost = on_lost
        self._items: queue.Queue[tuple[str, Item] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="tracejury-reporter", daemon=True)
        self._thread.start()
        self.lost_items = 0

    def report(self, run_id: str, item: Item) -> None:
        """Send an item soon."""
        self._items.put((run_id, item))

    def flush(self) -> None:
        """Wait until all that was reported is delivered, or lost."""
        self._items.join()

    def close(self) -> None:
        """Send what there is, and end."""
        self._items.put(None)
        self._thread.join()

    def leave(self, run_id: str) -> bool:
        """Have the replay of the spool end a run, once it has its items; False where there is no spool."""
        if self._spool is None:
            return False
        leave_ending(self._spool, run_id)
        return True

    def _run(self) -> None:
        while (first := self._items.get()) is not None:
            batch, is_last = self._gathered(first)
            for run_id in dict.fromkeys(run_id for run_id, _ in batch):
                self._deliver(run_id, [item for of, item in batch if of == run_id])
            for _ in batch:
                self._items.task_done()
            if is_last:
                break
        self._items.task_done()

    def _gathered(self, first: tuple[str, Item]) -> tuple[list[tuple[str, Item]], bool]:
        """What comes within a moment after an item, and whether nothing comes any more."""
        batch, until_s = [first], time.monotonic() + _BATCH_S
        size = _size(first[1])
        while len(batch) < _BATCH_ITEMS and size < _BATCH_BYTES:
            try:
                item = self._items.get(timeout=max(0.0, until_s - time.monotonic()))
            except queue.Empty:
                break
            if item is None:
                return batch, True
            batch.append(item)
            size += _size(item[1])
        return batch, False

    def _deliver(self, run_id: str, items: Sequence[Item]) -> None:
        """Send items. Where the server refuses some, each half by itself, so that one costs no other."""
        key = uuid.uuid4().hex
        try:
            self._client.send("POST", f"/runs/{run_id}/items", {"items": list(items)}, key=key)
        except Refused as refused:
            if len(items) > 1 and refused.status in _OF_AN_ITEM:
                half = len(items) // 2
                self._deliver(run_id, items[:half])
                self._deliver(run_id, items[half:])
            else:
                self._lose(run_id, items, key, refused)
        except Exception as error:  # noqa: BLE001 - the top of a thread: whatever it is, the items are told as lost
            self._lose(run_id, items, key, error)

    def _lose(self, run_id: str, items: Sequence[Item], key: str, error: Exception) -> None:
        self.lost_items += len(items)
        try:
            if self._spool is not None:
                _write(self._spool, {"runId": run_id, "key": key, "error": str(error), "items": list(items)})
            if self._on_lost is not None:
                self._on_lost(run_id, len(items), items)
        except Exception:  # noqa: BLE001 - a callback or a disk: the thread must go on, and the count tells
            _log.exception("%d items of the run %s are lost, and could not be put on record", len(items), run_id)
        else:
            _log.warning("%d items of the run %s could not be delivered: %s", len(items), run_id, error)


def _size(item: Item) -> int:
    return len(json.dumps(item, default=str))


def leave_ending(spool: Path, run_id: str) -> None:
    """Have the replay of a spool end a run, once it has its items."""
    _write(spool, {"runId": run_id, "status": "SUCCESS"})


def _write(spool: Path, line: Mapping[str, Any]) -> None:
    """Add a line, at once: several processes may share a spool."""
    spool.mkdir(parents=True, exist_ok=True)
    with (spool / _SPOOL).open("ab", buffering=0) as file:
        file.write(f"{json.dumps(line, default=str)}\n".encode())


def replay(spool: Path, client: Client) -> int:
    """Send the items of a spool once more; those that the server takes leave the spool. How many were delivered.

    What the server has already it does not store twice, so that a replay that is cut off may be repeated. Items that
    are lost meanwhile are kept too.
    """
    taken, delivered = spool / _TAKEN, 0
    if not taken.exists():
        try:
            (spool / _SPOOL).rename(taken)
        except FileNotFoundError:
            return 0
    left: list[str] = []
    incomplete: set[str] = set()
    for line in taken.read_text(encoding="utf-8").splitlines():
        try:
            batch = json.loads(line)
        except ValueError:  # the disk was full, or whoever wrote it was killed
            _log.warning("a line of %s is cut off, and left out", taken)
            continue
        try:
            delivered += _replayed(client, batch, incomplete)
        except (Unreachable, Refused):
            incomplete.add(batch["runId"])
            left.append(line)
    if left:
        with (spool / _SPOOL).open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in left))
    taken.unlink()
    return delivered


def _replayed(client: Client, batch: Mapping[str, Any], incomplete: "set[str]") -> int:
    """Deliver a line of a spool: items, or how a run ended, if it has all of its items. How many items it held."""
    place = f"/runs/{batch['runId']}"
    if "items" in batch:
        client.send("POST", f"{place}/items", {"items": batch["items"]}, key=batch["key"])
        return len(batch["items"])
    if batch["runId"] in incomplete:
        raise Unreachable("the run has not all of its items")
    client.send("PATCH", place, {"status": batch["status"]})
    return 0
