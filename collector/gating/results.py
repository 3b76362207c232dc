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
    """A file does not say what it should; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A run, its name, and how its items are found again."""

    experiment: str
    pairing: Pairing
    run: FinishedRun


class AgreedEvaluators:
    """The evaluators of a file by name, each with the terms by which it judged all items."""

    def __init__(self) -> None:
        self._by_name: dict[str, ComparedEvaluator] = {}
        self._scored: set[str] = set()

    @property
    def all(self) -> list[ComparedEvaluator]:
        """The evaluators in the order in which they were added."""
        return list(self._by_name.values())

    def add(self, given: ComparedEvaluator, trials: Sequence[TrialResult], where: str) -> None:
        """Add the terms that stand beside one evaluation.

        An unknown term differs from none. Without a score, only the terms that are stated count, and never the
        direction, which has a default: exports leave the terms of failed and skipped evaluations out.

        Raises:
            BadResultsFile: a term differs from that of another item.
        """
        has_score = any(each.score is not None for each in trials)
        known = self._by_name.setdefault(given.name, given)
        is_known_better = given.name in self._scored
        differ = (
            (has_score and is_known_better and known.better != given.better)
            or _differ(known.threshold, given.threshold)
            or _differ(known.fingerprint, given.fingerprint)
        )
        if differ:
            raise BadResultsFile(f"{where}: {given.name} has another threshold, direction or fingerprint than before")
        self._by_name[given.name] = ComparedEvaluator(
            name=given.name,
            better=given.better if has_score or not is_known_better else known.better,
            threshold=known.threshold if given.threshold is None else given.threshold,
            fingerprint=known.fingerprint or given.fingerprint,
        )
        if has_score:
            self._scored.add(given.name)


def _differ(known: object, given: object) -> bool:
    return known is not None and given is not None and known != given


def read_results(path: Path, pairing: Literal["auto", "positional", "dataset_item_id"] = "auto") -> Results:
    """The results in a file.

    Raises:
        BadResultsFile: it cannot be read, or means nothing.
    """
    document = read_json(path)
    return results_of(document, pairing, str(path))


def results_of(document: Any, pairing: str, path: str) -> Results:  # noqa: ANN401 - JSON
    """The results that a document holds."""
    items = _list(document, "items", path)
    name = document.get("experimentName")
    if not isinstance(name, str) or not name.strip():
        raise BadResultsFile(f"{path}: the experiment has no name, so its baseline could not be told from others")
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
    """A JSON document, of which every key is there once and every number is finite.

    Raises:
        BadResultsFile: it is not.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadResultsFile(f"{path}: larger than {_FILE}")
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_once, parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        raise BadResultsFile(f"{path}: {error}") from error


def anchor(value: object) -> str:
    """What people know an item by: its input on one line, cut; of a map with one value that value."""
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    text = value if isinstance(value, str) else "" if value is None else _AS_JSON.encode(value)
    line = " ".join(text.split())
    return line if len(line) <= ANCHOR_CHARS else line[: ANCHOR_CHARS - 1] + "…"


def number(value: object, where: str) -> float:
    """A finite number.

    Raises:
        BadResultsFile: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadResultsFile(f"{where}: {value!r} is no finite number")
    return round(float(value), 6)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"a key is there twice in an object with {', '.join(found)}"[:200])
    return found


def _no_number(text: str) -> float:
    """NaN stands for a score that failed, as `null` does."""
    return math.nan if text == "NaN" else math.inf


def _list(document: Any, name: str, where: str, *, empty: bool = False) -> Sequence[Any]:  # noqa: ANN401 - JSON
    found = document.get(name) if isinstance(document, dict) else None
    if not isinstance(found, list) or not (found or empty):
        raise BadResultsFile(f"{where}: a list {name!r} is needed")
    return found


def _id_of(item: Any, where: str) -> str | None:  # noqa: ANN401 - JSON
    if not isinstance(item, dict):
        raise BadResultsFile(f"{where}: no object")
    found = item.get("id", item.get("datasetItemId"))
    if found is None or (isinstance(found, str) and not found.strip()):
        return None
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise BadResultsFile(f"{where}: an id is a text or a whole number")
    return str(found).strip()


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
        raise BadResultsFile(f"{where}: scores is a list of 1 to {MAX_TRIALS} numbers")
    outcome = evaluation.get("outcome", "scored")
    if outcome not in {"scored", "failed", "skipped"}:
        raise BadResultsFile(f"{where}: outcome is 'scored', 'failed' or 'skipped'")
    if outcome == "scored" and evaluation.get("error"):
        outcome = "failed"  # the evaluator broke, whatever score stands beside that
    said = evaluation.get("success") if single and isinstance(evaluation.get("success"), bool) else None
    return [_trial(key, evaluator, trial, outcome, (score, said), where) for trial, score in enumerate(scores)]


def _trial(
    key: str, evaluator: ComparedEvaluator, trial: int, outcome: Outcome, found: tuple[Any, bool | None], where: str
) -> TrialResult:
    score, said = found
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
        passed=said if said is not None else passes(evaluator, value),
    )


def passes(evaluator: ComparedEvaluator, score: float) -> bool | None:
    """Whether a score passes; not known without a threshold."""
    if evaluator.threshold is None:
        return None
    return score >= evaluator.threshold if evaluator.better == "higher" else score <= evaluator.threshold


def _metadata(item: Mapping[str, Any]) -> Mapping[str, str]:
    found = item.get("metadata")
    if not isinstance(found, dict):
        return {}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}


def _usage(keys: Sequence[str], items: Sequence[Mapping[str, Any]]) -> Mapping[str, Mapping[tuple[str, int], float]]:
    """Cost and time, which are one number for an item, or a list of one for each trial."""
    used: dict[str, dict[tuple[str, int], float]] = {"cost_usd": {}, "latency_ms": {}}
    for key, item in zip(keys, items, strict=True):
        for name, known in (("costUsd", used["cost_usd"]), ("latencyMs", used["latency_ms"])):
            value = item.get(name)
            for trial, each in enumerate(value if isinstance(value, list) else [value]):
                if each is not None:
                    known[key, trial] = number(each, f"{key}.{name}")
    return used
