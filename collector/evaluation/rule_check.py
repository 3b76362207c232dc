"""Whether what a rule names is there: its evaluator, with that configuration, and what it expects of tool calls."""

from collections.abc import Callable

from evaluators.case import expected_calls, offered_tools, parse_case
from evaluators.errors import BadConfiguration, Broken
from evaluators.evaluator import Need
from evaluators.registry import kind_of
from rules.errors import BadRule, Problem
from rules.rule_text import RuleText


def check_evaluator(text: RuleText) -> Need:
    """Whether the rule's evaluator asks a judge.

    Raises:
        BadRule: there is no such evaluator, or it cannot be used like this.
    """
    rule, problems = text.rule, list[Problem]()

    def tried(key: str, attempt: Callable[[], object]) -> None:
        try:
            attempt()
        except Broken as error:
            line = text.lines.get(key, text.lines.get("evaluator", text.lines.get("criteria", 1)))
            parts = error.parts if isinstance(error, BadConfiguration) else ()
            problems.append(Problem(line=line, key=key, message=str(error), parts=parts))

    case = parse_case({"expectedOutputs": rule.expected, "metadata": {"tools": rule.tools or ()}})
    tried("tools", lambda: offered_tools(case))
    if case.expected_outputs.keys() & {"toolCalls", "tool_calls"}:
        tried("expected", lambda: expected_calls(case))
    tried("evaluator", lambda: kind_of(rule.evaluator))
    if not any(problem.key == "evaluator" for problem in problems):
        kind = kind_of(rule.evaluator)
        tried("config", lambda: kind.check(kind.settings(rule.configuration)))
    if problems:
        raise BadRule(problems)
    need: Need = kind_of(rule.evaluator).judge(kind_of(rule.evaluator).settings(rule.configuration))
    if rule.jury and need == "never":
        told = f"goes with an evaluator that asks a judge, and {rule.evaluator} asks none"
        raise BadRule([Problem(line=text.lines.get("jury", 1), key="jury", message=told)])
    return need
