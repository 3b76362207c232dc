"""Failed tests of the last run, once more, each with the machine to itself: `make test` ends as these do.

Most tests start processes, and share the processors with those beside them; one in some thousands fails for want of
time. One that fails alone as well fails the run. One that passes is a defect to be mended: its line for `flaky.txt` is
printed. Listed tests do not run beside others any more but alone, before these, and fail the run at the first failure.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

FLAKY: Final = Path(__file__).with_name("flaky.txt")
_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
_MOST: Final = 8
"""Failures for lack of time that are tolerated, of more than ten thousand tests. A busy machine had five, each for a
reason of its own, and each passed alone."""
_TESTS_FAILED: Final = 1  # the exit code of pytest if it ran to its end


@dataclass(frozen=True, slots=True)
class FailureLines:
    """Plugin that prints the id of a failed test at once: a run that breaks off has no summary."""

    plugins: pytest.PytestPluginManager

    @classmethod
    def register(cls, config: pytest.Config) -> None:
        """Add it to the process that prints reports, which is not a worker."""
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(cls(config.pluginmanager))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print a line, and flush it: standard output may be a pipe."""
        terminal = self.plugins.get_plugin("terminalreporter")
        if report.failed and terminal:
            terminal.write_line(f"\nFAILED {report.nodeid}")
            terminal.flush()


def unsteady(exit_code: int, failed: Mapping[str, bool]) -> Sequence[str]:
    """Return the tests to retry; none if the run was cut off, files could not be read, or too many failed."""
    if exit_code != _TESTS_FAILED or len(failed) > _MOST or not all("::" in name for name in failed):
        return []
    return sorted(failed)


def flaky(file: Path = FLAKY) -> Sequence[str]:
    """Read the names of the tests that are known to need the machine to themselves."""
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def alone(names: Sequence[str], options: Sequence[str] = ()) -> int:
    """Run tests one after another; the exit code of pytest."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, *names]
    return subprocess.run(command, check=False).returncode


def main(exit_code: int, options: Sequence[str] = ()) -> int:
    """Run them, with the options that they had; the exit code of `make test`."""
    failed = json.loads(_FAILED.read_text(encoding="utf-8")) if _FAILED.exists() else {}
    names = unsteady(exit_code, failed)
    if not names:
        return exit_code
    sys.stdout.write("\n".join(["These failed beside others, and run once more, alone:", *names, ""]))
    sys.stdout.flush()
    code = alone(names, options)
    if code == 0:
        sys.stdout.write("\n".join(["They pass alone. Make them steady, or add to tests/flaky.txt:", *names, ""]))
    return code


if __name__ == "__main__":
    if sys.argv[1:] == ["flaky"]:
        sys.exit(alone(listed) if (listed := flaky()) else 0)
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
