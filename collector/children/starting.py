"""How a child process is started: an interpreter that runs one program of ours, and answers on its standard output."""

import subprocess
import sys
from typing import Final

ALLOCATOR: Final = 'import os; os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"\n'
"""Arrow's own reserves 1 GiB with the first byte, at import, all of which counts against the limit of the process."""

PATIENCE: Final = "import gc; gc.set_threshold(50_000)\n"
"""What is imported is no garbage, and to look at it again and again takes a tenth of the start."""


def start_program(program: str) -> "subprocess.Popen[bytes]":
    """A process that runs `program`, a text of Python, with pipes for its standard input and output."""
    # -P: the folder that the server was started in is no place to import from.
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-P", "-c", ALLOCATOR + PATIENCE + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
