"""Start of child processes, which lower their priority below the server's and answer through a pipe."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import BinaryIO, Final

_NICENESS = 15
"""If the processors are busy the child gets a thirtieth of one: the child waits, ingest does not."""

_MEMORY_BYTES = 1 << 30
"""A guess: 64 MiB of spans, twenty times over as values. A statement that needs more fails."""


def run(serve: Callable[[BinaryIO, BinaryIO], None], *, memory_bytes: int = _MEMORY_BYTES) -> None:
    """Answer requests on standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the server ends us
    os.nice(_NICENESS)
    _limit_memory(memory_bytes)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is not an answer
    try:
        serve(requests, answers)
    except (EOFError, BrokenPipeError):  # the server was killed in the middle of a message
        os._exit(1)  # without a flush: its output is not read


def _limit_memory(nbytes: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if sys.platform == "linux" and hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_DATA, (nbytes, hard))


ALLOCATOR: Final = 'import os; os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"\n'
"""Arrow's own reserves 1 GiB with the first byte, at import, all of which counts against the limit of the process."""

RARE_COLLECTING: Final = "import gc; gc.set_threshold(50_000)\n"
"""Imported modules are no garbage, and scanning them again and again takes a tenth of the start."""


_VARIABLES: Final = frozenset(
    """
    HOME LANG LANGUAGE PATH SYSTEMROOT TMPDIR TZ VIRTUAL_ENV
    """.split()  # noqa: SIM905 - easier to read
)
_FAMILIES: Final = ("ARROW_", "FAKETIME", "LC_", "LD_", "MALLOC_", "OMP_", "OPENBLAS_", "PYTHON")
"""Prefixes of variables that the interpreter, the loader and libraries read."""


def child_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that a child process needs: no key, no password, no setting."""
    return {name: value for name, value in variables.items() if name in _VARIABLES or name.startswith(_FAMILIES)}


def start_program(program: str) -> "subprocess.Popen[bytes]":
    """Start a process that runs `program`, a text of Python, with pipes for its standard input and output.

    All child processes of the server's own code start here.
    """
    # -P: the folder that the server was started in is no place to import from.
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-P", "-c", ALLOCATOR + RARE_COLLECTING + program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(os.environ),
    )
