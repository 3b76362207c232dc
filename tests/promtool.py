"""Prometheus' own promtool: that of the system, or that of Debian's package, which is unpacked and not installed."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

_DOWNLOAD_S: Final = 120
_PLACE: Final = Path(tempfile.gettempdir()) / f"tracejury-tests-promtool-{os.getuid()}"


def promtool() -> str:
    """Return the path of promtool; skip the test if it is not available."""
    path = shutil.which("promtool") or (_unpacked() if shutil.which("apt-get") and shutil.which("dpkg") else None)
    if path is None:
        pytest.skip("NOT CHECKED: there is no promtool, and Debian's package prometheus cannot be downloaded here")
    return path


def _unpacked() -> str | None:
    """Install it under a lock: several test runs may want it at once."""
    program = _PLACE / "usr" / "bin" / "promtool"
    _PLACE.mkdir(mode=0o700, exist_ok=True)
    with (_PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        commands = (["apt-get", "update", "-qq"],) if os.geteuid() == 0 else ()
        for command in (*commands, ["apt-get", "download", "-qq", "prometheus"]):
            if not program.exists():
                _run(command)
        for package in _PLACE.glob("prometheus_*.deb"):
            _run(["dpkg", "-x", str(package), str(_PLACE)])
            package.unlink()
    return str(program) if program.exists() else None


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, cwd=_PLACE, capture_output=True, timeout=_DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired:
        return
