"""What every child process does first: it steps back behind the server, and takes a pipe for its answers alone."""

import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import BinaryIO

_NICENESS = 15
"""Where the processors are busy this gets a thirtieth of one: the child waits, ingest does not."""

_MEMORY_BYTES = 1 << 30
"""Guess: 64 MiB of spans, twenty times over as values. What needs more fails, and is told as a failure."""


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
        os._exit(1)  # without the flush of what nobody reads


def _limit_memory(nbytes: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if sys.platform == "linux" and hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_DATA, (nbytes, hard))
