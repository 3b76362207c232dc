"""The pass rate, declared once: the share that passed of what was judged."""


def pass_rate(passed: float, not_passed: float) -> float | None:
    """Return the share of verdicts that passed, or None without any.

    What could not be judged (errors of a task, failures of an evaluator, what was skipped) is no part of it, and is
    counted beside it.
    """
    judged = passed + not_passed
    return passed / judged if judged else None
