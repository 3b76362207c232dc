"""Results of a run as the gate reads them: the JSON export of an experiment."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from rules.statistics.runs.records import ComparedEvaluator, FinishedRun, JudgedItem, Outcome, TrialResult, run_of
from storage.limit import Limit

Pairing: TypeAlias = Literal["positional", "dataset_item_id"]

MAX_BYTES: Final = 256 << 20
"""A file may be this large. A guess: 10,000 items with 25 kB of texts each."""

_FILE: Final = Limit(value=MAX_BYTES, unit="bytes", remedy="gate a part of the items")

MAX_TRIALS: Final = 1_000
_AS_JSON: Final = json.JSONEncoder(ensure_ascii=False)
ANCHOR_CHARS: Final = 80  # of an item's input in the baseline and in reports


class BadResultsFile(ValueError):
    """Refusal of a file with wrong content; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A run, its name, and the identity of its items."""

    experiment: str
    pairing: Pairing
    run: FinishedRun


class AgreedEvaluators:
    """Evaluators of a file by name; each must have one threshold, direction and fingerprint for all items."""

    def __init__(self) -> None:
        self._by_name: dict[str, ComparedEvaluator] = {}
        self._scored: set[str] = set()

    @property
    def all(self) -> list[ComparedEvaluator]:
        """Return the evaluators in the order in which they were added."""
        return list(self._by_name.values())

    def add(self, evaluator: ComparedEvaluator, trials: Sequence[TrialResult], where: str) -> None:
        """Merge the threshold, direction and fingerprint of one evaluation.

        A missing one agrees with any. The direction, which has a default, counts only beside a score, because exports
        omit all three for failed and skipped evaluations.

        Raises:
            BadResultsFile: one of the three differs from that of another item.
        """
        has_score = any(each.score is not None for each in trials)
        known = self._by_name.setdefault(evaluator.name, evaluator)
        is_known_better = evaluator.name in self._scored
        differ = (
            (has_score and is_known_better and known.better != evaluator.better)
            or _differ(known.threshold, evaluator.threshold)
            or _differ(known.fingerprint, evaluator.fingerprint)
        )
        if differ:
            raise BadResultsFile(
                f"{where}: {evaluator.name} has another threshold, direction or fingerprint than before"
            )
        self._by_name[evaluator.name] = ComparedEvaluator(
            name=evaluator.name,
            better=evaluator.better if has_score or not is_known_better else known.better,
            threshold=known.threshold if evaluator.threshold is None else evaluator.threshold,
            fingerprint=known.fingerprint or evaluator.fingerprint,
        )
        if has_score:
            self._scored.add(evaluator.name)


def _differ(known: object, other: object) -> bool:
    return known is not None and other is not None and known != other


def read_results(path: Path, pairing: Literal["auto", "positional", "dataset_item_id"] = "auto") -> Results:
    """Read a results file.

    Raises:
        BadResultsFile: the file cannot be read, or is not a valid results document.
    """
    document = read_json(path)
    return results_of(document, pairing, str(path))


def results_of(document: Any, pairing: str, path: str) -> Results:  # noqa: ANN401 - JSON
    """Parse a results document."""
    items = _list(document, "items", path)
    name = document.get("experimentName")
    if not isinstance(name, str) or not name.strip():
        raise BadResultsFile(f"{path}: the experiment has no name, which identifies its baseline; give it one")
    ids = [_id_of(item, f"{path}: items[{at}]") for at, item in enumerate(items)]
    if pairing == "dataset_item_id" and None in ids:
        raise BadResultsFile(f"{path}: items[{ids.index(None)}] has no id, and items are paired by it")
    by_id = pairing != "positional" and None not in ids
    keys = [str(each) if by_id else f"item-{at}" for at, each in enumerate(ids)]
    if len(set(keys)) != len(keys):
        raise BadResultsFile(f"{path}: the item {next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    evaluators = AgreedEvaluators()
    results: list[TrialResult] = []
    for at, (key, item) in enumerate(zip(keys, items, strict=True)):
        for place, evaluation in enumerate(_list(item, "evaluations", f"{path}: items[{at}]", empty=True)):
            where = f"{path}: items[{at}].evaluations[{place}]"
            evaluator = _evaluator(evaluation, where)
            trials = _trials(key, evaluator, evaluation, where)
            evaluators.add(evaluator, trials, where)
            results += trials
    if not evaluators.all:
        raise BadResultsFile(f"{path}: no item has evaluations")
    described = [
        JudgedItem(key=key, text=anchor(item.get("input")), metadata=_metadata(item))
        for key, item in zip(keys, items, strict=True)
    ]
    try:
        run = run_of(described, evaluators.all, results, _usage(keys, items))
    except ValueError as error:
        raise BadResultsFile(f"{path}: {error}") from error
    return Results(experiment=name, pairing="dataset_item_id" if by_id else "positional", run=run)


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON
    """Read a JSON document with unique keys; NaN and infinite numbers are read as floats.

    Raises:
        BadResultsFile: the file cannot be read or is too large, its text is not JSON, or it repeats a key.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadResultsFile(f"{path}: larger than {_FILE}")
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_once, parse_constant=float)
    except (OSError, ValueError, RecursionError) as error:
        raise BadResultsFile(f"{path}: {error}") from error


