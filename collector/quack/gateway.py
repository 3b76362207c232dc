"""The process that speaks Quack, as the server keeps it: started, started again when it ends, and ended."""

import logging
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, cast

from collector.children import starting
from collector.children.wire import receive, send
from collector.setting_groups import WorkaroundSettings
from storage.errors import Unusable
from storage.query.quack import require_extensions

log = logging.getLogger(__name__)

_PROGRAM: Final = "from collector.quack.child import main; main()"
_PAUSE_S: Final = 1.0  # before it is started again; a guess
_START_S: Final = 60.0  # a guess: a second on an idle machine
_ANSWER_BYTES: Final = 256 << 20
"""A guess: sixteen million rows of a time and a duration, which a client takes into its own memory."""

_ALL_BYTES: Final = 2 << 30  # a guess: for some clients at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Where it listens and asks, and what it shows."""

    address: str
    door: str
    views: Mapping[str, Sequence[tuple[str, str]]]
    answers: Path  # a folder that is its own
    seconds: float  # that a query may take
    workarounds: WorkaroundSettings = field(default_factory=WorkaroundSettings)


class Gateway:
    """Keeps one process. `open` starts it, `close` ends it, and so does the end of this one."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="quack", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The number of the process; None while there is none."""
        return self._process.pid if self._process else None

    def open(self) -> None:
        """Start it, and wait until it serves.

        Raises:
            Unusable: it cannot.
        """
        require_extensions()
        self._start()
        self._thread.start()

    def close(self) -> None:
        """End it for good."""
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
        """Start a process, in a folder that holds no answers of the one before.

        Raises:
            Unusable: it does not serve.
        """
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
            "watchesClients": options.workarounds.watch_quack_clients,
            "hidesPandas": options.workarounds.hide_pandas,
        }
        self._process = process = starting.start_program(_PROGRAM)
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

    def _keep(self) -> None:
        while not self._closed.is_set():
            if self._process is not None:
                code = self._process.wait()
                for pipe in (self._process.stdin, self._process.stdout):
                    if pipe is not None:
                        pipe.close()
                self._process = None
                if not self._closed.is_set():
                    log.warning("the process that speaks Quack ended (exit code %s), and is started again", code)
            if self._closed.wait(_PAUSE_S):
                return
            try:
                self._start()
            except Unusable as error:
                log.error("%s", error)  # noqa: TRY400 - the sentence says it
                self._process = None
