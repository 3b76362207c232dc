"""The address where DuckDB attaches: start, supervision and end of the Quack process."""

import asyncio
import logging
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final, cast

from collector.access.origin import is_loopback
from collector.api.base.context import Context
from collector.listeners.closed_connections import Reason, ReportClosed
from collector.listeners.connection_limits import ConnectionLimits
from collector.listening import ListenerOptions, address_of, bind, serving
from collector.setting_groups import WorkaroundSettings
from collector.settings import BadSettings, Settings
from storage import child_process
from storage.errors import Unusable
from storage.query.quack import require_extensions
from storage.wire import receive, send

_PROGRAM: Final = "from collector.quack.child import main; main()"
_PAUSE_S: Final = 1.0  # before the process is restarted; a guess
_START_S: Final = 60.0  # a guess: a second on an idle machine
_ANSWER_BYTES: Final = 256 << 20
"""A guess: sixteen million rows of a time and a duration, which a client takes into its own memory."""

_MOST_CONNECTIONS: Final = 120
"""Quack has 128 threads, of which an open connection keeps one for itself."""

_ALL_BYTES: Final = 2 << 30  # a guess: for some clients at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Addresses, views and limits of the gateway."""

    address: str
    door: str
    views: Mapping[str, Sequence[tuple[str, str]]]
    answers: Path  # folder that only the child uses
    seconds: float  # that a query may take
    limits: ConnectionLimits
    trusted_proxies: Sequence[str]
    report: ReportClosed
    workarounds: WorkaroundSettings = field(default_factory=WorkaroundSettings)


class Gateway:
    """Manager of one child process. `open` starts it; `close`, or the end of the server's process, ends it."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="quack", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Return the id of the process; None while there is none."""
        return self._process.pid if self._process else None

    def open(self) -> None:
        """Start the child, and wait until it serves.

        Raises:
            Unusable: an extension that the child needs is missing, or the child ended or cannot serve.
        """
        require_extensions()
        self._start()
        self._thread.start()

    def close(self) -> None:
        """End the child for good, and remove its folder."""
        self._closed.set()
        self._kill()
        if self._thread.ident is not None:
            self._thread.join()
            self._kill()  # one that had just been started
        shutil.rmtree(self._options.answers, ignore_errors=True)

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def _start(self) -> None:
        """Start a process, in a folder without answers of the previous one."""
        options = self._options
        shutil.rmtree(options.answers, ignore_errors=True)
        options.answers.mkdir(parents=True, mode=0o700)
        greeting = {
            "address": options.address,
            "door": options.door,
            "views": options.views,
            "answers": str(options.answers.absolute()),
            "answerBytes": _ANSWER_BYTES,
            "allBytes": _ALL_BYTES,
            "seconds": options.seconds,
            "connections": asdict(options.limits),
            "trustedProxies": list(options.trusted_proxies),
            "watchesClients": options.workarounds.watch_quack_clients,
            "hidesPandas": options.workarounds.hide_pandas,
        }
        self._process = process = child_process.start_program(_PROGRAM)
        alarm = threading.Timer(_START_S, process.kill)
        alarm.start()
        try:
            send(cast("BinaryIO", process.stdin), greeting, [])
            answer = receive(cast("BinaryIO", process.stdout))
        except OSError:
            answer = None
        finally:
            alarm.cancel()
        problem = "its process ended" if answer is None else answer[0].get("problem")
        if problem:
            process.kill()
            process.wait()
            raise Unusable(f"Quack: {problem}")

    def _follow(self, reports: BinaryIO) -> None:
        with suppress(OSError, EOFError):  # of a process that ended
            while (message := receive(reports)) is not None:
                reason, address, count = message[0]["closed"]
                self._options.report(Reason(reason), address, count)

    def _keep(self) -> None:
        while not self._closed.is_set():
            if self._process is not None:
                self._follow(cast("BinaryIO", self._process.stdout))
                code = self._process.wait()
                for pipe in (self._process.stdin, self._process.stdout):
                    if pipe is not None:
                        pipe.close()
                self._process = None
                if not self._closed.is_set():
                    log.warning("the Quack process ended (exit code %s); restarting it", code)
            if self._closed.wait(_PAUSE_S):
                return
            try:
                self._start()
            except (Unusable, OSError) as error:  # a full disk, or no process left: tried again after a pause
                log.error("Quack is not served: %s", error)  # noqa: TRY400 - the message has the reason
                self._process = None


log = logging.getLogger(__name__)

_FOLDER: Final = "quack"


@asynccontextmanager
async def serving_quack(settings: Settings, context: Context, listener: ListenerOptions) -> AsyncIterator[str | None]:
    """Serve DuckDB's remote protocol until the block ends; yield the address, or None without one.

    Raises:
        BadSettings: all listeners are to use TLS, and this one cannot.
        OSError: the address cannot be bound.
        Unusable: the extension is not installed, or does not start.
    """
    if settings.quack is None:
        yield None
        return
    from collector.quack.endpoint import Answering, make_door  # noqa: PLC0415 - loads FastAPI, and most servers have no Quack

    host = settings.quack.rpartition(":")[0]
    if settings.tls_cert is not None and not is_loopback(host.strip("[]")):
        raise BadSettings("quack: does not support TLS, which tls_cert requires; use a loopback address and a proxy")
    if context.authenticator.keyring.is_open:
        log.warning("DuckDB clients cannot attach at %s: they need an API key, and none exists", settings.quack)
    with bind(settings.quack) as probe:  # Quack would share a bound address, and does not report its port
        port = address_of(probe).rpartition(":")[2]
    seconds = context.settings.sql_seconds
    answering = Answering(
        queries=context.store.queries,
        turns=context.turns,
        bodies=context.bodies,
        answers=context.answers,
        seconds=seconds,
    )
    door = make_door(answering, context.authenticator)
    with bind("127.0.0.1:0") as bound:
        async with serving(door, bound, ListenerOptions()):
            options = GatewayOptions(
                address=f"{host}:{port}",
                door=address_of(bound),
                views=await asyncio.to_thread(context.store.queries.columns_of_views),
                answers=settings.data / _FOLDER,
                seconds=seconds,
                limits=replace(listener.limits, total=min(listener.limits.total, _MOST_CONNECTIONS)),
                trusted_proxies=settings.trusted_proxies,
                report=listener.report,
                workarounds=settings.workarounds,
            )
            gateway = Gateway(options)
            try:
                await asyncio.to_thread(gateway.open)
                yield options.address
            finally:
                await asyncio.to_thread(gateway.close)
