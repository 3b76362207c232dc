"""Items on their way to the server: in batches, tried again, and on record where they could not be delivered."""

import json
import queue
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tracejury.client import Client, Refused, Unreachable

_BATCH_ITEMS: Final = 100
_BATCH_S: Final = 0.5
_SPOOL: Final = "failed-items.ndjson"

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
        batch = [first]
        while len(batch) < _BATCH_ITEMS:
            try:
                item = self._items.get(timeout=_BATCH_S)
            except queue.Empty:
                break
            if item is None:
                return batch, True
            batch.append(item)
        return batch, False

    def _deliver(self, run_id: str, items: Sequence[Item]) -> None:
        body = {"items": list(items)}
        key = uuid.uuid4().hex
        try:
            self._client.send("POST", f"/runs/{run_id}/items", body, key=key)
        except (Unreachable, Refused) as error:
            self.lost_items += len(items)
            if self._spool is not None:
                self._spool.mkdir(parents=True, exist_ok=True)
                line = json.dumps({"runId": run_id, "key": key, "error": str(error), "items": body["items"]})
                with (self._spool / _SPOOL).open("a", encoding="utf-8") as file:
                    file.write(f"{line}\n")
            if self._on_lost is not None:
                self._on_lost(run_id, len(items), items)


def replay(spool: Path, client: Client) -> int:
    """Send the items of a spool once more; those that the server takes leave the spool. How many were delivered.

    What the server has already it does not store twice, so that a replay that is cut off may be repeated.
    """
    file = spool / _SPOOL
    if not file.exists():
        return 0
    left, delivered = [], 0
    for line in file.read_text(encoding="utf-8").splitlines():
        batch = json.loads(line)
        try:
            client.send("POST", f"/runs/{batch['runId']}/items", {"items": batch["items"]}, key=batch["key"])
        except (Unreachable, Refused):
            left.append(line)
        else:
            delivered += len(batch["items"])
    part = file.with_suffix(".part")
    part.write_text("".join(f"{line}\n" for line in left), encoding="utf-8")
    part.replace(file)
    return delivered
