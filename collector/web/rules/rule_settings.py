"""The settings of evaluators as fields of a form."""

import functools
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from collector.evaluation.catalogue import kind_document
from evaluators import code_judge
from evaluators.path import Path
from evaluators.registry import KINDS
from rules.rule_yaml import spelled

_LONG: Final = frozenset({"criteria"})
_RARE: Final = frozenset({"name", "path", "evaluationParams", "whenVacuous"})
"""Settings that every evaluator has and few rules change."""

_GROUPS: Final[Mapping[str, str]] = {
    "outputs": "Checks of outputs and runs, without a model",
    "tools": "Checks of tool calls, without a model",
    "configured": "Checks with an optional judge",
    "optional": "Judges, if a connection is chosen",
    "always": "Judges",
}
_OF_TOOLS: Final = "tool_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting, and its input field."""

    key: str
    value: str
    hint: str
    default: str
    choices: tuple[str, ...]  # empty: anything may be written
    is_long: bool
    is_rare: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorChoice:
    """An evaluator that can be chosen."""

    name: str
    checks: str  # in one line


def literal_keys(evaluator: str) -> frozenset[str]:
    """Return the keys of an evaluator's text settings: a value such as “1” is not parsed as a number."""
    kind = KINDS.get(evaluator)
    fields = {} if kind is None else kind.configuration.model_fields
    return frozenset(field.alias or name for name, field in fields.items() if _is_text(field.annotation))


def settings_of(evaluator: str, written: Mapping[str, str]) -> Iterator[Setting]:
    """Yield the settings of an evaluator, and any others that are written."""
    kind = KINDS.get(evaluator)
    known = [] if kind is None else _known(evaluator)
    yield from (
        Setting(
            key=key,
            value=written.get(key, ""),
            hint=setting["description"],
            default=_default(setting),
            choices=choices,
            is_long=key in _LONG,
            is_rare=key in _RARE,
        )
        for key, setting, choices in known
    )
    for key in written.keys() - {key for key, _, _ in known}:
        yield Setting(key=key, value=written[key], hint="", default="", choices=(), is_long=False, is_rare=False)


@functools.cache
def evaluators() -> Sequence[tuple[str, Sequence[EvaluatorChoice]]]:
    """Return the evaluators that a rule of the API can name, by what they check and when they need a judge."""
    programs = {kind.name for kind in code_judge.KINDS}
    listed: dict[str, list[EvaluatorChoice]] = {group: [] for group in _GROUPS}
    for name, kind in KINDS.items():
        if name not in programs:
            need = kind_document(kind)["judge"]
            of_checks = "tools" if name.startswith(_OF_TOOLS) else "outputs"
            choice = EvaluatorChoice(name=name, checks=kind.checks)
            listed[of_checks if need == "never" else need].append(choice)
    return [(_GROUPS[group], choices) for group, choices in listed.items()]


def may_ask(evaluator: str) -> bool:
    """Return True if an evaluator may call a judge, always or by its configuration; False for an unknown one."""
    kind = KINDS.get(evaluator)
    return kind is not None and kind_document(kind)["judge"] != "never"


@functools.cache
def _known(evaluator: str) -> Sequence[tuple[str, Mapping[str, Any], tuple[str, ...]]]:
    kind = KINDS[evaluator]
    documents = kind_document(kind)["configuration"]
    annotations = [field.annotation for field in kind.configuration.model_fields.values()]
    return [(one["key"], one, _choices(annotation)) for one, annotation in zip(documents, annotations, strict=True)]


def _default(setting: Mapping[str, Any]) -> str:
    if setting["required"]:
        return "required"
    value = setting.get("default")
    return "" if value in (None, "", [], {}) else spelled(value)


def _choices(annotation: Any) -> tuple[str, ...]:  # noqa: ANN401 - a type
    if annotation is bool:
        return ("true", "false")
    return tuple(map(str, typing.get_args(annotation))) if typing.get_origin(annotation) is Literal else ()


def _is_text(annotation: Any) -> bool:  # noqa: ANN401 - a type
    kinds = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    return {_plain(kind) for kind in kinds} - {types.NoneType} <= {str, Path}


def _plain(annotation: Any) -> Any:  # noqa: ANN401 - a type
    return annotation.__origin__ if hasattr(annotation, "__metadata__") else annotation


def _is_union(annotation: Any) -> bool:  # noqa: ANN401 - a type
    return typing.get_origin(annotation) in {typing.Union, types.UnionType}
