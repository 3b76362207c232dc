"""Delivery of items to the server: in batches, with retries, and into the spool if it stays unreachable."""

import json
import logging
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
_LOCK: Final = "spool.lock"
_REFUSED: Final = "refused-items.ndjson"
_CREATED: Final = 201
_OF_AN_ITEM: Final = frozenset({400, 413, 422})  # statuses of a batch that one of its items causes
_FOR_GOOD: Final = _OF_AN_ITEM | {409}  # the same request is refused later too: it is wrong, or the run has ended

_log: Final = logging.getLogger(__name__)

Item = Mapping[str, Any]
OnLost = Callable[[str, int, Sequence[Item]], None]
"""Callback for items that could not be delivered: the run, by its id or else its key, their number, and the items."""


@dataclass(eq=False)
class Start:
    """A run that may not have begun: the request for it, and then its id. Its key makes it begin only once."""

    project: str
    body: Mapping[str, Any]
    run_id: str | None = None

    def begin(self, client: Client) -> Mapping[str, Any]:
        """Begin the run, or find the run with its key.

        Raises:
            Unreachable: the server does not answer.
            Refused: the server answers with an error.
        """
        begun = client.send("POST", f"/projects/{quote(self.project, safe='')}/runs", self.body)
        if not isinstance(begun, Mapping) or "runId" not in begun:
            raise Unreachable(f"{client.url} does not answer as a Tracejury server")
        self.run_id = str(begun["runId"])
        return begun

    @property
    def name(self) -> str:
        """Return the id of the run, or its key before it has one."""
        return self.run_id or str(self.body["runKey"])

    @property
    def identity(self) -> str | tuple[str, str, str]:
        """Return the id of the run, else project, experiment and key: keys are unique in an experiment only."""
        return self.run_id or (self.project, str(self.body["experimentName"]), str(self.body["runKey"]))


Run: TypeAlias = str | Start
"""A run by its id, or one that may not have begun."""


@dataclass(frozen=True)
class _Batch:
    """Items of a run. The key makes repeated requests take effect once."""

    run: Run
    items: Sequence[Item]
    key: str
    error: str = ""
    status: int | None = None  # of the response; None without one


def default_spool(client: Client) -> Path:
    """Return the spool of a server, in the home directory."""
    return Path.home() / ".tracejury" / "spool" / quote(client.url.partition("://")[2], safe="")


def spool_of(spool: "str | Path | bool | None", client: Client) -> Path | None:
    """Return the folder of a spool; True stands for the default spool of the server, False and None for no spool."""
    if isinstance(spool, bool):
        return default_spool(client) if spool else None
    return None if spool is None else Path(spool)


