"""One part of the suite, completely: `make soak-kill` and its siblings, which record the commit if all of it passes."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from tests import again
from tests.changed import PARTS, RECORD, git, recorded
from tests.source_tree import ROOT


def clean_commit(repository: Path) -> str | None:
    """Return the newest commit; None if files differ from it, the record itself apart."""
    status = git(repository, "status", "--porcelain", "--", ".", f":!{RECORD}")
    return git(repository, "rev-parse", "HEAD") if status == "" else None


def record(repository: Path, part: str, commit: str) -> None:
    """Write the commit of a part; those of the others stay."""
    commits = {**recorded(repository), part: commit}
    file = repository / RECORD
    kept = [line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    lines = [f'{name} = "{commits[name]}"' for name in PARTS if name in commits]
    file.write_text("\n".join([*kept, *lines, ""]), encoding="utf-8")


def skipped(report: Path) -> int:
    """Count the tests that a report of pytest in JUnit's form calls skipped."""
    suites = ET.parse(report).getroot().iter("testsuite")  # noqa: S314 - this run has written it
    return sum(int(suite.get("skipped", "0")) for suite in suites)


def alone(options: Sequence[str]) -> Sequence[str]:
    """Leave out how tests share the processors: who fails runs again as hard as before, with the machine to itself."""
    pairs = zip(options[::2], options[1::2], strict=True)
    return [each for name, value in pairs if name not in {"-n", "--dist"} for each in (name, value)]


def main(part: str, options: Sequence[str]) -> int:
    """Run a part with these options of pytest, each a name and a value; its exit code."""
    before = clean_commit(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "--cache-clear", "-m", part, f"--junit-xml={report}", *options]
        env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # which may select tests
        code = subprocess.run(command, check=False, cwd=ROOT, env=env).returncode
        left_out = skipped(report) if report.exists() else 0
    if code:
        code = again.main(code, alone(options))
    if code == 0 and left_out:
        sys.stdout.write(f"{part}: not recorded, because {left_out} tests were skipped\n")
    elif code == 0 and (before is None or clean_commit(ROOT) != before):
        sys.stdout.write(f"{part}: not recorded, because files differ from the newest commit\n")
    elif code == 0 and before is not None:
        record(ROOT, part, before)
        sys.stdout.write(f"{part}: {RECORD} names {before[:12]}; commit it\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
