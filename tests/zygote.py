"""A process that has imported the product, and forks another one each time that it is asked; see tests/forking.py.

What is forked differs from what an interpreter starts in nothing but this: it need not import what is here already. It
has its own process id, environment, folder, arguments, signals, standard streams and exit code, and ends as others do.

This process has one thread of Python, and neither a database nor a channel is open in it, so that a fork tears nothing.
What numpy and pyarrow have of their own, they put in order after a fork.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import resource
import runpy
import select
import shutil
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import Final, NoReturn

_LENGTH: Final = struct.Struct("<I")
_CLONE_NEWNS: Final = 0x00020000  # sched.h; `os` has it from Python 3.12 on


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The description of a new process."""

    source: str = ""  # of the program,
    module: str = ""  # or its name
    arguments: list[str] = field(default_factory=list)  # `sys.argv`
    path: list[str] = field(default_factory=list)  # in front of `sys.path`
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = ""
    children: str = ""  # the socket of the zygote that its own child processes come from; none: they are started
    mounts: int = 0  # the process whose mounts it sees; 0: those that all see
    open_files: list[int] = field(default_factory=list)  # its soft and hard limit; none: those of the zygote

    def send(self, connection: socket.socket, streams: list[int]) -> None:
        """Ask for it, with its standard input, output and error."""
        body = json.dumps(asdict(self)).encode()
        socket.send_fds(connection, [_LENGTH.pack(len(body))], streams)
        connection.sendall(body)


def main() -> None:
    """Import what the command line names, `LISTENER MODULE…`, and fork until standard input ends."""
    _, listener, *modules = sys.argv
    sys.modules["__main__"].__file__ = __file__  # without it DuckDB takes us for a terminal, and shows how far it is
    sys.path[0] = os.getcwd()  # noqa: PTH109 - of this process, whatever is forked goes
    for module in modules:
        importlib.import_module(module)
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()  # the objects that exist now stay shared
    place = socket.socket(fileno=int(listener))
    new = Zygote(place).fork()
    if new is not None:
        _end(new)
    else:
        shutil.rmtree(Path(place.getsockname()).parent, ignore_errors=True)


class Zygote:
    """A process that forks a new one for each connection, and sends it the process id, and the exit code at its end."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._woken, self._waking = socket.socketpair()
        self._askers: dict[int, socket.socket] = {}  # by process
        for end in (self._woken, self._waking):
            end.setblocking(False)  # noqa: FBT003 - how the library has it

    def fork(self) -> "Forked | None":
        """Return in each new process, and with None in this one once standard input has ended."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the tests end us
        signal.signal(signal.SIGCHLD, _wake)
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        watched = select.poll()  # select takes no descriptor above 1,023, and some tests open more
        for each in (0, self._listener, self._woken):
            watched.register(each, select.POLLIN)
        while True:
            readable = {descriptor for descriptor, _ in watched.poll()}
            if self._woken.fileno() in readable:
                self._reap()
            if 0 in readable:
                return None
            if self._listener.fileno() in readable and (new := self._accept()) is not None:
                return new

    def _accept(self) -> "Forked | None":
        asker, _ = self._listener.accept()
        try:
            order, streams = _received(asker)
        except (OSError, ValueError):  # who asked is gone
            asker.close()
            return None
        pid = os.fork()
        if pid == 0:
            asker.close()
            self._leave()
            return Forked(order, streams)
        for stream in streams:
            os.close(stream)
        _tell(asker, pid)
        self._askers[pid] = asker
        return None

    def _leave(self) -> None:
        """Release the zygote's resources in a new process."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (self._listener, self._woken, self._waking, *self._askers.values()):
            each.close()

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        while self._askers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            asker = self._askers.pop(pid)
            _tell(asker, os.waitstatus_to_exitcode(status))
            asker.close()


class Forked:
    """A new process, which runs its order."""

    def __init__(self, order: Order, streams: list[int]) -> None:
        self._order = order
        self._streams = streams

    def run(self) -> None:
        """Run the program to its end, in the main thread; an exception of it is how the process ends."""
        order = self._order
        self._take_streams()
        if order.mounts:
            _enter_mounts(order.mounts)
        if order.open_files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (order.open_files[0], order.open_files[1]))
        os.chdir(order.folder)
        os.environ.clear()
        os.environ.update(order.environment)
        time.tzset()
        sys.argv = list(order.arguments)
        sys.path[:0] = order.path
        importlib.invalidate_caches()
        if order.children:
            from tests.forking import fork_children

            fork_children(order.children)
        if order.module:
            runpy.run_module(order.module, run_name="__main__", alter_sys=True)
            return
        program = sys.modules["__main__"] = ModuleType("__main__")
        program.__file__ = order.arguments[0]
        exec(compile(order.source, "<string>", "exec"), program.__dict__)  # noqa: S102 - what `python -c` does

    def _take_streams(self) -> None:
        for descriptor, stream in enumerate(self._streams):
            os.dup2(stream, descriptor)
            os.close(stream)
        for name, descriptor, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            before = getattr(sys, name)
            buffering = 1 if name == "stderr" else -1  # by lines, as on a terminal
            file = open(descriptor, mode, buffering, before.encoding, before.errors, closefd=False)  # noqa: SIM115 - a descriptor
            setattr(sys, name, file)
            setattr(sys, f"__{name}__", file)


def _enter_mounts(process: int) -> None:
    # As `nsenter --mount` does, which leads to `/`.
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{process}/ns/mnt").open("rb") as namespace:
        if libc.setns(namespace.fileno(), _CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), "cannot enter the mounts of another process")


def _end(new: Forked) -> NoReturn:
    """Run it and end as Python does, but for what C++ destroys then: threads that a fork does not take along."""
    code = 0
    try:
        new.run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - what Python does with any
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads, as the end of the interpreter does
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader is gone, or it is closed
            file.flush()
    os._exit(code & 0xFF)


def _received(asker: socket.socket) -> tuple[Order, list[int]]:
    """Read an order and its standard streams."""
    start, streams, _, _ = socket.recv_fds(asker, _LENGTH.size, 3)
    try:
        (length,) = _LENGTH.unpack(start)
        with asker.makefile("rb") as file:
            return Order(**json.loads(file.read(length))), streams
    except (OSError, ValueError, struct.error) as error:
        for stream in streams:
            os.close(stream)
        raise ValueError("who asked ended before all was said") from error


def _tell(asker: socket.socket, number: int) -> None:
    with suppress(OSError):  # who asked does not want to know
        asker.sendall(f"{number}\n".encode())


def _wake(_number: int, _frame: FrameType | None) -> None:
    pass  # the descriptor wakes the loop
