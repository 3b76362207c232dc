"""The pass rate, declared once: the share of verdicts that passed."""


def pass_rate(passed: float, not_passed: float) -> float | None:
    """Return the share of verdicts that passed, or None without any.

    Results without a verdict (errors of a task, failures of an evaluator, skipped ones) are not part of the rate, and
    are counted separately.
    """
    judged = passed + not_passed
    return passed / judged if judged else None
