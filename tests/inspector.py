"""The inspector of the Model Context Protocol, on its command line: a package of npm, installed if missing."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

_PACKAGE: Final = "@modelcontextprotocol/inspector-cli@1.0.3"  # of the inspector itself, 2.x wants Node 22
_INSTALL_S: Final = 120
_PLACE: Final = Path(tempfile.gettempdir()) / f"tracejury-tests-inspector-{os.getuid()}"


def inspector() -> list[str]:
    """Return the command of the inspector; skip the test if it is not available."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("NOT CHECKED: there is no Node.js with npm, which the inspector needs")
    program = _installed(npm)
    if program is None:
        pytest.skip(f"NOT CHECKED: npm cannot install {_PACKAGE} here")
    return [node, str(program)]


def _installed(npm: str) -> Path | None:
    """Install it under a lock: several test runs may want it at once."""
    program = _PLACE / "node_modules" / "@modelcontextprotocol" / "inspector-cli" / "build" / "index.js"
    _PLACE.mkdir(mode=0o700, exist_ok=True)
    with (_PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return program
        command = [npm, "install", "--prefix", str(_PLACE), "--no-audit", "--no-fund", "--ignore-scripts", _PACKAGE]
        try:
            done = subprocess.run(command, cwd=_PLACE, capture_output=True, timeout=_INSTALL_S, check=False)
        except subprocess.TimeoutExpired:
            return None
    return program if done.returncode == 0 and program.exists() else None
