"""Items on their way to the server: in batches, kept while it is away, and in the spool if it stays away."""

import json
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from tracejury.client import Client, Refused, Unreachable
from tracejury.journal import JournalInUse, locked

_BATCH_ITEMS: Final = 1_000  # a server takes 245 us of CPU for each of 1,000 small items, and 520 for each of 100
_BATCH_BYTES: Final = 4 << 20  # half of what a request may hold
_BATCH_S: Final = 0.5  # an item waits no longer for others
_SPOOL: Final = "failed-items.ndjson"
_TAKEN: Final = "failed-items.replaying"
_REFUSED: Final = "refused-items.ndjson"
_OF_AN_ITEM: Final = frozenset({400, 413, 422})  # what is said of a batch because of some item of it
_FOR_GOOD: Final = _OF_AN_ITEM | {409}  # the same request is refused later too: it is wrong, or the run has ended

_log: Final = logging.getLogger(__name__)

Item = Mapping[str, Any]
OnLost = Callable[[str, int, Sequence[Item]], None]
"""Is told the run, by its id or else its key, how many items could not be delivered, and these."""


@dataclass(eq=False)
class Start:
    """A run as it is to begin, and its id once the server has begun it. Its key lets it begin once."""

    project: str
    body: Mapping[str, Any]
    run_id: str | None = None

    def begin(self, client: Client) -> Mapping[str, Any]:
        """Begin it, or find the one of its key.

        Raises:
            Unreachable: the server does not answer.
            Refused: it answers with an error.
        """
        begun: Mapping[str, Any] = client.send("POST", f"/projects/{quote(self.project, safe='')}/runs", self.body)
        self.run_id = begun["runId"]
        return begun

    @property
    def name(self) -> str:
        """Return the id of the run, or its key before it has one."""
        return self.run_id or str(self.body["runKey"])


Run: TypeAlias = str | Start
"""A run by its id, or one that may not have begun."""


@dataclass(frozen=True)
class _Batch:
    """Items of a run. The key makes them one request, however often it is sent."""

    run: Run
    items: Sequence[Item]
    key: str
    error: str = ""


def default_spool(client: Client) -> Path:
    """The spool of a server, in the home directory."""
    return Path.home() / ".tracejury" / "spool" / quote(client.url.partition("://")[2], safe="")


def spool_of(spool: "Path | bool | None", client: Client) -> Path | None:
    """The folder that a spool is in: with True that of the server, with False none."""
    if isinstance(spool, bool):
        return default_spool(client) if spool else None
    return spool


