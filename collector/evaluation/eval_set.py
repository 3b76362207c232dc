"""Eval sets: items, evaluators and their criteria from files, judged on recorded runs.

The files are those of UiPath's evaluations: an eval set names evaluators by id, and each of its items names its
evaluators and their criteria.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from collector.evaluation.batch import Make
from collector.evaluation.recorded import RecordedSpans, merged, recordings_in
from evaluators.configuration import Amount
from evaluators.errors import BadConfiguration
from evaluators.evaluator import Evaluator, run
from evaluators.model import NonBlank, Values, text_of
from evaluators.outcome import Failure, Outcome
from evaluators.wire import WireModel, explain, parse_json, unknown
from tracejury.file_ending import files_ending

Shape = TypeVar("Shape", bound="_File")

_CRITERIA: Final[Mapping[str, tuple[str, str]]] = {
    "tool_call_count": ("toolCallsCount", "tool_calls_count"),
    "tool_call_order": ("toolCallsOrder", "tool_calls_order"),
    "tool_call_args": ("toolCalls", "tool_calls"),
    "tool_call_output": ("toolOutputs", "tool_outputs"),
}
"""Keys that the criteria of an evaluator may have, in both spellings."""

_VERSION: Final = "1.0"


class BadEvalSet(Exception):
    """Refusal of files that are not an eval set; the message names file and key."""


class _File(WireModel):
    """Base of files that other programs write; keys that are not needed here are ignored."""

    model_config = ConfigDict(extra="ignore")


class EvaluatorFile(_File):
    """One evaluator: its type, its configuration, and its default criteria."""

    version: str = _VERSION
    id: NonBlank
    name: str | None = None
    evaluator_type_id: NonBlank
    evaluator_config: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Return the kind of evaluator: its type in our spelling."""
        return self.evaluator_type_id.removeprefix("uipath-").replace("-", "_")

    @property
    def configuration(self) -> Mapping[str, Any]:
        """Return the configuration without default criteria, and with the evaluator's name."""
        config = {key: value for key, value in self.evaluator_config.items() if key not in _DEFAULTS}
        return config | {"name": self.name or config.get("name") or self.id}

    @property
    def default_criteria(self) -> Values | None:
        """Return the criteria for items that have none for this evaluator."""
        return next((self.evaluator_config[key] for key in _DEFAULTS if self.evaluator_config.get(key)), None)


_DEFAULTS: Final = ("defaultEvaluationCriteria", "default_evaluation_criteria")


class Reference(_File):
    """An evaluator that the set uses, with its weight in the score."""

    ref: NonBlank
    weight: Amount = 1.0


class EvalSetItem(_File):
    """One item: its input, and the criteria of each evaluator that judges it."""

    id: NonBlank
    name: str = ""
    inputs: Values = Field(default_factory=dict)
    evaluation_criterias: Mapping[str, Values | None] = Field(default_factory=dict)


