"""Programs and libraries of Debian's packages, which are unpacked and not installed."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

_DOWNLOAD_S: Final = 120


def promtool() -> str:
    """Return the path of Prometheus' own promtool; skip the test if it is not available."""
    return shutil.which("promtool") or str(_from("prometheus", "usr/bin/promtool"))


def faketime() -> str:
    """Return the path of the library that shifts the clock of a program; skip the test if it is not available."""
    return str(_from("libfaketime", "usr/lib/*/faketime/libfaketime.so.1"))


def _from(package: str, pattern: str) -> Path:
    """Unpack a package under a lock, since several test runs may want it at once."""
    place = Path(tempfile.gettempdir()) / f"tracejury-tests-{package}-{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        commands = (["apt-get", "update", "-qq"],) if os.geteuid() == 0 else ()
        for command in (*commands, ["apt-get", "download", "-qq", package]):
            if not any(place.glob(pattern)):
                _run(command, place)
        for archive in place.glob(f"{package}_*.deb"):
            _run(["dpkg", "-x", str(archive), str(place)], place)
            archive.unlink()
    file = next(place.glob(pattern), None)
    if file is None:
        pytest.skip(f"NOT CHECKED: Debian's package {package} is not installed and cannot be downloaded here")
    return file


def _run(command: list[str], place: Path) -> None:
    try:
        subprocess.run(command, cwd=place, capture_output=True, timeout=_DOWNLOAD_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