class Reporter:
    """Sender of items of runs, in a thread of its own. `flush` waits for the thread, and `close` ends it.

    Spooled items are sent first. Items that cannot be sent because the server is unreachable are kept, and are sent
    after the next response of the server. Those left on `close`, and rejected ones, are counted in `lost_items`, and
    are written into the spool if there is one.
    """

    def __init__(
        self, client: Client, *, spool: "str | Path | bool | None" = True, on_lost: OnLost | None = None
    ) -> None:
        self._client = client
        self._spool = spool_of(spool, client)
        self._on_lost = on_lost
        self._items: queue.Queue[tuple[Run, Item, int] | None] = queue.Queue()
        self._kept: list[_Batch] = []
        self._incomplete: set[object] = set()  # identities of runs of which items are in the spool
        self._is_closed = False
        self.lost_items = 0
        self.spooled_items = 0
        self._thread = threading.Thread(target=self._run, name="tracejury-reporter", daemon=True)
        self._thread.start()

    @property
    def spool(self) -> Path | None:
        """Return the folder of items that could not be delivered."""
        return self._spool

    def report(self, run: Run, item: Item) -> None:
        """Queue an item for sending.

        Raises:
            RuntimeError: the reporter is closed.
            TypeError, ValueError: the item is not JSON.
        """
        if self._is_closed:
            raise RuntimeError("the reporter is closed and sends no more items")
        self._items.put((run, item, len(json.dumps(item, allow_nan=False))))

    def flush(self) -> None:
        """Wait until all items were sent, or are known to be undeliverable for now."""
        self._items.join()

    def close(self) -> None:
        """Send the rest, write undeliverable items into the spool, and end."""
        if not self._is_closed:
            self._is_closed = True
            self._items.put(None)
        self._thread.join()

    def end(self, run: Run, status: str, *, reason: str | None = None, is_whole: bool = True) -> None:
        """End a run, once the reporter is closed.

        If the spool has items of the run, or the server is unreachable, the end is written into the spool instead.
        `is_whole` is False if another reporter has put items of the run into the spool.

        Raises:
            Unreachable: there is no spool, and the server does not answer.
            Refused: the server answers with an error, and there is no spool or a repetition would be refused too.
        """
        name = run.name if isinstance(run, Start) else run
        ending = {"status": status} if reason is None else {"status": status, "reason": reason}
        if is_whole and _identity(run) not in self._incomplete:
            try:
                self._client.send("PATCH", _place(run, self._client), ending)
            except (Unreachable, Refused) as error:
                is_final = isinstance(error, Refused) and error.status in _FOR_GOOD
                if self._spool is None or is_final:
                    raise
                _log.warning("the end of the run %s is to be kept in %s: %s", name, self._spool, error)
            else:
                return
        if self._spool is not None:
            try:
                _write(self._spool / _SPOOL, {**_document(run), **ending})
            except OSError as error:
                _log.warning("the end of the run %s cannot be kept: %s", name, error)

    def _run(self) -> None:
        if self._spool is not None:
            try:
                replay(self._spool, self._client)
            except Exception:  # noqa: BLE001 - the top of a thread: what earlier runs left must not stop this one
                _log.exception("the items in %s could not be sent", self._spool)
        while (first := self._items.get()) is not None:
            batch, is_last = self._gathered(first)
            for run in dict.fromkeys(run for run, *_ in batch):
                items = [item for of, item, _ in batch if of == run]
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

    def _gathered(self, first: tuple[Run, Item, int]) -> tuple[list[tuple[Run, Item, int]], bool]:
        """Return an item with those that follow within a moment, and whether the queue has ended."""
        batch, until_s, size = [first], time.monotonic() + _BATCH_S, first[2]
        while len(batch) < _BATCH_ITEMS and size < _BATCH_BYTES:
            try:
                item = self._items.get(timeout=max(0.0, until_s - time.monotonic()))
            except queue.Empty:
                break
            if item is None:
                return batch, True
            batch.append(item)
            size += item[2]
        return batch, False

    def _deliver_kept(self) -> None:
        """Send kept items; stop at the first sign that the server is unreachable."""
        left, self._kept = self._kept, []
        while left:
            if not self._deliver(left.pop(0)) and self._client.is_away:
                break
        self._kept += left

    def _deliver(self, batch: _Batch) -> bool:
        """Send items, and return whether there was an answer; without one, keep them."""
        is_answered = True
        for part in _sent(batch, self._client):
            if part.status is None:
                is_answered = False
                if not batch.error:
                    _log.warning("%d items of a run wait for the server: %s", len(part.items), part.error)
                self._kept.append(part)
            elif part.error:
                self._lose(part, _REFUSED if part.status in _FOR_GOOD else _SPOOL)
        return is_answered

    def _lose(self, batch: _Batch, file: str) -> None:
        name, count = batch.run.name if isinstance(batch.run, Start) else batch.run, len(batch.items)
        self.lost_items += count
        where = "nowhere: there is no spool"
        try:
            if self._spool is not None:
                _write(
                    self._spool / file, {**_document(batch.run), "key": batch.key, "error": batch.error, **_body(batch)}
                )
                where = f"in {self._spool / file}"
                if file == _SPOOL:
                    self._incomplete.add(_identity(batch.run))
                    self.spooled_items += count
            if self._on_lost is not None:
                self._on_lost(name, count, batch.items)
        except BaseException:  # noqa: BLE001 - a callback or a disk: the thread must go on, and the count shows it
            _log.exception("%d items of the run %s are lost, and could not be put on record", count, name)
        else:
            _log.warning(
                "%d items of the run %s could not be delivered, and are kept %s: %s", count, name, where, batch.error
            )


def _sent(batch: _Batch, client: Client) -> Iterator[_Batch]:
    """Send items, and yield them with their outcome. Stop after the first request without a response.

    If the server refuses them because of an item, each half is sent by itself, so that only that item is refused.
    """
    left = [batch]
    while left:
        part = left.pop()
        try:
            stored = client.send("POST", f"{_place(part.run, client)}/items", _body(part), key=part.key)
            _check_stored(stored, part, client)
        except Refused as refused:
            half = len(part.items) // 2
            if half and refused.status in _OF_AN_ITEM:
                halves = (part.items[half:], part.items[:half])
                left += [_Batch(part.run, each, uuid.uuid4().hex) for each in halves]
            else:
                yield replace(part, error=str(refused), status=refused.status)
        except Exception as error:  # noqa: BLE001 - whatever it is, the items are not delivered
            for each in [part, *reversed(left)]:
                yield replace(each, error=str(error) or type(error).__name__, status=None)
            return
        else:
            yield replace(part, error="", status=_CREATED)


def _check_stored(answer: Any, batch: _Batch, client: Client) -> None:
    """Check that a response covers each item, and log those that were known with other content."""
    numbers = answer if isinstance(answer, Mapping) else {}
    conflicting = numbers.get("conflicting", ())
    if numbers.get("stored", 0) + numbers.get("alreadyPresent", 0) + len(conflicting) != len(batch.items):
        raise Unreachable(f"{client.url} does not answer as a Tracejury server")
    if conflicting:
        _log.warning("the run has other results of these items, which stay: %s", ", ".join(map(str, conflicting)))


