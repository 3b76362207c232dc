"""The gate's decision over files: compare, update, or report that there is no baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from collector.gating.baseline import baseline_document, read_baseline, write_baseline
from collector.gating.results import BadResultsFile, Results, read_results
from rules.statistics.runs.comparison import Comparison, Incomparable, ItemChange, compare
from rules.statistics.runs.differences import Difference
from rules.statistics.runs.measures import PASS_RATE
from rules.statistics.runs.options import Options
from rules.statistics.runs.records import SCORED
from rules.statistics.runs.repeats import PassChance

MAX_CASES: Final = 50
PASSED: Final = 0
REGRESSED: Final = 1
BAD_INPUT: Final = 2
INCONCLUSIVE: Final = 3  # if the policy fails on an inconclusive verdict, or nothing was judged
NO_BASELINE: Final = 4


_NOTHING_JUDGED: Final = "nothing was judged: no evaluator scored an item of this run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Policy of the gate."""

    update: bool = False
    against: Path | None = None  # results to compare with instead of a baseline file
    in_ci: bool = False
    bootstrap_passes: bool = True  # the first local run, which writes the baseline, passes
    require_baseline: bool = False
    fail_on_regression: bool = True
    fail_on_inconclusive: bool = False
    fail_on_removed_items: bool = False
    fail_on_removed_evaluator: bool = True  # one that scored something in the baseline
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """The verdict document, and the exit code for it."""

    document: Mapping[str, Any]
    exit_code: int
    can_be_accepted: bool = False  # the gate fails, and would pass with these results as baseline


def decide(candidate: Results, baseline: Path, policy: Policy, provenance: Mapping[str, str]) -> GateDecision:
    """Compare with a baseline file; write it if it is to be updated or is missing outside of CI.

    A run without any score never becomes the baseline.

    Raises:
        BadResultsFile: the baseline cannot be read, or must not be compared with.
    """
    if policy.against is not None and policy.update:
        raise BadResultsFile("--against writes no baseline: leave it out, or the update of the baseline")
    if policy.against is not None:
        return judge(read_results(policy.against, candidate.pairing), candidate, str(policy.against), policy)
    if (policy.update or not baseline.exists()) and not _is_judged(candidate):
        return _unjudged(candidate)
    if policy.update or (not baseline.exists() and not policy.in_ci):
        created = not baseline.exists()
        write_baseline(baseline, baseline_document(candidate, provenance))
        passed = policy.update or policy.bootstrap_passes
        note = f"baseline {'created' if created else 'updated'} at {baseline}: review and commit it"
        document = _uncompared("PASS" if passed else "FAIL", candidate, note, *_silent(candidate))
        return GateDecision(document=document, exit_code=PASSED if passed else REGRESSED)
    if not baseline.exists():
        note = f"there is no baseline at {baseline}, so nothing was measured: make one locally and commit it"
        return without_baseline(candidate, note, policy)
    return judge(read_baseline(baseline), candidate, str(baseline), policy)


def without_baseline(candidate: Results, reason: str, policy: Policy) -> GateDecision:
    """Return the decision without a baseline, with the reason."""
    if not _is_judged(candidate):
        return _unjudged(candidate, reason)
    document = _uncompared("NO_BASELINE", candidate, reason)
    return GateDecision(document=document, exit_code=NO_BASELINE if policy.require_baseline else PASSED)


def judge(before: Results, candidate: Results, baseline: str, policy: Policy) -> GateDecision:
    """Compare a candidate with a baseline; errors call the latter `baseline`.

    Raises:
        BadResultsFile: the two must not be compared.
    """
    if before.pairing != candidate.pairing:
        raise BadResultsFile(
            f"{baseline}: items are paired by {before.pairing}, and those of the candidate by {candidate.pairing}"
        )
    try:
        comparison = compare(before.run, candidate.run, policy.options)
    except Incomparable as error:
        raise BadResultsFile(f"{baseline}: {error}; update the baseline, or choose evaluators") from error
    return decision_on(comparison, candidate, policy)


def decision_on(comparison: Comparison, candidate: Results, policy: Policy) -> GateDecision:
    """Decide on a comparison that was made with the policy's options."""
    failures, warnings = list(comparison.failures), list(comparison.warnings)
    missing = [f"evaluator {name} of the baseline is missing" for name in comparison.removed_evaluators]
    (failures if policy.fail_on_removed_evaluator else warnings).extend(missing)
    missing = (
        [f"{len(comparison.removed)} items of the baseline are missing: {_some(comparison.removed)}"]
        if comparison.removed
        else []
    )
    (failures if policy.fail_on_removed_items else warnings).extend(missing)
    verdict = "regressed" if failures else comparison.verdict
    failed = verdict == "regressed" and policy.fail_on_regression
    if verdict == "inconclusive":
        warnings.append("inconclusive: these items do not show whether the change is worse by more than the margin")
    unjudged = verdict != "regressed" and not comparison.judged
    if unjudged:
        failures.append(_NOTHING_JUDGED)
    undecided = unjudged or (verdict == "inconclusive" and policy.fail_on_inconclusive)
    document = {
        "status": "FAIL" if failed or undecided else "PASS",
        "passed": not (failed or undecided),
        "verdict": verdict,
        "experiment": candidate.experiment,
        "pairing": candidate.pairing,
        **_counted(comparison, candidate.pairing, policy.options.alpha),
        **_details(comparison),
        "failures": failures,
        "warnings": warnings,
    }
    code = REGRESSED if failed else INCONCLUSIVE if undecided else PASSED
    return GateDecision(document=document, exit_code=code, can_be_accepted=code != PASSED and not unjudged)


