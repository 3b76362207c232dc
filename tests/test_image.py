"""The steps that build the image, run in an empty folder instead of a container, make a working server."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import ANY_PORTS, a_client, environment
from tests.source_tree import ROOT

pytestmark = pytest.mark.costly("deploy")

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
PLACE = "/opt/tracejury"


def steps_of_the_first_stage() -> Iterator[tuple[str, str]]:
    """Yield its instructions in order, each as one line."""
    stage = DOCKERFILE.split("\nFROM ")[1] if DOCKERFILE.startswith("#") else DOCKERFILE.split("FROM ")[1]
    for line in re.sub(r"\\\n\s*", "", stage).splitlines()[1:]:
        instruction, _, rest = line.partition(" ")
        if instruction in {"COPY", "RUN"}:
            yield instruction, rest


@pytest.mark.timeout(600)  # it installs what the server needs
def test_the_steps_of_the_image_make_a_server_that_is_ready(tmp_path: Path) -> None:
    """From the files that are copied and nothing else, with a fresh environment that holds what the lock names."""
    source, place = tmp_path / "src", tmp_path / "opt"
    source.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = environment({"PATH": path, "PIP_NO_COMPILE": "1"})  # imported modules are compiled at import, and no others
    for instruction, rest in steps_of_the_first_stage():
        if instruction == "COPY":
            *files, target = shlex.split(rest)
            for file in files:
                copy = shutil.copytree if (ROOT / file).is_dir() else shutil.copy
                copy(ROOT / file, source / (file if target == "./" else target))
        else:
            step = rest.replace(PLACE, str(place)).replace("python -m venv", f"{sys.executable} -m venv")
            step = step.replace("--no-cache-dir ", "")  # keep pip's cache, so that nothing is downloaded twice
            subprocess.run(["sh", "-ec", step], cwd=source, env=shell, check=True, capture_output=True)
    command = place / "bin" / "tracejury"
    assert not (place / "bin" / "pip").exists()
    serve: list[str] = [str(command), "serve", "--data", str(tmp_path / "data"), *ANY_PORTS]
    with subprocess.Popen(serve, cwd=tmp_path, env=shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            ready = json.loads(server.stdout.readline())
            with a_client() as client:
                assert client.get(f"http://{ready['http']}/health").status_code == 200
        finally:
            server.terminate()
        server.communicate()
    assert server.returncode == 0
