"""The server as a program: its log, its signals, its ready line, and the sample."""

import asyncio
import faulthandler
import json
import logging
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from collector.app import Running, running
from collector.components import operator_key
from collector.escaping import one_line
from collector.logs import start_logging
from collector.machine import raise_open_files
from collector.memory import collect_rarely, keep_freed_memory
from collector.sd_notify import ServiceManager
from collector.settings import BadSettings, Settings
from storage.engine.damage import is_damage_text
from storage.engine.database import FILE_NAME
from storage.engine.room import needing_room
from storage.errors import Damaged, StorageError
from storage.store import Store
from storage.upkeep.checking import opening_problem, remedies

log = logging.getLogger(__name__)

_FAILED = 1
_QUIET = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")
"""Loggers that are limited to warnings: they log each request to a judge, at level DEBUG with its content."""

_STOPPING = (signal.SIGTERM, signal.SIGINT)

_SPARE_S = 10.0
"""Time after `shutdown_seconds` for steps that it does not include: child processes, checkpoints. A guess."""

_WITHOUT_GIL_S = 2.0
"""Delay after which a process is ended that the timer could not end, because a library holds the GIL. A guess."""

_LAST_JOINS_S = 3.0
"""Time for the last threads, on which nothing depends any more. A guess."""

_LONGEST_WRITING_S = 300.0
"""Longest write: one that takes longer counts as hung, and only a restart helps. A guess: a checkpoint of a large file
on a slow disk takes a minute."""

_SAMPLE_RULES = Path(__file__).parent / "sample_rules"


def serve(settings: Settings, *, with_sample: bool) -> int:
    """Run until SIGTERM or SIGINT; return the exit code.

    `with_sample` sends the sample first if the data directory is empty, and uses its rule if no folder of rules is set.
    """
    start_logging(level=settings.log_level, form=settings.log_format)
    if with_sample and settings.rules is None:
        settings = settings.model_copy(update={"rules": _SAMPLE_RULES})
    keep_freed_memory()
    raise_open_files()
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns of each invalid request
    try:
        with needing_room(settings.data):
            asyncio.run(_serve(settings, with_sample=with_sample))
    except (StorageError, BadSettings, OSError) as error:
        print(f"tracejury: {error}", file=sys.stderr)  # noqa: T201 - the last word to a person
        if isinstance(error, Damaged) or is_damage_text(str(error)):
            print(_advice(settings.data), file=sys.stderr)  # noqa: T201 - so is this
        return _FAILED
    return 0


def _advice(data: Path) -> str:
    check = f"`tracejury check {shlex.quote(str(data))}` reads all of it, and lists the damaged parts"
    lines = ["tracejury: nothing was changed; these help:", check, *remedies(data, opening_problem(data / FILE_NAME))]
    return "\n- ".join(map(one_line, lines))


async def _serve(settings: Settings, *, with_sample: bool) -> None:
    manager = ServiceManager()
    watched: Store | None = None  # set between startup and shutdown, which may take long
    stop = _stop_signals(settings.shutdown_seconds, is_starting=lambda: watched is None)
    async with manager.watched(lambda: watched is None or _lives(watched)), running(settings) as server:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.pipeline.rules.reload_soon)
        watched = server.store
        collect_rarely()
        print(json.dumps(_ready(server, settings)), flush=True)  # noqa: T201 - the ready line is the interface
        manager.tell("READY=1")
        if with_sample and not server.store.totals.stored:
            await _send_sample(server, settings)
        await stop.wait()
        watched = None
        log.info("stopping")
        manager.tell("STOPPING=1")
    _end_within(_LAST_JOINS_S, 0)  # all is stored: do not wait for threads such as those of name lookups


def _stop_signals(shutdown_s: float, *, is_starting: Callable[[], bool]) -> asyncio.Event:
    """Return the event that the first SIGTERM or SIGINT sets; the second ends the process, whatever it does meanwhile.

    During the start the first one ends it: a schema step may take many minutes, and is a transaction.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def begin() -> None:
        if is_starting():
            log.info("stopped during startup; the next start continues with the current step")
            os._exit(0)
        stop.set()
        for number in _STOPPING:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        _end_within(shutdown_s + _SPARE_S, _FAILED)

    for number in _STOPPING:
        loop.add_signal_handler(number, begin)
    return stop


def _end_within(seconds: float, code: int) -> None:
    """End the process after some seconds if it still runs. Nothing is lost: acknowledged data is in the spool."""

    def end() -> None:
        if code:
            log.critical("killed, because shutdown took more than %g s; the next start commits the rest", seconds)
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    if code:  # the timer waits while a library holds the GIL; this needs no GIL, and prints the stacks
        faulthandler.dump_traceback_later(seconds + _WITHOUT_GIL_S, exit=True, file=2)


def _ready(server: Running, settings: Settings) -> dict[str, str]:
    return {
        "event": "ready",
        "grpc": server.grpc,
        "otlp_http": server.otlp_http,
        "http": server.http,
        **({"quack": server.quack} if server.quack else {}),
        "data": str(settings.data),
    }


def _lives(store: Store) -> bool:
    writing_s = store.writing_s
    return writing_s is None or writing_s < _LONGEST_WRITING_S


async def _send_sample(server: Running, settings: Settings) -> None:
    if settings.tls_cert is not None:
        log.info("the sample is not sent: no address accepts spans without TLS")
        return
    from collector import sample  # noqa: PLC0415 - the exporters in it make a fifth of the time that a start takes

    key = operator_key(settings)
    try:
        await asyncio.to_thread(sample.send_history, grpc=server.grpc, key=key)
        report = await asyncio.to_thread(sample.send_sample, grpc=server.grpc, otlp_http=server.otlp_http, key=key)
    except Exception:  # noqa: BLE001 - a failed sample must not stop the server it was sent to
        log.exception("the sample could not be sent")
        return
    await asyncio.to_thread(server.store.wait_committed, 10)
    await asyncio.to_thread(server.traces.wait_idle, 10)
    options = f"--server http://{server.http}"
    command = "tracejury" if shutil.which("tracejury") else sys.argv[0]
    print(sample.describe(report, http=server.http, options=options, command=command), file=sys.stderr)  # noqa: T201 - for the person who ran it
