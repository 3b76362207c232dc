"""The pass rate is declared once."""

import re

import pytest

from storage.rates import pass_rate
from tests.source_tree import ROOT

DECLARED = {"storage/rates.py", "storage/views/runs.sql", "storage/views/judge_rates.sql"}
"""One function, the view of runs, and the view whose results all have a verdict."""

ADDS_RESULTS = re.compile(r"(?s)(?=.*\bFROM evaluations?\b)(?=.*\b(?:count|sum|avg)\()")

DIVISION = re.compile(r"\bpassed(_items|_before)?\)? / ")


def test_the_rate_is_over_what_was_judged() -> None:
    """It is the share of the verdicts, and not known without any."""
    assert (pass_rate(3, 1), pass_rate(0, 2), pass_rate(0, 0)) == (0.75, 0.0, None)


@pytest.mark.parametrize("package", ["collector", "storage"])
def test_the_rate_is_computed_nowhere_else(package: str) -> None:
    """No module, statement or template divides passes by itself."""
    files = [path for end in ("py", "sql", "html") for path in (ROOT / package).rglob(f"*.{end}")]
    paths = {str(path.relative_to(ROOT)) for path in files if DIVISION.search(path.read_text(encoding="utf-8"))}
    assert paths <= DECLARED


def test_statements_that_count_results_leave_replaced_ones_out() -> None:
    """Each statement that sums evaluations excludes superseded ones, except for costs and the watch over judges."""
    files = [path for folder in ("queries", "views") for path in (ROOT / "storage" / folder).rglob("*.sql")]
    adding = {path.name: text for path in files if ADDS_RESULTS.match(text := path.read_text(encoding="utf-8"))}
    assert {name for name, text in adding.items() if "superseded" not in text} == {
        "cost_of_evaluations.sql",
        "metric_of_judgements.sql",
    }
