"""The repository of docs/gate-example.md, made from that page alone: its files, its commands, and its comment."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.forge import a_forge
from tests.source_tree import ROOT
from tests.test_gate import MARK, github_env

pytestmark = pytest.mark.costly(
    "collector/cli", "collector/gating", "deploy/ci", "docs/gate-example.md", "rules/statistics", "sdk/python/src"
)

PAGE: Final = (ROOT / "docs" / "gate-example.md").read_text(encoding="utf-8")
FILES: Final = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
SESSIONS: Final = [
    [(each[0], each[1:]) for each in (part.splitlines() for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:])]
    for text in re.findall(r"^```\n(\$ .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
]
(REMOVED,), (ADDED,) = (re.findall(rf"^\{sign} (.*)$", PAGE, re.MULTILINE) for sign in "-+")
COMMENT: Final = "\n".join(re.findall(r"^> ?(.*)$", PAGE, re.MULTILINE))


class Repository:
    """A folder with the files of the page, in which its commands run."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        for name, text in FILES.items():
            (folder / name).write_text(text, encoding="utf-8")
        programs = str(Path(sys.executable).parent)
        paths = os.pathsep.join([str(ROOT / "sdk" / "python" / "src"), str(folder)])
        outer = {name: value for name, value in os.environ.items() if not name.startswith(("TRACEJURY_", "GITHUB_"))}
        self.env = {**outer, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": paths, "CI": "", **env}

    def run(self, command: str, **env: str) -> tuple[int, list[str]]:
        """Run a command; return its exit code and its lines: standard output, then standard error."""
        done = subprocess.run(
            command.split(),
            cwd=self.folder,
            env=self.env | env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.returncode, [*done.stdout.splitlines(), *done.stderr.splitlines()]

    def change(self, old: str, new: str) -> None:
        """Change a line of the agent."""
        file = self.folder / "agent.py"
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1
        file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.timeout(300)
def test_the_page_is_what_happens(tmp_path: Path) -> None:
    """Each command prints what the page says, the gate of the broken agent exits with 1, and one comment stays."""
    event = tmp_path / "event.json"
    folder = tmp_path / "repository"
    folder.mkdir()
    with a_forge() as forge:
        repository = Repository(folder, github_env(forge.url, event))
        baseline, broken = SESSIONS
        for command, printed in baseline:
            outcome = repository.run(command)
            assert (command, *outcome) == (command, 0, [*printed] if printed else outcome[1])
        repository.change(REMOVED, ADDED)
        for command, printed in broken:
            code, lines = repository.run(command, CI="true")
            assert code == (1 if command.startswith("tracejury gate results") else 0), lines
            assert not printed or lines == printed
        (comment,) = forge.comments
        assert comment["body"] == f"{MARK}\n{COMMENT}\n"
        repository.change(ADDED, REMOVED)
        for command, _ in broken:
            code, lines = repository.run(command, CI="true")
            assert code == 0, lines
        (comment,) = forge.comments
        assert "Inconclusive" in comment["body"]