class Reporter:
    """Sends the items of runs in a thread of its own. `flush` waits for it, and `close` ends it.

    What is in the spool is sent first. Items that a server does not take since it is away are kept, and are sent after
    the next that it takes; those that are left when it is closed are in `lost_items`, and in the spool.
    """

    def __init__(self, client: Client, *, spool: "Path | bool | None" = True, on_lost: OnLost | None = None) -> None:
        self._client = client
        self._spool = spool_of(spool, client)
        self._on_lost = on_lost
        self._items: queue.Queue[tuple[Run, Item] | None] = queue.Queue()
        self._kept: list[_Batch] = []
        self._incomplete: set[str] = set()  # runs of which items are in the spool
        self.lost_items = 0
        self.spooled_items = 0
        self._thread = threading.Thread(target=self._run, name="tracejury-reporter", daemon=True)
        self._thread.start()

    @property
    def spool(self) -> Path | None:
        """The folder of what could not be delivered."""
        return self._spool

    def report(self, run: Run, item: Item) -> None:
        """Send an item soon."""
        self._items.put((run, item))

    def flush(self) -> None:
        """Wait until all that was reported was sent, or found not to be deliverable for now."""
        self._items.join()

    def close(self) -> None:
        """Send what there is, write what cannot be sent into the spool, and end."""
        if self._thread.is_alive():
            self._items.put(None)
            self._thread.join()

    def end(self, run: Run, status: str, *, reason: str | None = None, is_whole: bool = True) -> None:
        """End a run, once the reporter is closed; if its items are in the spool, or the server is away, from there.

        It is not whole if another reporter has put items of it into the spool.

        Raises:
            Unreachable: there is no spool, and the server does not answer.
            Refused: the server answers with an error.
        """
        name = run.name if isinstance(run, Start) else run
        if is_whole and name not in self._incomplete:
            try:
                ending = {"status": status} if reason is None else {"status": status, "reason": reason}
                self._client.send("PATCH", _place(run, self._client), ending)
            except Unreachable as error:
                if self._spool is None:
                    raise
                _log.warning("the end of the run %s is kept in %s: %s", name, self._spool, error)
            else:
                return
        if self._spool is not None:
            _write(self._spool / _SPOOL, {**_document(run), "status": status})

    def _run(self) -> None:
        if self._spool is not None:
            try:
                replay(self._spool, self._client)
            except Exception:  # noqa: BLE001 - the top of a thread: what earlier runs left must not stop this one
                _log.exception("what is in %s could not be sent", self._spool)
        while (first := self._items.get()) is not None:
            batch, is_last = self._gathered(first)
            for run in dict.fromkeys(run for run, _ in batch):
                items = [item for of, item in batch if of == run]
                if self._deliver(_Batch(run, items, uuid.uuid4().hex)):
                    self._deliver_kept()
            for _ in batch:
                self._items.task_done()
            if is_last:
                break
        self._deliver_kept()
        for each in self._kept:
            self._lose(each, _SPOOL)
        self._items.task_done()

    def _gathered(self, first: tuple[Run, Item]) -> tuple[list[tuple[Run, Item]], bool]:
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

    def _deliver_kept(self) -> None:
        """Send what is kept; once the server is found to be away, the rest stays."""
        left, self._kept = self._kept, []
        while left:
            if not self._deliver(left.pop(0)) and self._client.is_away:
                break
        self._kept += left

    def _deliver(self, batch: _Batch) -> bool:
        """Send items, and return whether there was an answer; without one, keep them.

        Where the server refuses some, each half by itself, so that one costs no other.
        """
        try:
            self._client.send("POST", f"{_place(batch.run, self._client)}/items", _body(batch), key=batch.key)
        except Refused as refused:
            half = len(batch.items) // 2
            if half and refused.status in _OF_AN_ITEM:
                for part in (batch.items[:half], batch.items[half:]):
                    self._deliver(_Batch(batch.run, part, uuid.uuid4().hex))
            else:
                refusal = _Batch(batch.run, batch.items, batch.key, str(refused))
                self._lose(refusal, _REFUSED if refused.status in _FOR_GOOD else _SPOOL)
        except Exception as error:  # noqa: BLE001 - the top of a thread: whatever it is, the items are kept
            if not batch.error:
                _log.warning("%d items of a run wait for the server: %s", len(batch.items), error)
            self._kept.append(_Batch(batch.run, batch.items, batch.key, str(error) or type(error).__name__))
            return False
        return True

    def _lose(self, batch: _Batch, file: str) -> None:
        name, count = batch.run.name if isinstance(batch.run, Start) else batch.run, len(batch.items)
        self.lost_items += count
        where = "nowhere: there is no spool"
        try:
            if self._spool is not None:
                _write(
                    self._spool / file, {**_document(batch.run), "key": batch.key, "error": batch.error, **_body(batch)}
                )
                where = str(self._spool / file)
                if file == _SPOOL:
                    self._incomplete.add(name)
                    self.spooled_items += count
            if self._on_lost is not None:
                self._on_lost(name, count, batch.items)
        except Exception:  # noqa: BLE001 - a callback or a disk: the thread must go on, and the count tells
            _log.exception("%d items of the run %s are lost, and could not be put on record", count, name)
        else:
            _log.warning(
                "%d items of the run %s could not be delivered, and are kept %s: %s", count, name, where, batch.error
            )


