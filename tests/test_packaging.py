"""The content of an installation: exactly four packages with their data, that of the SDK, and one command."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.source_tree import PACKAGES, ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built by the hatchling of this environment, without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    """Its top-level names are the packages, that of the SDK and its own metadata, so nothing else lands anywhere."""
    metadata = "tracejury-0.1.0.dist-info"
    with ZipFile(wheel) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {*PACKAGES, "tracejury", metadata}


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Whatever a package folder holds, SQL files included, is installed, except what Python compiles from it."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file())
    expected = {path.relative_to(ROOT).as_posix() for path in paths if path.suffix != ".pyc"}
    with ZipFile(wheel) as archive:
        assert expected <= set(archive.namelist())
    assert any(name.endswith(".sql") for name in expected)


def test_the_wheel_brings_one_command_and_the_licence(wheel: Path) -> None:
    """The command `tracejury` is the only entry point, and the licence travels with the code."""
    with ZipFile(wheel) as archive:
        files = [Path(name) for name in archive.namelist() if ".dist-info/" in name]
        metadata = {file.name: archive.read(file.as_posix()).decode() for file in files}
    assert metadata["entry_points.txt"].split("\n")[:2] == ["[console_scripts]", "tracejury = collector.cli.main:main"]
    assert "Apache License" in metadata["LICENSE"]
    assert "Classifier: Private :: Do Not Upload" in metadata["METADATA"]
