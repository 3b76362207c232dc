"""Which failed tests get a second time."""

import pytest

from tests.again import unsteady


@pytest.mark.parametrize(
    "exit_code, failed, again",
    [
        (1, ["tests/test_a.py::test_b"], ["tests/test_a.py::test_b"]),
        (1, [f"tests/test_a.py::test_{number}" for number in range(9)], []),
        (1, [], []),
        (1, ["tests/test_a.py"], []),  # it could not be imported
        (2, ["tests/test_a.py::test_b"], []),  # somebody stopped the run
        (3, ["tests/test_a.py::test_b"], []),
    ],
)
def test_only_a_few_tests_that_failed_get_a_second_time(exit_code: int, failed: list[str], again: list[str]) -> None:
    """Not where many failed, where files could not be read, or where the run did not come to its end."""
    assert unsteady(exit_code, dict.fromkeys(failed, True)) == again
