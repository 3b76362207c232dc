"""Run the checks and the pure tests on every supported Python, and the tests of storage and SQL on the newest DuckDB.

`make matrix` uses each interpreter on the path or of pyenv, and lets uv install the others if it can. The environments
stay in build/matrix, so a second run installs nothing.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import requires
from pathlib import Path
from typing import Final

from tests.quick import pure_files
from tests.source_tree import ROOT

VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
DUCKDB: Final = "duckdb"
"""Name of the column of the newest DuckDB, on the Python that runs this. Its environment has no Quack."""

_OF_DUCKDB: Final = (
    "test_apart test_database test_kept_cursors test_keys test_parsing test_queries test_schema_steps test_sql_bounds"
    " test_sql_formats test_sql_parameters test_sql_text test_store"
)
_PASSED: Final = {"passed"}
_SKIPPED: Final = "skipped: not installed, and uv could not install it"
_UV: Final = Path(sys.executable).with_name("uv")

Command = Sequence[str | Path]


def interpreter(version: str) -> Path | None:
    """Return the path of an interpreter of this version; None if there is none and none can be installed."""
    folders = [*map(Path, os.get_exec_path()), *Path.home().glob(f".pyenv/versions/{version}.*/bin")]
    for candidate in (folder / f"python{version}" for folder in folders):
        # The shims of pyenv exist for versions that are not selected, and fail.
        if candidate.exists() and _output([candidate, "--version"]) is not None:
            return candidate
    # A download, which a machine without access to GitHub cannot make.
    _output([_UV, "python", "install", version])
    path = _output([_UV, "python", "find", version])
    return None if path is None else Path(path)


def failures_on_python(version: str, python: Path) -> Iterator[str]:
    """Run the checks and the pure tests on one interpreter; yield the commands that fail."""
    environment = ROOT / "build" / "matrix" / version
    yield from _failed(["make", "check", f"PYTHON={python}", f"VENV={environment}"])
    yield from _failed(_tests(environment, pure_files()))


def failures_on_duckdb() -> Iterator[str]:
    """Run tests on the newest DuckDB, installed as in docs/operations.md; yield the commands that fail."""
    environment = ROOT / "build" / "matrix" / DUCKDB
    (duckdb,) = (each for each in requires("tracejury") or () if each.startswith("duckdb") and "-" not in each)
    pip: Command = [environment / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    commands: Sequence[Command] = (
        ["make", environment / ".dev", f"PYTHON={sys.executable}", f"VENV={environment}"],
        [*pip, "uninstall", "--yes", "duckdb-extension-quack", "duckdb-extension-httpfs"],
        [*pip, "install", "--upgrade", duckdb],
    )
    for command in commands:
        if failed := list(_failed(command)):
            yield from failed
            return
    yield from _failed(_tests(environment, [*pure_files(), *(Path(f"tests/{name}.py") for name in _OF_DUCKDB.split())]))


def main(columns: Sequence[str]) -> int:
    """Run all columns, or those that are named; the exit code is 1 if one failed or if all were skipped."""
    results = {column: _result(column) for column in columns or (*VERSIONS, DUCKDB)}
    for column, result in results.items():
        sys.stdout.write(f"{'newest DuckDB' if column == DUCKDB else f'Python {column}'}: {result}\n")
    outcomes = set(results.values())
    return int(not _PASSED <= outcomes <= {*_PASSED, _SKIPPED})


def _tests(environment: Path, files: Sequence[Path]) -> Command:
    workers = str(min(os.cpu_count() or 1, 4))
    options = ["-n", workers, "--dist", "worksteal", "-q", "--tb=short", "-p", "no:cacheprovider"]
    return [environment / "bin" / "python", "-m", "pytest", *options, *files]


def _failed(command: Command) -> Iterator[str]:
    sys.stdout.flush()
    if subprocess.call(command, cwd=ROOT):
        words = [str(word).removeprefix(f"{ROOT}/") for word in command]
        yield shlex.join(word for word in words if not word.startswith("tests/"))


def _output(command: Command) -> str | None:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _result(column: str) -> str:
    if column == DUCKDB:
        failed = list(failures_on_duckdb())
    elif (python := interpreter(column)) is None:
        return _SKIPPED
    else:
        failed = list(failures_on_python(column, python))
    return f"FAILED: {', '.join(failed)}" if failed else "passed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
