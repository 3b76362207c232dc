"""Descriptions of the evaluators."""

from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from evaluators.evaluator import EvaluatorKind


def kind_document(kind: EvaluatorKind[Any]) -> dict[str, Any]:
    """Describe a kind of evaluator: what it checks and reads, and every key of its configuration with its default.

    `judge` says when an evaluator calls a judge: never, depending on its configuration, if a judge is configured, or
    always.
    """
    fields = kind.configuration.model_fields
    need = kind.judge(kind.configuration.model_construct())
    return {
        "name": kind.name,
        "title": kind.title,
        "version": kind.version,
        "checks": kind.checks,
        "reads": list(kind.reads),
        "direction": kind.direction,
        "judge": "configured" if need == "never" and kind.prompts else need,
        "configuration": [_key(field.alias or name, field) for name, field in fields.items()],
    }


def _key(key: str, field: FieldInfo) -> dict[str, Any]:
    default = field.get_default(call_default_factory=True, validated_data={})
    known = {} if default is PydanticUndefined else {"default": to_jsonable_python(default, by_alias=True)}
    return {"key": key, "required": field.is_required(), **known, "description": field.description or ""}
