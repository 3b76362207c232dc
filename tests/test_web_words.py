"""The spelling of numbers on pages."""

import re

import pytest

from collector.gating.summary import ratio_text
from collector.units import usd_text
from collector.web.formatting import minus, number, rough_count


@pytest.mark.parametrize(
    "value, digits, expected",
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
def test_a_number_loses_no_zeros_but_those_after_its_point(value: float, digits: int, expected: str) -> None:
    """Hundreds stay hundreds, even without digits after the decimal point."""
    assert re.sub("<[^>]+>", "", number(value, digits)) == expected


@pytest.mark.parametrize(
    "value, text",
    [
        (999, "999"),
        (12_345, "12.3k"),
        (999_499, "999k"),
        (999_999, "1M"),
        (999_999_999, "1G"),
        (1_234 * 10**12, "1230000G"),
    ],
)
def test_a_rough_count_has_about_three_digits(value: int, text: str) -> None:
    """A count that is rounded to a thousand has the next unit, and none is written with an exponent."""
    assert rough_count(value) == text


@pytest.mark.parametrize(
    "usd, text",
    [
        (0.0, "$0"),
        (0.00066, "$0.0007"),
        (0.00207, "$0.0021"),
        (0.0949, "$0.095"),
        (0.0999, "$0.10"),
        (1.5, "$1.50"),
        (1234.567, "$1,234.57"),
        (0.0000213, "$0.00002"),
        (-0.00066, "-$0.0007"),
    ],
)
def test_money_has_two_digits_and_no_more_decimals_than_needed(usd: float, text: str) -> None:
    """Of less than 10 cents two digits are shown, and at most four decimals unless nothing would be left."""
    assert usd_text(usd) == text


def test_differences_have_a_minus_and_names_keep_their_hyphens() -> None:
    """A minus is as wide as a plus, and a hyphen that is not a sign of a number is unchanged."""
    assert minus("-14.0 points, -0.171 to +0.046, as-is") == "\u221214.0 points, \u22120.171 to +0.046, as-is"


def test_an_interval_that_says_nothing_is_not_told() -> None:
    """Cost or time of very few items may have been anything: that is said in words."""
    fields = {"ratio": 1.0, "verdict": None}
    assert ratio_text(fields | {"interval": [0.0, 1e304]}) == "1 times (too few items for an interval)"
    assert ratio_text(fields | {"interval": [0.9, 1.2]}) == "1 times (0.9 to 1.2)"
