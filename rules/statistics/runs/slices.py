"""Comparison of two runs by slice: items that share a value of metadata."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rules.statistics.formulas.multiple_testing import benjamini_hochberg
from rules.statistics.formulas.resampling import signs_p_value
from rules.statistics.runs.measures import Measure, Places
from rules.statistics.runs.options import Options
from rules.statistics.runs.records import FinishedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDifference:
    """The difference in one measure over the items with one value of metadata."""

    key: str
    value: str
    measure: str
    compared: int
    baseline_mean: float
    candidate_mean: float
    delta: float
    p_value: float
    adjusted_p_value: float  # Benjamini-Hochberg over slices and measures


def slices_of(
    measures: Sequence[Measure], places: Places, candidate: FinishedRun, options: Options
) -> list[SliceDifference]:
    """Compare each measure for each value of the requested keys."""
    slices: list[SliceDifference] = []
    values: dict[tuple[str, str], list[int]] = {}
    for pair, at in enumerate(places[1].tolist()):
        for key in options.slices:
            if key in candidate.items[at].metadata:
                values.setdefault((key, candidate.items[at].metadata[key]), []).append(pair)
    for measure in measures:
        before, after = measure.baseline.means()[places[0]], measure.candidate.means()[places[1]]
        for (key, value), pairs in sorted(values.items()):
            both = [pair for pair in pairs if not math.isnan(before[pair] + after[pair])]
            if both:
                changes = after[both] - before[both]
                p_value = signs_p_value(changes, options.draws, f"{measure.name}\x1f{key}\x1f{value}")
                slices.append(
                    SliceDifference(
                        key=key,
                        value=value,
                        measure=measure.name,
                        compared=len(both),
                        baseline_mean=float(before[both].mean()),
                        candidate_mean=float(after[both].mean()),
                        delta=float(changes.mean()),
                        p_value=p_value,
                        adjusted_p_value=p_value,
                    )
                )
    adjusted = benjamini_hochberg([each.p_value for each in slices])
    return [replace(each, adjusted_p_value=p) for each, p in zip(slices, adjusted, strict=True)]
