"""Commands of `tracejury`, run one after the other where a test has mounts: lists of arguments in, results out."""

import json
import subprocess
import sys
from collections.abc import Sequence

from click.testing import CliRunner

from collector.cli.main import main
from tests.live import TRACEJURY

_ALONE = {"mcp", "serve"}  # read standard input, or set up the process


def run_commands(commands: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Return the exit code and all output of each command, which ends with the traceback if it has one."""
    return [_run_alone(command) if command[0] in _ALONE else _run(command) for command in commands]


def _run_alone(command: Sequence[str]) -> tuple[int, str]:
    ended = subprocess.run(
        [TRACEJURY, *command], stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True, timeout=60
    )
    return ended.returncode, ended.stdout + ended.stderr


def _run(command: Sequence[str]) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(command))
    is_end = result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output + ("" if is_end else f"Traceback: {result.exception!r}")


if __name__ == "__main__":
    json.dump(run_commands(json.load(sys.stdin)), sys.stdout)