def _size(item: Item) -> int:
    return len(json.dumps(item, default=str))


def _body(batch: _Batch) -> dict[str, Any]:
    return {"items": list(batch.items)}


def _place(run: Run, client: Client) -> str:
    """The path of a run, which begins if it has not."""
    if isinstance(run, Start):
        return f"/runs/{run.run_id or run.begin(client)['runId']}"
    return f"/runs/{run}"


def _document(run: Run) -> dict[str, Any]:
    """A run in a line of a spool: its id, or all that it begins with."""
    if isinstance(run, Start) and run.run_id is None:
        return {"start": {"project": run.project, "body": dict(run.body)}}
    return {"runId": run.run_id if isinstance(run, Start) else run}


def _write(file: Path, line: Mapping[str, Any]) -> None:
    """Add a line, at once: several processes may share a spool."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab", buffering=0) as written:
        written.write(f"{json.dumps(line, default=str)}\n".encode())


def replay(spool: "Path | None" = None, client: Client | None = None) -> int:
    """Send the items of a spool once more; those that the server takes leave it. How many were delivered.

    Without arguments, it is the default spool of the server that the environment names. What the server has already it
    does not store twice, so that a replay that is cut off may be repeated. Items that are lost meanwhile are kept too.

    Raises:
        Unreachable: no server is named.
    """
    client = client or Client.from_environment()
    if client is None:
        raise Unreachable("TRACEJURY_URL names no server")
    spool = spool or default_spool(client)
    if not any((spool / each).exists() for each in (_SPOOL, _TAKEN)):
        return 0
    try:
        with locked(spool / f"{_TAKEN}.lock"):
            return _replay_locked(spool, client)
    except JournalInUse:  # another process sends the same
        return 0


def _replay_locked(spool: Path, client: Client) -> int:
    taken, delivered = spool / _TAKEN, 0
    if not taken.exists():
        try:
            (spool / _SPOOL).rename(taken)
        except FileNotFoundError:
            return 0
    runs = _Replay(client)
    for text in taken.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:  # the disk was full, or the writer was killed
            _log.warning("a line of %s is cut off, and left out", taken)
            continue
        try:
            delivered += runs.send(line)
        except Unreachable:
            _write(spool / _SPOOL, line)
        except Refused as refused:
            _log.warning("the server refuses what is in %s: %s", spool, refused)
            is_final = refused.status in _FOR_GOOD
            _write(spool / (_REFUSED if is_final else _SPOOL), line | {"error": str(refused)})
    taken.unlink()
    return delivered


class _Replay:
    """The lines of a spool on their way to the server. Once it is away, the rest stays."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_away = False
        self._starts: dict[str, Start] = {}
        self._incomplete: set[str] = set()

    def send(self, line: Mapping[str, Any]) -> int:
        """Deliver a line: items, or how a run ended, if it has all of its items. How many items it held.

        Raises:
            Unreachable: the server does not answer, or the run lacks items.
            Refused: it answers with an error.
        """
        run = self._of(line)
        name = run.name if isinstance(run, Start) else run
        if self._is_away or ("status" in line and name in self._incomplete):
            raise Unreachable("the server is away, or the run has not all of its items")
        try:
            place = _place(run, self._client)
            if "status" in line:
                self._client.send("PATCH", place, {"status": line["status"]})
                return 0
            self._client.send("POST", f"{place}/items", {"items": line["items"]}, key=line["key"])
        except Unreachable:
            self._is_away = True
            raise
        except Refused as refused:
            if refused.status not in _FOR_GOOD:
                self._incomplete.add(run.name if isinstance(run, Start) else run)
            raise
        return len(line["items"])

    def _of(self, line: Mapping[str, Any]) -> Run:
        if "runId" in line:
            return str(line["runId"])
        start = Start(line["start"]["project"], line["start"]["body"])
        return self._starts.setdefault(start.name, start)
