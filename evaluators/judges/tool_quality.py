"""`tool_name_reliability` and `tool_description_reliability`: can a model understand the tools it is offered."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic import Field, create_model

from evaluators.case import offered_tools
from evaluators.configuration import Count, ReadsTools, Share
from evaluators.evaluator import Assessment, Check, EvaluatorKind
from evaluators.judge_interface import Judge
from evaluators.judges.asking import FLAG, REASON, JudgeAnswer, JudgeQuestion, Reason, together
from evaluators.model import Case, ToolDefinition
from evaluators.prompting import fenced

Rules: TypeAlias = Mapping[str, Callable[[ToolDefinition], bool]]

IMPLEMENTATIONS: Final = ("_with_llm", "_via_api", "_from_s3", "_using_bq", "_using_sdk", "_with_gpt4")
"""Words in a name that say how a tool works, instead of what it does."""

NAME_CHECKS: Final = ("clarity", "name_order", "intent_over_implementation")
DESCRIPTION_CHECKS: Final = (
    "general_structure",
    "has_examples",
    "has_usage_notes",
    "intent_over_implementation",
    "clarity",
    "redundancy",
    "input_arguments_enum",
    "input_arguments_format",
    "return_statement_quality",
)
_SEGMENTS = 7
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_TYPES = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"}
"""Keywords that give the type of a value."""


def _question(prompt: str, checks: Sequence[str]) -> JudgeQuestion[Any]:
    fields: dict[str, Any] = dict.fromkeys(checks, (bool, ...))
    shape = create_model("Checked", __base__=JudgeAnswer, reason=(Reason, ""), **fields)
    return JudgeQuestion(prompt=prompt, fields={"reason": REASON, **dict.fromkeys(checks, FLAG)}, shape=shape)


NAME: Final = _question("tool_name_reliability", NAME_CHECKS)
DESCRIPTION: Final = _question("tool_description_reliability", DESCRIPTION_CHECKS)


class ToolNameReliability(ReadsTools):
    """Settings of `tool_name_reliability`."""

    threshold: Share = Field(default=0.8, description="The mean score of the tools that passes.")


class ToolDescriptionReliability(ReadsTools):
    """Settings of `tool_description_reliability`."""

    threshold: Share = Field(default=0.8, description="The mean score of the tools that passes.")
    max_input_args: Count = Field(default=5, description="The maximum number of arguments of a tool.")
    max_optional_args: Count = Field(default=3, description="The maximum number of optional arguments.")


def tool_name_reliability(settings: ToolNameReliability) -> Check:
    """Make five checks of each name: two by rules, two by a judge, one by both."""
    rules: Rules = {
        "snakecase_format": lambda tool: _SNAKE_CASE.fullmatch(tool.name) is not None,
        "conciseness": lambda tool: len(tool.name.split("_")) <= _SEGMENTS,
        "intent_over_implementation": lambda tool: not any(how in tool.name.lower() for how in IMPLEMENTATIONS),
    }
    return _check(settings, rules, NAME, lambda tool: {"name": tool.name})


def tool_description_reliability(settings: ToolDescriptionReliability) -> Check:
    """Make thirteen checks of each description: four by rules, nine by a judge."""
    rules: Rules = {
        "input_arguments_clarity": lambda tool: all(map(_is_described, _parameters(tool).values())),
        "input_arguments_types": lambda tool: all(map(_is_typed, _parameters(tool).values())),
        "max_num_input_arguments": lambda tool: len(_parameters(tool)) <= settings.max_input_args,
        "max_optional_input_arguments": lambda tool: len(_optional(tool)) <= settings.max_optional_args,
    }
    return _check(settings, rules, DESCRIPTION, lambda tool: {"definition": tool})


def _check(
    settings: ReadsTools,
    rules: Rules,
    question: JudgeQuestion[Any],
    shown: Callable[[ToolDefinition], Mapping[str, object]],
) -> Check:
    """Compute each tool's share of passed checks among those that ran, and the mean of these shares."""
    judged = [name for name, schema in question.fields.items() if schema is FLAG]

    async def checks_of(tool: ToolDefinition, judge: Judge | None) -> tuple[dict[str, bool | str], str]:
        checks: dict[str, bool | str] = {name: rule(tool) for name, rule in rules.items()}
        if judge is None:
            return checks | {name: "skipped" for name in judged if name not in checks}, ""
        answer = await question.ask(judge, **fenced(**shown(tool)))
        for name in judged:
            checks[name] = bool(checks.get(name, True)) and bool(getattr(answer, name))
        return checks, answer.reason

    async def check(case: Case, judge: Judge | None) -> Assessment:
        tools = offered_tools(case, settings.path, settings.tools_key)
        if not tools:
            return Assessment(score=1.0, reason="There are no tools to check.", vacuous=True)
        rows = await together([checks_of(tool, judge) for tool in tools])
        return _assessment([_row(tool, *one) for tool, one in zip(tools, rows, strict=True)])

    return check


def _row(tool: ToolDefinition, checks: Mapping[str, bool | str], reason: str) -> dict[str, Any]:
    ran = [passed for passed in checks.values() if passed != "skipped"]
    score = sum(passed is True for passed in ran) / len(ran)
    return {"tool": tool.name, "score": score, "checks": dict(checks)} | ({"reason": reason} if reason else {})


def _assessment(table: Sequence[Mapping[str, Any]]) -> Assessment:
    score = sum(row["score"] for row in table) / len(table)
    failed = {row["tool"]: [name for name, passed in row["checks"].items() if passed is False] for row in table}
    listed = "; ".join(f"{tool} fails {', '.join(names)}" for tool, names in failed.items() if names)
    skipped = [name for name, passed in table[0]["checks"].items() if passed == "skipped"]
    reason = f"{len(table)} tools pass {score:.0%} of their checks{f': {listed}' if listed else ''}."
    if skipped:
        reason = f"{reason} Skipped without a judge: {', '.join(skipped)}."
    return Assessment(score=score, reason=reason, metadata={"tools": list(table)})


def _parameters(tool: ToolDefinition) -> Mapping[str, Any]:
    schema = tool.input_schema
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}


def _optional(tool: ToolDefinition) -> list[str]:
    schema = tool.input_schema if isinstance(tool.input_schema, Mapping) else {}
    required = schema.get("required")
    return [name for name in _parameters(tool) if not isinstance(required, list | tuple) or name not in required]


def _is_described(parameter: object) -> bool:
    description = parameter.get("description") if isinstance(parameter, Mapping) else None
    return isinstance(description, str) and bool(description.strip())


def _is_typed(parameter: object) -> bool:
    return isinstance(parameter, Mapping) and any(parameter.get(key) for key in _TYPES)


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="tool_name_reliability",
        title="Tool Name Reliability",
        version=1,
        checks="Do the names of the tools follow conventions and say what the tools do.",
        reads=("metadata.tools",),
        configuration=ToolNameReliability,
        check=tool_name_reliability,
        judge=lambda _: "optional",
        prompts=(NAME.prompt,),
    ),
    EvaluatorKind(
        name="tool_description_reliability",
        title="Tool Description Reliability",
        version=1,
        checks="Are the tools described so that a model can use them.",
        reads=("metadata.tools",),
        configuration=ToolDescriptionReliability,
        check=tool_description_reliability,
        judge=lambda _: "optional",
        prompts=(DESCRIPTION.prompt,),
    ),
)
