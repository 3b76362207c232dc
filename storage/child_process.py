"""Start of child processes, which lower their priority below the server's and answer through a pipe."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import BinaryIO, Final

_NICENESS = 15
"""Added to the server's niceness: while all processors are busy, the child gets a thirtieth of one, so that the child
waits, and not ingest."""

_MEMORY_BYTES = 1 << 30
"""Limit of a child's data segment; a statement that needs more fails. A guess, for 64 MiB of spans, which
take many times that as Python objects."""


def run(serve: Callable[[BinaryIO, BinaryIO], None], *, memory_bytes: int = _MEMORY_BYTES) -> None:
    """Answer requests on standard input until it ends."""
    os.nice(_NICENESS)
    _limit_memory(memory_bytes)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of libraries must not mix with answers
    try:
        serve(requests, answers)
    except (EOFError, BrokenPipeError):  # the server was killed in the middle of a message
        os._exit(1)  # without a flush: its output is not read


def _limit_memory(nbytes: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if sys.platform == "linux" and hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_DATA, (nbytes, hard))


ALLOCATOR: Final = 'import os; os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"\n'
"""Arrow's own allocator reserves 1 GiB at import, all of which counts against the memory limit of the process."""

RARE_COLLECTING: Final = "import gc; gc.set_threshold(50_000)\n"
"""Imported modules are not garbage, and scanning them again and again takes a tenth of the start."""


_VARIABLES: Final = frozenset(
    """
    HOME LANG LANGUAGE PATH SYSTEMROOT TMPDIR TZ VIRTUAL_ENV
    """.split()  # noqa: SIM905 - easier to read
)
_FAMILIES: Final = ("ARROW_", "FAKETIME", "LC_", "LD_", "MALLOC_", "OMP_", "OPENBLAS_", "PYTHON")
"""Prefixes of variables that the interpreter, the loader and libraries read."""


def child_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a child process needs, without those that may hold API keys, passwords or settings."""
    return {name: value for name, value in variables.items() if name in _VARIABLES or name.startswith(_FAMILIES)}


def start_program(program: str) -> "subprocess.Popen[bytes]":
    """Start a process that runs `program`, a text of Python, with pipes for its standard input and output.

    All child processes that run code of the server start here, except the supervisors of judges' programs
    (`evaluators.process`).
    """
    # Ctrl-C is for the parent alone, which ends the child. Until the child has a process group of its own, it gets the
    # signal as well, so it starts with the signal blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        # -P: modules must not be imported from the folder in which the server was started.
        return subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", "-c", ALLOCATOR + RARE_COLLECTING + program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=child_environment(os.environ),
            process_group=0,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
