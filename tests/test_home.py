"""Pass rates on Home: whose results they are, and what they leave out."""

from collector.web.home import PERIODS, rule_lines
from storage.query.overview import RuleSums


def sums(fingerprint: str, *, passed: int = 0, not_passed: int = 0, last_us: int = 0) -> RuleSums:
    """Return the sums of one evaluator of the only rule."""
    return RuleSums(
        rule_id="r", rule="tool errors", project="shop", fingerprint=fingerprint, passed=passed, not_passed=not_passed,
        broken=0, skipped=1, passed_before=0, not_passed_before=0, last_us=last_us,
    )  # fmt: skip


def test_a_rate_is_that_of_the_latest_evaluator_with_scores_and_others_are_counted() -> None:
    """An evaluator that only skipped hides no rate, and failures that a rate leaves out stand beside it."""
    found = [sums("skips", last_us=3), sums("new", passed=3, not_passed=1, last_us=2), sums("old", not_passed=20)]
    (line,) = rule_lines(found, PERIODS["day"])
    assert (line.sums.fingerprint, line.other_results, line.other_failures) == ("new", 20, 20)
