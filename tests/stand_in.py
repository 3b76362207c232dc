"""A command for programs that start commands themselves: a zygote forks the process, and this one ends as that does.

Other programs get it from `forking.command`. It imports 40 ms of the standard library, where the command line takes
four seconds of CPU.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path

from tests.zygote import Order


def main() -> None:
    """Have `ZYGOTE ORDER ARGUMENT…` done, with the streams, environment, folder and signals of this process."""
    zygote, order, *arguments = sys.argv[1:]
    parts = json.loads(order)
    parts["arguments"] += arguments
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(zygote)
        Order(**parts, environment=dict(os.environ), folder=str(Path.cwd())).send(connection, [0, 1, 2])
        lines = connection.makefile()
        process = int(lines.readline())
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(process, number))
        for stream in (0, 1, 2):  # else who reads the last of the process waits for this one
            os.close(stream)
        code = int(lines.readline())
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
