"""The choice of failed tests to retry."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.again import unsteady
from tests.source_tree import ROOT


@pytest.mark.parametrize(
    "exit_code, failed, again",
    [
        (1, ["tests/test_a.py::test_b"], ["tests/test_a.py::test_b"]),
        (1, [f"tests/test_a.py::test_{number}" for number in range(9)], []),
        (1, [], []),
        (1, ["tests/test_a.py"], []),  # it could not be imported
        (2, ["tests/test_a.py::test_b"], []),  # the run was interrupted
        (3, ["tests/test_a.py::test_b"], []),
    ],
)
def test_only_a_few_tests_that_failed_get_a_second_time(exit_code: int, failed: list[str], again: list[str]) -> None:
    """Failed tests are not run again if many failed, files could not be read, or the run did not finish."""
    assert unsteady(exit_code, dict.fromkeys(failed, True)) == again


CONFTEST = """
from tests.again import FailureLines

def pytest_configure(config):
    FailureLines.register(config)
"""


def test_a_failed_test_is_named_at_once(tmp_path: Path) -> None:
    """Its id is in the output of a run whose process is killed by the next test."""
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    kill = "__import__('os').kill(__import__('os').getpid(), 9)"
    (tmp_path / "test_sample.py").write_text(f"def test_a(): assert 0\ndef test_b(): {kill}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert "FAILED test_sample.py::test_a" in done.stdout.splitlines()