def _counted(comparison: Comparison, pairing: str, alpha: float) -> dict[str, Any]:
    """Return the numbers of a comparison, under the names that servers of this kind use."""
    rate = comparison.rate
    cases = _cases(comparison.items, pairing)
    return {
        "baselinePassRate": None if rate is None else _rounded(rate.baseline_mean),
        "candidatePassRate": None if rate is None else _rounded(rate.candidate_mean),
        "passRateDelta": None if rate is None else _rounded(rate.delta),
        "significant": rate is not None and rate.adjusted_p_value < alpha,
        "improvedCount": comparison.better,
        "regressedCount": comparison.worse,
        "unchangedCount": comparison.equal,
        "unscoredCount": comparison.unscored,
        "addedCount": len(comparison.added),
        "removedCount": len(comparison.removed),
        "regressedEvaluators": [
            {
                "evaluator": each.name,
                "baselineMean": _rounded(each.baseline_mean),
                "candidateMean": _rounded(each.candidate_mean),
                "delta": _rounded(each.delta),
                "pValue": _rounded(each.adjusted_p_value),
            }
            for each in comparison.differences
            if each.verdict == "regressed" and each.name != PASS_RATE
        ],
        "cases": cases[:MAX_CASES],
        "casesTruncated": comparison.worse > len(cases[:MAX_CASES]),
        "comparedPass": True,
    }


def _details(comparison: Comparison) -> dict[str, Any]:
    return {
        "evaluators": [_difference(each) for each in comparison.differences],
        "slices": [
            {
                "key": each.key,
                "value": each.value,
                "evaluator": each.measure,
                "items": each.compared,
                "delta": _rounded(each.delta),
                "adjustedPValue": _rounded(each.adjusted_p_value),
            }
            for each in comparison.slices
        ],
        "ratios": [
            {
                "name": each.name,
                "items": each.compared,
                "ratio": _rounded(each.ratio),
                "interval": [_rounded(each.interval.low), _rounded(each.interval.high)],
                "verdict": each.verdict,
            }
            for each in comparison.ratios
        ],
        "repeats": repeats_document(comparison.repeats),
    }


def repeats_document(chances: Sequence[PassChance]) -> list[dict[str, Any]]:
    """Return the document of repeated trials, for each k."""
    return [
        {
            "k": each.k,
            "items": each.compared,
            "passAtK": [_rounded(chance) for chance in each.any_of],
            "passHatK": [_rounded(chance) for chance in each.all_of],
        }
        for each in chances
    ]


def _is_judged(candidate: Results) -> bool:
    return bool((candidate.run.outcomes == SCORED).any())


def _unjudged(candidate: Results, *reasons: str) -> GateDecision:
    document = {**_uncompared("FAIL", candidate, *reasons), "failures": [_NOTHING_JUDGED]}
    return GateDecision(document=document, exit_code=INCONCLUSIVE)


def _silent(candidate: Results) -> list[str]:
    run = candidate.run
    return [
        f"evaluator {each.name} scored nothing in this run, so with this baseline it is compared with nothing"
        for each, outcomes in zip(run.evaluators, run.outcomes, strict=True)
        if not (outcomes == SCORED).any()
    ]


def _uncompared(status: str, candidate: Results, *reasons: str) -> dict[str, Any]:
    return {
        "status": status,
        "passed": status != "FAIL",
        "verdict": None,
        "experiment": candidate.experiment,
        "pairing": "none" if status == "NO_BASELINE" else candidate.pairing,
        "regressedCount": 0,
        "regressedEvaluators": [],
        "cases": [],
        "casesTruncated": False,
        "comparedPass": False,
        "evaluators": [],
        "slices": [],
        "ratios": [],
        "repeats": [],
        "failures": [],
        "warnings": [*reasons],
    }


def _difference(each: Difference) -> dict[str, Any]:
    return {
        "evaluator": each.name,
        "verdict": each.verdict,
        "improved": each.improved,
        "withinMargin": each.within_margin,
        "better": each.better,
        "margin": each.margin,
        "items": each.compared,
        "worse": each.worse,
        "baselineMean": _rounded(each.baseline_mean),
        "candidateMean": _rounded(each.candidate_mean),
        "delta": _rounded(each.delta),
        "interval": [_rounded(each.interval.low), _rounded(each.interval.high)],
        "method": each.method,
        "pValue": _rounded(each.p_value),
        "adjustedPValue": _rounded(each.adjusted_p_value),
        "smallestDetectable": _rounded(each.smallest_detectable),
        "itemsNeeded": each.items_needed,
        "unscored": {kind: list(counts) for kind, counts in each.unscored.items() if any(counts)},
    }


def _cases(items: Sequence[ItemChange], pairing: str) -> list[dict[str, Any]]:
    """Return items that became worse, the worst first, each with the evaluators whose scores dropped."""
    cases: dict[str, dict[str, Any]] = {}
    for each in items:
        if not each.worse:
            continue
        by_place = pairing == "positional"
        case = cases.setdefault(
            each.key,
            {
                "key": each.key,
                "datasetItemId": None if by_place else each.key,
                "index": int(each.key.removeprefix("item-")) if by_place else None,
                "input": each.text,
                "evaluatorDrops": [],
            },
        )
        if each.measure != PASS_RATE:
            case["evaluatorDrops"].append(
                {
                    "evaluator": each.measure,
                    "baselineMean": _rounded(each.baseline_mean),
                    "candidateMean": _rounded(each.candidate_mean),
                    "delta": _rounded(each.delta),
                    "flip": each.flip,
                }
            )
    return list(cases.values())


def _rounded(value: float | None) -> float | None:
    return None if value is None or abs(value) == float("inf") else round(value, 6)


def _some(keys: Sequence[str]) -> str:
    return ", ".join(keys[:5]) + (", …" if len(keys) > 5 else "")  # noqa: PLR2004 - a line
