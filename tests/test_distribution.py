"""The wheels that `make dist` builds: the same bytes from the same files, and a server wherever they are installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from tests.live import Live, environment
from tests.serving import post
from tests.source_tree import PACKAGES, ROOT
from tests.storing import an_export

pytestmark = [
    pytest.mark.costly("Makefile", "pyproject.toml", "sdk/python/pyproject.toml", "collector/cli"),
    pytest.mark.timeout(600),  # each installs all that the server needs
]

UV = Path(sys.executable).with_name("uv")
INSTALLERS = {
    "pip": [["{python}", "-m", "venv", "venv"], ["venv/bin/pip", "install", "--quiet", "{wheel}"]],
    "pipx": [["{uv}", "tool", "run", "pipx", "install", "--python", "{python}", "{wheel}"]],
    "uv": [["{uv}", "tool", "install", "--quiet", "--python", "{python}", "{wheel}"]],
}
"""The commands of each, in an empty folder; the first of pipx installs pipx itself, from the package index."""


def run(command: list[str], folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command, and capture its output."""
    return subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, text=True)


def build(source: Path, folder: Path) -> dict[str, bytes]:
    """Run `make dist` on a source tree; return the wheels by name."""
    # `-o`: this environment is not installed again, from a tree that ends with the test.
    stamp = f"-o{Path(sys.prefix) / '.dev'}"
    made = run(["make", stamp, "dist", f"DIST={folder}", f"VENV={sys.prefix}"], source, environment())
    assert made.returncode == 0, made.stdout + made.stderr
    return {wheel.name: wheel.read_bytes() for wheel in folder.glob("*.whl")}


@pytest.fixture(name="wheels", scope="module")
def the_folder_of_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of wheels built from this source tree."""
    folder = tmp_path_factory.mktemp("dist")
    assert len(build(ROOT, folder)) == 2
    return folder


def test_the_same_files_make_the_same_bytes(wheels: Path, tmp_path: Path) -> None:
    """Wherever and whenever they were written, and whatever the umask was."""
    source = tmp_path / "elsewhere"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in (*PACKAGES, "sdk"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored, copy_function=shutil.copyfile)
    for file in ("Makefile", "pyproject.toml", "README.md", "LICENSE", "requirements.lock", "requirements-dev.lock"):
        shutil.copyfile(ROOT / file, source / file)
    assert build(source, tmp_path / "dist") == {wheel.name: wheel.read_bytes() for wheel in wheels.glob("*.whl")}


@pytest.mark.parametrize("installer", INSTALLERS)
def test_an_installed_wheel_is_a_server(installer: str, wheels: Path, tmp_path: Path) -> None:
    """It starts, takes a span, and ends when it is asked to, with the newest packages that fit."""
    (wheel,) = wheels.glob("tracejury-*.whl")
    tools, commands = tmp_path / "tools", tmp_path / "bin"
    places = {"PIPX_HOME": tools, "PIPX_BIN_DIR": commands, "UV_TOOL_DIR": tools, "UV_TOOL_BIN_DIR": commands}
    env = environment(places) | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    env.pop("VIRTUAL_ENV", None)
    for command in INSTALLERS[installer]:
        words = [word.format(python=_base_python(), uv=UV, wheel=wheel) for word in command]
        done = run(words, tmp_path, env)
        if done.returncode and not _index_answers(tmp_path):
            pytest.skip(f"no package index answers here: {done.stderr.strip()[-300:]}")
        assert done.returncode == 0, done.stdout + done.stderr
    installed = tmp_path / "venv" / "bin" if installer == "pip" else commands
    with Live(tmp_path / "data", program=str(installed / "tracejury"), forked=False, new=True) as server:
        server.wait_ready()
        post(f"{server.otlp_http}/v1/traces", an_export(1).SerializeToString())
        assert server.committed(1).stored == 1
        assert server.client.get(f"{server.http}/traces").status_code == httpx.codes.OK
        assert server.stop() == 0


def _base_python() -> str:
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")


def _index_answers(folder: Path) -> bool:
    dry_run = [str(UV), "pip", "install", "--dry-run", "--no-cache", "--target", "six", "six"]
    return run(dry_run, folder, environment()).returncode == 0
