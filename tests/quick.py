"""The files of tests that are pure: they start no server, no store and no browser.

`python -m tests.quick` lists those that `make quick` runs: the ones that a change since the recorded commit concerns.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.changed import Changes

TESTS = Path(__file__).parent

_STARTING = {
    "click.testing",
    "collector.app",
    "duckdb",
    "http.server",
    "multiprocessing",
    "playwright",
    "socket",
    "storage.engine.rule_matcher_db",
    "storage.store",
    "subprocess",
    "threading",
    "tracejury.builtin",
}
"""Who imports one of these starts something, or may."""

_PROGRAMS = ("sys.executable", 'get_path("scripts")')
"""Texts of files that start a program by its path."""

_LONG = {"test_regression_monitor.py", "test_statistics_runs.py"}
"""Pure, and yet simulations that take most of a minute."""


def pure_files() -> list[Path]:
    """Return the pure files of tests, by name."""
    return [file for file in sorted(TESTS.rglob("test_*.py")) if not _starts(file)]


@cache
def _starts(file: Path) -> bool:
    names = list(_imported(file))
    helpers = {TESTS.parent / f"{name.replace('.', '/')}.py" for name in names if name.startswith("tests.")}
    text = file.read_text(encoding="utf-8")
    return (
        any(name == each or name.startswith(f"{each}.") for name in names for each in _STARTING)
        or any(program in text for program in _PROGRAMS)
        or any(_starts(helper) for helper in sorted(helpers) if helper.exists())
    )


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def main(options: Sequence[str]) -> None:
    """List the pure files that a change concerns and that take less than a minute; with `--all`, every pure file."""
    files = [
        str(file.relative_to(TESTS.parent)) for file in pure_files() if "--all" in options or file.name not in _LONG
    ]
    changes = None if "--all" in options else Changes.read(TESTS.parent)
    sys.stdout.writelines(f"{file}\n" for file in files if changes is None or changes.concern("pure", file))


if __name__ == "__main__":
    main(sys.argv[1:])
