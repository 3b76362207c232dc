"""Result of an experiment as the JSON that `tracejury gate` reads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracejury.plain import plain
from tracejury.score import DEFAULT_THRESHOLD, Score

if TYPE_CHECKING:
    from tracejury.results import ItemResult


def exported(name: str, items: Sequence["ItemResult"], description: str = "") -> dict[str, Any]:
    """Return the results of a run: each example once, with the scores of its trials in their order."""
    trials: dict[str, list[ItemResult]] = {}
    for item in items:
        trials.setdefault(item.key, []).append(item)
    has_trials = any(len(each) > 1 for each in trials.values())
    scored: dict[str, list[Score]] = {}
    for score in (score for item in items for score in item.scores if _number(score) is not None):
        scored.setdefault(score.name or "", []).append(score)
    judging = {of: _judging(scores, has_trials=has_trials) for of, scores in scored.items()}
    cases = [_item(each, judging) for each in trials.values()]
    return {"version": 1, "experimentName": name, "description": description, "items": cases}


def _item(trials: Sequence["ItemResult"], judging: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    ordered = sorted(trials, key=lambda trial: trial.trial)
    example = ordered[0].example
    scores_by_trial = [{score.name or "": score for score in trial.scores} for trial in ordered]
    of_run = judging if any(trial.error is not None for trial in ordered) else ()
    names = list(dict.fromkeys([*(name for scores in scores_by_trial for name in scores), *of_run]))
    used = {
        "costUsd": [None if trial.measured is None else trial.measured.cost_usd for trial in ordered],
        "latencyMs": [_latency_ms(trial) for trial in ordered],
    }
    return {
        "id": ordered[0].key,
        "input": plain(example.inputs if example.input is None else example.input),
        "metadata": plain(example.metadata),
        "evaluations": [
            {
                "evaluator": name,
                **_trials_document([scores.get(name) for scores in scores_by_trial]),
                **judging.get(name, {}),
            }
            for name in names
        ],
        **{name: of if len(of) > 1 else of[0] for name, of in used.items() if of.count(None) < len(of)},
    }


def _latency_ms(trial: "ItemResult") -> float | None:
    measured_ms = None if trial.measured is None else trial.measured.latency_ms
    return trial.latency_ms if measured_ms is None else measured_ms


def _trials_document(trials: Sequence[Score | None]) -> dict[str, Any]:
    """Return one evaluator's trials of an example; a trial is None if its task failed."""
    known = [each for each in trials if each is not None]
    scores = [None if each is None else _number(each) for each in trials]
    document: dict[str, Any] = {"scores": scores}
    if len(scores) == 1:
        document = {"score": scores[0], "success": known[0].success if known else False}
    if scores.count(None) < len(scores):
        return document
    skipped = len(known) == len(trials) and all(each.error is None for each in known)
    return document | {"outcome": "skipped" if skipped else "failed"}


def _number(score: Score) -> float | None:
    # A score with a verdict but no value counts as an end of the scale.
    if score.error is not None or (score.value is None and score.passed is None):
        return None
    return float(score.passed == (score.direction == "higher")) if score.value is None else score.value


def _judging(scored: Sequence[Score], *, has_trials: bool) -> Mapping[str, Any]:
    """Return the settings by which an evaluator judged a run, without those that differ between its scores.

    If an example has several trials, a threshold that contradicts the verdict of one is left out too.

    """
    first = scored[0]
    document: dict[str, Any] = {"better": "lower"} if first.direction == "lower" else {}
    fingerprints = {each.fingerprint or each.version for each in scored}
    thresholds = {DEFAULT_THRESHOLD if each.threshold is None else each.threshold for each in scored}
    if len(fingerprints) == 1 and None not in fingerprints:
        document |= {"fingerprint": fingerprints.pop()}
    if len(thresholds) == 1 and (not has_trials or all(_is_by_threshold(each) for each in scored)):
        document |= {"threshold": thresholds.pop()}
    return document


def _is_by_threshold(score: Score) -> bool:
    number = _number(score)
    return number is None or score.success == replace(score, value=number, passed=None).success
