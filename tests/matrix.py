"""Run the checks and the pure tests on every supported Python.

`make matrix` uses each interpreter on the path or of pyenv, and lets uv install the others if it can. The environments
stay in build/matrix, so a second run installs nothing.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.quick import pure_files
from tests.source_tree import ROOT

VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
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


def failures(version: str, python: Path) -> Iterator[str]:
    """Run the checks and the pure tests on one interpreter; yield the names of those that fail."""
    environment = ROOT / "build" / "matrix" / version
    if subprocess.call(["make", "check", f"PYTHON={python}", f"VENV={environment}"], cwd=ROOT):
        yield "check"
    options = ["-n", str(min(os.cpu_count() or 1, 4)), "--dist", "worksteal", "-q", "-p", "no:cacheprovider"]
    if subprocess.call([environment / "bin" / "python", "-m", "pytest", *options, *pure_files()], cwd=ROOT):
        yield "tests"


def main(versions: Sequence[str]) -> int:
    """Run all versions, or those that are named; the exit code is 1 if one failed or if all were skipped."""
    results = {version: _result(version) for version in versions or VERSIONS}
    sys.stdout.writelines(f"Python {version}: {result}\n" for version, result in results.items())
    outcomes = set(results.values())
    return int(not _PASSED <= outcomes <= {*_PASSED, _SKIPPED})


def _output(command: Command) -> str | None:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _result(version: str) -> str:
    python = interpreter(version)
    return _SKIPPED if python is None else ", ".join(failures(version, python)) or "passed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