def anchor(value: object) -> str:
    """Return a readable name of an item: its input on one line, cut; a map with one value is shown as that value."""
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    text = value if isinstance(value, str) else "" if value is None else _AS_JSON.encode(value)
    line = " ".join(text.split())
    return line if len(line) <= ANCHOR_CHARS else line[: ANCHOR_CHARS - 1] + "…"


def number(value: object, where: str) -> float:
    """Return a finite number, rounded to six decimals.

    Raises:
        BadResultsFile: the value is not a finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadResultsFile(f"{where}: {value!r} is not a finite number")
    return round(float(value), 6)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    merged = dict(pairs)
    if len(merged) != len(pairs):
        raise ValueError(f"an object has a duplicate key; its keys: {', '.join(merged)}"[:200])
    return merged


def _list(document: Any, name: str, where: str, *, empty: bool = False) -> Sequence[Any]:  # noqa: ANN401 - JSON
    items = document.get(name) if isinstance(document, dict) else None
    if not isinstance(items, list) or not (items or empty):
        raise BadResultsFile(f"{where}: a list {name!r} is needed")
    return items


def _id_of(item: Any, where: str) -> str | None:  # noqa: ANN401 - JSON
    if not isinstance(item, dict):
        raise BadResultsFile(f"{where}: no object")
    item_id = item.get("id", item.get("datasetItemId"))
    if item_id is None or (isinstance(item_id, str) and not item_id.strip()):
        return None
    if isinstance(item_id, bool) or not isinstance(item_id, str | int):
        raise BadResultsFile(f"{where}: an id must be text or a whole number")
    return str(item_id).strip()


def _evaluator(evaluation: Any, where: str) -> ComparedEvaluator:  # noqa: ANN401 - JSON
    name = evaluation.get("evaluator", evaluation.get("name")) if isinstance(evaluation, dict) else None
    if not isinstance(name, str) or not name.strip():
        raise BadResultsFile(f"{where}: a text 'evaluator' is needed")
    better, threshold = evaluation.get("better", "higher"), evaluation.get("threshold")
    if better not in {"higher", "lower"}:
        raise BadResultsFile(f"{where}: better is 'higher' or 'lower'")
    fingerprint = evaluation.get("fingerprint")
    return ComparedEvaluator(
        name=name,
        better=better,
        threshold=None if threshold is None else number(threshold, f"{where}.threshold"),
        fingerprint=None if fingerprint is None else str(fingerprint),
    )


def _trials(key: str, evaluator: ComparedEvaluator, evaluation: Mapping[str, Any], where: str) -> list[TrialResult]:
    scores = evaluation.get("scores")
    single = scores is None
    if scores is None:
        scores = [evaluation.get("score", evaluation.get("averageScore"))]
    if not isinstance(scores, list) or not 0 < len(scores) <= MAX_TRIALS:
        raise BadResultsFile(f"{where}: scores must be a list of 1 to {MAX_TRIALS} numbers")
    outcome = evaluation.get("outcome", "scored")
    if outcome not in {"scored", "failed", "skipped"}:
        raise BadResultsFile(f"{where}: outcome is 'scored', 'failed' or 'skipped'")
    if outcome == "scored" and evaluation.get("error"):
        outcome = "failed"  # an error means that the evaluator failed, even beside a score
    success = evaluation.get("success") if single and isinstance(evaluation.get("success"), bool) else None
    return [_trial(key, evaluator, trial, outcome, (score, success), where) for trial, score in enumerate(scores)]


def _trial(
    key: str,
    evaluator: ComparedEvaluator,
    trial: int,
    outcome: Outcome,
    score_and_pass: tuple[Any, bool | None],
    where: str,
) -> TrialResult:
    score, passed = score_and_pass
    if outcome != "scored":
        return TrialResult(item=key, evaluator=evaluator.name, trial=trial, outcome=outcome)
    if score is None or (isinstance(score, float) and not math.isfinite(score)):
        return TrialResult(item=key, evaluator=evaluator.name, trial=trial, outcome="failed")
    value = number(score, where)
    return TrialResult(
        item=key,
        evaluator=evaluator.name,
        trial=trial,
        score=value,
        passed=passed if passed is not None else passes(evaluator, value),
    )


def passes(evaluator: ComparedEvaluator, score: float) -> bool | None:
    """Return True if a score passes; None without a threshold."""
    if evaluator.threshold is None:
        return None
    return score >= evaluator.threshold if evaluator.better == "higher" else score <= evaluator.threshold


def _metadata(item: Mapping[str, Any]) -> Mapping[str, str]:
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        return {}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in metadata.items()}


def _usage(keys: Sequence[str], items: Sequence[Mapping[str, Any]]) -> Mapping[str, Mapping[tuple[str, int], float]]:
    """Return cost and time, each a number for an item, or a list with one for each trial."""
    used: dict[str, dict[tuple[str, int], float]] = {"cost_usd": {}, "latency_ms": {}}
    for key, item in zip(keys, items, strict=True):
        for name, known in (("costUsd", used["cost_usd"]), ("latencyMs", used["latency_ms"])):
            value = item.get(name)
            for trial, each in enumerate(value if isinstance(value, list) else [value]):
                if each is not None:
                    known[key, trial] = number(each, f"{key}.{name}")
    return used