class EvalSetFile(_File):
    """The items, and the evaluators that judge them."""

    version: str = _VERSION
    id: str = ""
    name: str = ""
    evaluator_refs: tuple[NonBlank, ...] = ()
    evaluator_configs: tuple[Reference, ...] = ()
    evaluations: Annotated[tuple[EvalSetItem, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSetMember:
    """An evaluator of the set, or the reason why it is not usable."""

    id: str
    weight: float
    kind: str
    evaluator: Evaluator | BadConfiguration
    default_criteria: Values | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSet:
    """A loaded eval set."""

    name: str
    items: Sequence[EvalSetItem]
    members: Sequence[EvalSetMember]
    known: frozenset[str]  # the ids of all evaluator files in lower case, also those that the set does not use


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalItemResult:
    """Results of the evaluators that one item names, by evaluator id."""

    item: EvalSetItem
    trace_id: str | None
    outcomes: Mapping[str, Outcome]


def load_eval_set(file: Path, directory: Path, make: Make) -> EvalSet:
    """Load the eval set in a file, with the evaluators in a directory.

    Raises:
        BadEvalSet: a file cannot be read, or the set names an unknown evaluator.
    """
    file_set = _load(file, EvalSetFile)
    files = {one.id.lower(): one for one in map(_load_evaluator, files_ending(directory, "json"))}
    references = file_set.evaluator_configs or tuple(Reference(ref=ref) for ref in file_set.evaluator_refs)
    if not references:
        references = tuple(Reference(ref=one.id) for one in files.values())
    missing = [one.ref for one in references if one.ref.lower() not in files]
    if missing:
        known = ", ".join(sorted(one.id for one in files.values())) or "none"
        raise BadEvalSet(f"{file}: no file in {directory} has the evaluator {', '.join(missing)}; there are: {known}")
    return EvalSet(
        name=file_set.name or file_set.id or file.stem,
        items=file_set.evaluations,
        members=[_member(files[one.ref.lower()], one, make) for one in references],
        known=frozenset(files),
    )


def find_recordings(items: Sequence[EvalSetItem], places: Iterable[Path]) -> dict[str, RecordedSpans]:
    """Return the run of each item by item id: traces that name the item, else the traces in a file with its name.

    If the set has one item only, all other traces belong to it. Items without a run are left out.

    Raises:
        UnreadableTraces: a file holds no traces.
    """
    by_item: dict[str, list[RecordedSpans]] = {}
    by_name = {name.lower(): item.id for item in items for name in (item.name, item.id) if name}
    for file in _trace_files(places):
        called = by_name.get(file.stem.lower())
        for recording in recordings_in(file):
            answered = [by_name[name.lower()] for name in recording.items if name.lower() in by_name]
            alone = [items[0].id] if len(items) == 1 else []
            for key in answered or ([called] if called else alone):
                by_item.setdefault(key, []).append(recording)
    return {key: merged(recordings) for key, recordings in by_item.items()}


async def judge_item(eval_set: EvalSet, item: EvalSetItem, recording: RecordedSpans | None) -> EvalItemResult:
    """Evaluate the run of one item with the set's evaluators."""
    criteria = {key.lower(): value for key, value in item.evaluation_criterias.items()}
    outcomes: dict[str, Outcome] = {
        key: Failure(
            name=key, fingerprint=None, kind="bad_case", message=f"no file has the evaluator {key}", usage=None
        )
        for key in item.evaluation_criterias
        if key.lower() not in eval_set.known
    }
    for member in eval_set.members:
        if member.id.lower() in criteria:
            outcomes[member.id] = await _judge(member, item, criteria[member.id.lower()], recording)
    return EvalItemResult(item=item, trace_id=None if recording is None else recording.trace_id, outcomes=outcomes)


async def _judge(
    member: EvalSetMember, item: EvalSetItem, criteria: Values | None, recording: RecordedSpans | None
) -> Outcome:
    if isinstance(member.evaluator, BadConfiguration):
        return _failure(member, "bad_configuration", str(member.evaluator))
    expected = criteria or member.default_criteria
    if not expected:
        return _failure(member, "bad_case", "the item has no criteria, and the evaluator no defaultEvaluationCriteria")
    allowed = _CRITERIA.get(member.kind)
    wrong = [key for key in expected if allowed and key not in allowed]
    if allowed and wrong:
        return _failure(
            member, "bad_case", f"evaluationCriterias.{member.id}.{wrong[0]}: {unknown(wrong[0], allowed[:1])}"
        )
    if recording is None:
        return _failure(member, "missing_trace", f"no recorded trace belongs to the item {item.id}")
    case = recording.case()
    inputs = {"input": text_of(item.inputs), **item.inputs} if item.inputs else case.inputs
    return await run(member.evaluator, case.model_copy(update={"inputs": inputs, "expected_outputs": expected}))


def _member(file: EvaluatorFile, reference: Reference, make: Make) -> EvalSetMember:
    evaluator: Evaluator | BadConfiguration
    try:
        evaluator = make(file.kind, file.configuration)
    except BadConfiguration as error:
        evaluator = error
    return EvalSetMember(
        id=file.id,
        weight=reference.weight,
        kind=file.kind,
        evaluator=evaluator,
        default_criteria=file.default_criteria,
    )


def _failure(member: EvalSetMember, kind: str, message: str) -> Failure:
    name = member.id if isinstance(member.evaluator, BadConfiguration) else member.evaluator.name
    return Failure(name=name, fingerprint=None, kind=kind, message=message, usage=None)


def _trace_files(places: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for place in places:
        files += files_ending(place, "json", "jsonl") if place.is_dir() else [place]
    return files


def _load_evaluator(file: Path) -> EvaluatorFile:
    return _load(file, EvaluatorFile)


def _load(file: Path, shape: type[Shape]) -> Shape:
    try:
        document = parse_json(file.read_text(encoding="utf-8"))
        version = document.get("version", _VERSION) if isinstance(document, dict) else _VERSION
        if version != _VERSION:
            raise BadEvalSet(f"{file}: version {version!r} is not supported, only {_VERSION}")
        return shape.model_validate(document)
    except (OSError, ValueError) as error:
        problem = explain(error, shape) if isinstance(error, ValidationError) else str(error)
        raise BadEvalSet(f"{file}: {problem}") from None
