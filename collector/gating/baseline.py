"""The baseline file: what the gate compares with, kept beside the code and read by people in diffs."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from collector.gating.results import AgreedEvaluators, BadResultsFile, Results, number, passes, read_json
from rules.statistics.runs.records import (
    FAILED,
    MISSING,
    SCORED,
    SKIPPED,
    ComparedEvaluator,
    FinishedRun,
    JudgedItem,
    TrialResult,
    run_of,
)

FORMAT: Final = 1
_OUTCOMES: Final = {SCORED: "scored", FAILED: "failed", SKIPPED: "skipped", MISSING: "missing"}
_POSITION: Final = re.compile(r"item-(0|[1-9][0-9]*)")


def baseline_document(results: Results, provenance: Mapping[str, str]) -> dict[str, Any]:
    """Return the baseline of a run: scores, thresholds and passes by item and evaluator, sorted; no texts of models."""
    run = results.run
    trials = int((run.outcomes > 0).any(axis=0).sum(axis=1).max(initial=1))
    order = sorted(range(len(run.items)), key=lambda at: _natural(run.items[at].key))
    names = sorted(range(len(run.evaluators)), key=lambda at: run.evaluators[at].name)
    return {
        "formatVersion": FORMAT,
        "experiment": results.experiment,
        "dataset": {"itemCount": len(run.items)},
        "pairing": results.pairing,
        "runsPerItem": trials,
        "items": [
            {
                "key": run.items[at].key,
                "input": run.items[at].text,
                "evaluators": [_judged(run, name, at, trials) for name in names if run.outcomes[name, at].any()],
            }
            for at in order
        ],
        "provenance": dict(sorted(provenance.items())),
    }


def write_baseline(path: Path, document: Mapping[str, Any]) -> None:
    """Write the file atomically, so that no reader sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)


def read_baseline(path: Path) -> Results:
    """Read a baseline file.

    Raises:
        BadResultsFile: it cannot be read, its format is unknown, or it has duplicate or missing fields.
    """
    document = read_json(path)
    if not isinstance(document, dict) or document.get("formatVersion") != FORMAT:
        version = document.get("formatVersion") if isinstance(document, dict) else None
        raise BadResultsFile(f"{path}: format {version!r} is not known; this version reads {FORMAT}")
    experiment, pairing, items = document.get("experiment"), document.get("pairing"), document.get("items")
    if pairing not in {"positional", "dataset_item_id"} or not isinstance(experiment, str):
        raise BadResultsFile(f"{path}: 'experiment' and 'pairing' are needed")
    if not isinstance(items, list) or not items:
        raise BadResultsFile(f"{path}: a list 'items' is needed")
    evaluators = AgreedEvaluators()
    described, results = [], []
    for at, item in enumerate(items):
        where = f"{path}: items[{at}]"
        key, judged = (item.get("key"), item.get("evaluators")) if isinstance(item, dict) else (None, None)
        if not isinstance(key, str) or (pairing == "positional" and not _POSITION.fullmatch(key)):
            raise BadResultsFile(f"{where}: {key!r} is not a key of an item")
        if not isinstance(judged, list) or not judged:
            raise BadResultsFile(f"{where}: a list 'evaluators' is needed")
        described.append(JudgedItem(key=key, text=str(item.get("input", ""))))
        for entry in judged:
            results += _results(key, entry, evaluators, where)
    try:
        run = run_of(described, evaluators.all, results)
    except ValueError as error:
        raise BadResultsFile(f"{path}: {error}") from error
    return Results(experiment=experiment, pairing=pairing, run=run)


def _judged(run: FinishedRun, evaluator: int, item: int, trials: int) -> dict[str, Any]:
    """Serialize one evaluator's results for an item; scores of several trials are listed beside their mean."""
    known = run.evaluators[evaluator]
    scores, outcomes = run.scores[evaluator, item], run.outcomes[evaluator, item]
    scored = scores[outcomes == SCORED]
    verdicts = run.passed[evaluator, item][outcomes == SCORED]
    passed = None if np.isnan(verdicts).all() else bool(np.nanmean(verdicts) >= 0.5)  # noqa: PLR2004 - ties pass
    line: dict[str, Any] = {
        "name": known.name,
        "score": round(float(scored.mean()), 6) if scored.size else None,
        "threshold": known.threshold,
        "pass": passed if scored.size else False,
    }
    if trials > 1:
        has_score = outcomes > 0
        line["scores"] = [None if math.isnan(each) else float(each) for each in scores[has_score]]
        if (outcomes[has_score] != SCORED).any():
            line["outcomes"] = [_OUTCOMES[each] for each in outcomes[has_score]]
    if not scored.size:
        codes = set(outcomes[outcomes > 0].tolist())
        line["outcome"] = _OUTCOMES[codes.pop()] if len(codes) == 1 else "failed"
    if known.better == "lower":
        line["better"] = "lower"
    if known.fingerprint is not None:
        line["fingerprint"] = known.fingerprint
    return line


def _results(key: str, entry: Any, evaluators: AgreedEvaluators, where: str) -> list[TrialResult]:  # noqa: ANN401 - JSON
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not name:
        raise BadResultsFile(f"{where}: an evaluator has no name")
    threshold = entry.get("threshold")
    evaluator = ComparedEvaluator(
        name=name,
        better="lower" if entry.get("better") == "lower" else "higher",
        threshold=None if threshold is None else number(threshold, where),
        fingerprint=entry.get("fingerprint"),
    )
    scores = entry.get("scores", [entry.get("score")])
    if not isinstance(scores, list) or not scores:
        raise BadResultsFile(f"{where}: scores must be a list of numbers")
    outcomes = entry.get("outcomes", [entry.get("outcome")] * len(scores))
    if not isinstance(outcomes, list) or len(outcomes) != len(scores):
        raise BadResultsFile(f"{where}: outcomes must be a list of the same length as scores")
    results = []
    for trial, (score, outcome) in enumerate(zip(scores, outcomes, strict=True)):
        if score is None:
            if outcome != _OUTCOMES[MISSING]:
                lost: Literal["skipped", "failed"] = "skipped" if outcome == "skipped" else "failed"
                results.append(TrialResult(item=key, evaluator=name, trial=trial, outcome=lost))
            continue
        value = number(score, where)
        stored = entry.get("pass") if len(scores) == 1 else None
        passed = stored if isinstance(stored, bool) else passes(evaluator, value)
        results.append(TrialResult(item=key, evaluator=name, trial=trial, score=value, passed=passed))
    evaluators.add(evaluator, results, where)
    return results


def _natural(key: str) -> tuple[int, str]:
    matched = _POSITION.fullmatch(key)
    return (int(matched[1]), "") if matched else (-1, key)