def _body(batch: _Batch) -> dict[str, Any]:
    return {"items": list(batch.items)}


def _place(run: Run, client: Client) -> str:
    if isinstance(run, Start):
        return f"/runs/{run.run_id or run.begin(client)['runId']}"
    return f"/runs/{run}"


def _identity(run: Run) -> object:
    return run.identity if isinstance(run, Start) else run


def _document(run: Run) -> dict[str, Any]:
    if isinstance(run, Start) and run.run_id is None:
        return {"start": {"project": run.project, "body": dict(run.body)}}
    return {"runId": run.run_id if isinstance(run, Start) else run}


def _write(file: Path, line: Mapping[str, Any]) -> None:
    """Add a line to a file of a spool, all of it or nothing; several processes may share the spool."""
    text = f"{json.dumps(line, default=str)}\n".encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file.parent / _LOCK, wait=True), file.open("a+b", buffering=0) as written:
        end = written.seek(0, os.SEEK_END)
        if end and os.pread(written.fileno(), 1, end - 1) != b"\n":  # its writer was killed
            text = b"\n" + text
        try:
            while text:
                text = text[written.write(text) :]
        except OSError:
            written.truncate(end)
            raise


def replay(spool: "str | Path | None" = None, client: Client | None = None) -> int:
    """Send the items of a spool again, and remove accepted ones; return how many were delivered.

    Without arguments, the default spool of the server that the environment names is sent. The server does not store an
    item twice, so an interrupted replay may be repeated. Items added to the spool meanwhile are kept.

    Raises:
        Unreachable: no server is named.
    """
    client = client or Client.from_environment()
    if client is None:
        raise Unreachable("TRACEJURY_URL names no server")
    spool = default_spool(client) if spool is None else Path(spool)
    if not any((spool / each).exists() for each in (_SPOOL, _TAKEN)):
        return 0
    replay_ = _Replay(client, spool)
    try:
        with locked(spool / f"{_TAKEN}.lock"):
            replay_.send_file()  # of a replay that was cut off
            with locked(spool / _LOCK, wait=True), suppress(FileNotFoundError):
                (spool / _SPOOL).rename(spool / _TAKEN)
            replay_.send_file()
    except JournalInUse:  # another process sends the same
        return 0
    return replay_.delivered


class _Replay:
    """The lines of a spool on their way to the server. If the server is unavailable, the rest stays in the spool."""

    def __init__(self, client: Client, spool: Path) -> None:
        self.delivered = 0
        self._client = client
        self._spool = spool
        self._is_away = False
        self._starts: dict[object, Start] = {}
        self._incomplete: set[object] = set()

    def send_file(self) -> None:
        """Send the lines taken from the spool; undelivered lines go back to the spool, or to the refused ones."""
        taken = self._spool / _TAKEN
        if not taken.exists():
            return
        with taken.open("rb") as lines:
            for text in lines:
                self._send(text)
        taken.unlink()

    def _send(self, text: bytes) -> None:
        try:
            line = json.loads(text)
            run = self._of(line)
            if self._is_away or ("status" in line and _identity(run) in self._incomplete):
                _write(self._spool / _SPOOL, line)
            elif "status" in line:
                self._end(run, line)
            else:
                self._deliver(run, line)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:  # not ours, or cut off
            _log.warning("a line of %s cannot be read, and is kept in %s: %s", self._spool, _REFUSED, error)
            _write(self._spool / _REFUSED, {"line": text.decode("utf-8", "replace"), "error": str(error)})

    def _end(self, run: Run, line: Mapping[str, Any]) -> None:
        try:
            ending = {key: line[key] for key in ("status", "reason") if key in line}
            self._client.send("PATCH", _place(run, self._client), ending)
        except Unreachable:
            self._is_away = True
            _write(self._spool / _SPOOL, line)
        except Refused as refused:
            self._keep(line, refused.status, str(refused))

    def _deliver(self, run: Run, line: Mapping[str, Any]) -> None:
        for part in _sent(_Batch(run, line["items"], line["key"]), self._client):
            rest = {**line, **_document(run), **_body(part), "key": part.key}
            if part.status is None:
                self._is_away = True
                _write(self._spool / _SPOOL, rest)
            elif part.error:
                if part.status not in _FOR_GOOD:
                    self._incomplete.add(_identity(run))
                self._keep(rest, part.status, part.error)
            else:
                self.delivered += len(part.items)

    def _keep(self, line: Mapping[str, Any], status: int, error: str) -> None:
        _log.warning("the server rejects the items in %s: %s", self._spool, error)
        _write(self._spool / (_REFUSED if status in _FOR_GOOD else _SPOOL), {**line, "error": error})

    def _of(self, line: Mapping[str, Any]) -> Run:
        if "runId" in line:
            return str(line["runId"])
        start = Start(line["start"]["project"], line["start"]["body"])
        return self._starts.setdefault(start.identity, start)
