"""How pages spell numbers."""

import re

import pytest

from collector.web.words import number


@pytest.mark.parametrize(
    "value, digits, told",
    [
        (0.0, 0, "0"),
        (100.0, 0, "100"),
        (3600.0, 0, "3,600"),
        (1.50, 3, "1.5"),
        (2.0, 3, "2"),
        (10, 3, "10"),
        (0.5, 0, "0"),
    ],
)
def test_a_number_loses_no_zeros_but_those_after_its_point(value: float, digits: int, told: str) -> None:
    """Hundreds stay hundreds, also where nothing after the point is wanted."""
    assert re.sub("<[^>]+>", "", number(value, digits)) == told
