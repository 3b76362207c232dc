"""CPU time of the comparison of two runs, beside NumPy's plain means of the same scores.

nice python -m benchmarks.comparing
"""

import time

import numpy as np

from rules.statistics.runs.comparison import compare
from rules.statistics.runs.records import SCORED, ComparedEvaluator, FinishedRun, JudgedItem

ITEMS, TRIALS, EVALUATORS = 10_000, 5, 5


def a_run(seed: int) -> FinishedRun:
    """Make a run of distinct random scores."""
    scores = np.random.default_rng(seed).random((EVALUATORS, ITEMS, TRIALS))
    return FinishedRun(
        items=[JudgedItem(key=f"item-{at}") for at in range(ITEMS)],
        evaluators=[ComparedEvaluator(name=f"evaluator-{at}", threshold=0.5) for at in range(EVALUATORS)],
        outcomes=np.full(scores.shape, SCORED, dtype=np.uint8),
        scores=scores,
        passed=(scores >= 0.5).astype(np.float64),
    )


def main() -> None:
    """Print the CPU time of the comparison, of plain means, and their ratio."""
    baseline, candidate = a_run(1), a_run(2)
    small = FinishedRun(
        items=baseline.items[:2],
        evaluators=baseline.evaluators,
        outcomes=baseline.outcomes[:, :2],
        scores=baseline.scores[:, :2],
        passed=baseline.passed[:, :2],
    )
    start = time.process_time()
    compare(small, small)
    loading = time.process_time() - start
    start = time.process_time()
    result = compare(baseline, candidate)
    compared = time.process_time() - start
    start = time.process_time()
    for _ in range(10):
        for run in (baseline, candidate):
            run.scores.mean(axis=2).mean(axis=1)
    plain = (time.process_time() - start) / 10
    print(
        f"{ITEMS:,} items x {TRIALS} trials x {EVALUATORS} evaluators: {result.verdict}, {result.worse:,} items worse"
    )
    print(f"compare: {compared:.2f} s CPU (and {loading:.2f} s once, to load SciPy's special functions)")
    print(f"plain means: {plain * 1e3:.1f} ms CPU; ratio {compared / plain:.0f}")


if __name__ == "__main__":
    main()
