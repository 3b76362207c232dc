"""The process that speaks Quack: it serves until its input ends, or until its sessions are used up."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from collector.access.proxies import TrustedProxies
from collector.listeners.closed_connections import Reason
from collector.listeners.connection_limits import ConnectionLimits
from collector.listeners.socket_guard import guarded
from collector.quack.clients import Clients
from collector.quack.words import ERROR, PATH
from storage import child_process
from storage.engine.pandas_import import hide_pandas
from storage.errors import Unusable
from storage.query.quack import Quack, QuackOptions, QuackRefused
from storage.wire import receive, send

_MEMORY_BYTES: Final = 2 << 30
"""Limit of the memory. The stacks of Quack's 128 threads reserve more than half, but use little: 120 MB in all."""

_TIDY_S: Final = 30.0  # between two removals of the remains of clients; a guess
_KNOWN: Final = frozenset({200, 204, 403})
"""Statuses that prove a valid key. Missing permissions are reported for each query, which has room for a reason."""


def main() -> None:
    """Serve until the input ends, or the sessions are used up."""
    child_process.run(serve, memory_bytes=_MEMORY_BYTES)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Serve by the first message; report when it is ready, or why it cannot be."""
    first = receive(requests)
    if first is None:
        return
    greeting = first[0]
    options = QuackOptions(
        address=greeting["address"],
        views=greeting["views"],
        answers=Path(greeting["answers"]),
        answer_bytes=greeting["answerBytes"],
        all_bytes=greeting["allBytes"],
    )
    if greeting["hidesPandas"]:
        hide_pandas()
    port = int(options.address.rpartition(":")[2])
    clients = Clients(port) if greeting["watchesClients"] else None
    quack = Quack(options, _ServerClient(greeting["door"], greeting["seconds"], clients))
    try:
        quack.serve()
    except Unusable as error:
        send(answers, {"problem": str(error)}, [])
        return
    send(answers, {}, [])

    def report(reason: Reason, address: str, count: int) -> None:
        send(answers, {"closed": [reason, address, count]}, [])

    limits = ConnectionLimits(**greeting["connections"])
    with guarded(port, limits, TrustedProxies(greeting["trustedProxies"]), report):
        _tidy(quack, requests)


def _tidy(quack: Quack, requests: BinaryIO) -> None:
    """Remove the remains of clients, until the input ends or the sessions are used up."""
    over = threading.Event()
    threading.Thread(target=_wait, args=(requests, over), daemon=True).start()
    while not over.wait(_TIDY_S):
        quack.tidy()
        if quack.is_worn_out:
            return


def _wait(requests: BinaryIO, over: threading.Event) -> None:
    requests.read()
    over.set()


class _ServerClient:
    """Client of the server, with the key of each client."""

    def __init__(self, door: str, seconds: float, clients: Clients | None) -> None:
        """Set up. Without `clients`, a query runs until its time is over, even if its client left."""
        self._door = door
        self._clients = clients
        self._timeout_s = seconds * 2 + 30  # a wait for its turn, the query, and some

    def admit(self, token: str) -> bool:
        """Return True if there is such a key."""
        with self._request(token, {}) as answer:
            return answer.status in _KNOWN

    def batches(self, token: str, statement: str) -> Iterator[pa.RecordBatch]:
        """Yield the server's answer, which is cancelled when the client leaves.

        Raises:
            QuackRefused: the server answered with an error, or does not answer.
        """
        with self._request(token, {"sql": statement}) as answer:
            if answer.status != HTTPStatus.OK:
                raise QuackRefused(_detail(answer))
            reader = pa.ipc.open_stream(answer)
            while True:
                try:
                    batch, metadata = reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    return
                if metadata is not None and ERROR.encode() in metadata:
                    raise QuackRefused(metadata[ERROR.encode()].decode())
                yield batch

    @contextmanager
    def _request(self, token: str, body: dict[str, str]) -> Iterator[HTTPResponse]:
        connection = HTTPConnection(self._door, timeout=self._timeout_s)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        try:
            connection.connect()
            hang_up = partial(_hang_up, connection.sock)
            with self._clients.watched(hang_up) if self._clients else nullcontext():
                connection.request("POST", PATH, body=json.dumps(body), headers=headers)
                yield connection.getresponse()
        except (HTTPException, OSError, ValueError) as error:  # a token may hold what no header can
            raise QuackRefused("the server does not answer; try again later") from error
        finally:
            connection.close()


def _hang_up(line: socket.socket) -> None:
    with suppress(OSError):  # the server hung up first
        line.shutdown(socket.SHUT_RDWR)


def _detail(answer: HTTPResponse) -> str:
    try:
        return str(json.loads(answer.read())["detail"])
    except (json.JSONDecodeError, KeyError):
        return f"the server answers {answer.status}"
