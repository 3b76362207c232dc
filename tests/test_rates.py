"""The pass rate is declared once."""

import re

import pytest

from storage.rates import pass_rate
from tests.source_tree import ROOT

DECLARED = {"storage/rates.py", "storage/views/runs.sql", "storage/views/judge_rates.sql"}
"""One function, the view of runs, and the view whose results all have a verdict."""

DIVISION = re.compile(r"\bpassed(_items|_before)?\)? / ")


def test_the_rate_is_over_what_was_judged() -> None:
    """It is the share of the verdicts, and not known without any."""
    assert (pass_rate(3, 1), pass_rate(0, 2), pass_rate(0, 0)) == (0.75, 0.0, None)


@pytest.mark.parametrize("package", ["collector", "storage"])
def test_the_rate_is_computed_nowhere_else(package: str) -> None:
    """No module, statement or template divides passes by itself."""
    files = [path for end in ("py", "sql", "html") for path in (ROOT / package).rglob(f"*.{end}")]
    found = {str(path.relative_to(ROOT)) for path in files if DIVISION.search(path.read_text(encoding="utf-8"))}
    assert found <= DECLARED
