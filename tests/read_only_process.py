"""Commands of `tracejury`, run one after the other among a test's mounts: lists of arguments in, results out."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from click.testing import CliRunner

from collector.cli.main import main
from tests import forking
from tests.source_tree import ROOT

_ALONE: Final = {"mcp", "serve"}  # read standard input, or set up the process


def run_commands(commands: Sequence[Sequence[str]], inside: Sequence[str] = ()) -> list[tuple[int, str]]:
    """Return the exit code and all output of each command, which ends with the traceback if it has one.

    `inside` is the command that runs another one where the mounts are.
    """
    together = [command for command in commands if command[0] not in _ALONE]
    results = _run_inside(together, inside) if inside else map(_run, together)
    return [_run_alone(command, inside) if command[0] in _ALONE else next(results) for command in commands]


def _run_inside(commands: Sequence[Sequence[str]], inside: Sequence[str]) -> Iterator[tuple[int, str]]:
    program = [*inside, sys.executable, "-m", "tests.read_only_process"]
    ended = forking.run(program, input=json.dumps(commands), cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    return iter([(code, output) for code, output in json.loads(ended.stdout)])


def _run_alone(command: Sequence[str], inside: Sequence[str]) -> tuple[int, str]:
    ended = forking.run([*inside, forking.TRACEJURY, *command], input="", timeout=60)
    return ended.returncode, ended.stdout + ended.stderr


def _run(command: Sequence[str]) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(command))
    is_end = result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output + ("" if is_end else f"Traceback: {result.exception!r}")


if __name__ == "__main__":
    json.dump(run_commands(json.load(sys.stdin)), sys.stdout)
