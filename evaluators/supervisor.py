"""The parent of a judge's program on Linux: when the program ends, it kills all descendants, then ends itself.

A process of its own, run as a script with the standard library alone: as the subreaper of its descendants, it becomes
the parent of each orphan among them, also of one that left the process group and the session. It ends with the exit
code or signal of the program. On SIGTERM, and if the process that started it ends, it kills the program, too.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_AWAITED: Final = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
_NOT_STARTED: Final = 127


def main(arguments: Sequence[str]) -> None:
    """Run `[errors, parent, program, argument…]`; `errors` is a descriptor for why the program cannot be started."""
    errors, parent, *command = arguments
    os.set_inheritable(int(errors), False)  # noqa: FBT003 - how the library has it
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # the parent ended meanwhile
        return
    program = os.fork()
    if program == 0:
        _become(command, int(errors))
    os.close(int(errors))
    for descriptor in (0, 1, 2):  # the pipes are the program's
        os.close(descriptor)
    status = _status_of(program)
    _kill_children()
    _end_like(status)


def _become(command: list[str], errors: int) -> None:
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell, as it is to be
    except OSError as error:
        os.write(errors, (error.strerror or str(error)).encode())
    os._exit(_NOT_STARTED)


def _status_of(program: int) -> int | None:
    """Wait for the end of the program; None if this process is to end first."""
    while signal.sigwait(_AWAITED) == signal.SIGCHLD:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == program:
                    return ended[1]
    return None


def _kill_children() -> None:
    """Kill the children, whose own become children of this process, until there are none."""
    with suppress(ChildProcessError):
        while True:
            for child in _children():
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children() -> Iterable[int]:
    own = os.getpid()
    try:
        return [int(child) for child in Path(f"/proc/self/task/{own}/children").read_text("ascii").split()]
    except FileNotFoundError:  # a kernel without that file
        return [int(process.name) for process in Path("/proc").glob("[0-9]*") if _parent_of(process) == own]


def _parent_of(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return None


def _end_like(status: int | None) -> None:
    code = 0 if status is None else os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
