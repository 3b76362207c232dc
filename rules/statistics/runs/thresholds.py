"""A run decided again: the scores that are there, held against other thresholds."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rules.statistics.runs.records import SCORED, FinishedRun


def with_thresholds(run: FinishedRun, thresholds: Mapping[str, float]) -> FinishedRun:
    """The run with what these evaluators scored passing by other thresholds; a score that equals one passes."""
    if not thresholds:
        return run
    passed, evaluators = run.passed.copy(), list(run.evaluators)
    for at, each in enumerate(run.evaluators):
        threshold = thresholds.get(each.name)
        if threshold is None:
            continue
        evaluators[at] = replace(each, threshold=threshold)
        scores = run.scores[at]
        is_enough = scores <= threshold if each.better == "lower" else scores >= threshold
        passed[at] = np.where(run.outcomes[at] == SCORED, is_enough, np.nan)
    return replace(run, evaluators=evaluators, passed=passed)
