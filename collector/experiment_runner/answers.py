"""The input of a task, and the parsing of its answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from collector.datasets.item import BadItem, json_text
from collector.plan_file import ProgramPlan
from evaluators.model import text_of
from evaluators.wire import parse_json
from tracejury.dataset_text import ItemText

_PLACE: Final = re.compile(r"\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")
_MISSING: Final = object()


class NoTaskAnswer(Exception):
    """Failure of a task; `kind` is its error kind, `outputs` are those that the task gave before it failed."""

    def __init__(self, kind: str, message: str, outputs: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.outputs = outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationAnswer:
    """Output of an application, and its usage if reported."""

    outputs: Mapping[str, Any]
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None


def case_for_task(item: ItemText, trial: int) -> dict[str, Any]:
    """Return a case for a task: without its expected outputs."""
    return {"id": item.item_id, "inputs": item.inputs, "metadata": item.metadata, "trial": trial}


def filled(template: Any, case: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Fill the placeholders of a JSON value with values of a case; a text that is one placeholder becomes the value.

    Raises:
        NoTaskAnswer: the case has no value for a placeholder.
    """
    if isinstance(template, Mapping):
        return {name: filled(each, case) for name, each in template.items()}
    if isinstance(template, list):
        return [filled(each, case) for each in template]
    if not isinstance(template, str):
        return template
    whole = _PLACE.fullmatch(template.strip())
    if whole is not None:
        return _value(whole[1], case)
    return _PLACE.sub(lambda place: text_of(_value(place[1], case)), template)


def _value(path: str, case: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    steps = ["inputs", "input"] if path == "input" else path.split(".")
    value: Any = case
    for step in steps:
        value = value.get(step, _MISSING) if isinstance(value, Mapping) else _MISSING
        if value is _MISSING:
            raise NoTaskAnswer("template", f"the case has nothing for {{{{{path}}}}}")
    return value


def answer_of(content: bytes, plan: ProgramPlan) -> ApplicationAnswer:
    """Parse the answer of a task: what `plan.output` points to; else a JSON object, or a text as the only output.

    Raises:
        NoTaskAnswer: the answer lacks the output that the plan names, or cannot be stored.
    """
    text = content.decode("utf-8", "replace")
    try:
        document = parse_json(text)
    except ValueError as error:
        if plan.output is not None:
            raise NoTaskAnswer("bad_output", f"the answer is not JSON: {error}") from None
        document = None
    if plan.output is not None:
        value = _at(plan.output, document)
        if value is _MISSING or value is None:
            raise NoTaskAnswer("bad_output", f"the answer has nothing at {plan.output}")
        outputs = value if isinstance(value, dict) else {"output": value}
    else:
        outputs = document if isinstance(document, dict) else {"output": text.strip()}
    try:
        json_text(outputs)
    except BadItem as error:
        raise NoTaskAnswer("bad_output", f"the answer cannot be stored: {error}") from None
    return ApplicationAnswer(
        outputs=outputs,
        tokens_in=_count(plan.tokens_in, document),
        tokens_out=_count(plan.tokens_out, document),
        cost_usd=_amount(plan.cost_usd, document),
    )


def _at(pointer: str, document: object) -> object:
    value = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name, _MISSING)
        elif isinstance(value, list):
            value = value[int(name)] if name.isascii() and name.isdecimal() and int(name) < len(value) else _MISSING
        else:
            return _MISSING
    return value


def _count(pointer: str | None, document: object) -> int | None:
    value = None if pointer is None else _at(pointer, document)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _amount(pointer: str | None, document: object) -> float | None:
    value = None if pointer is None else _at(pointer, document)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
