"""Checks of what a rule names: its evaluator as configured, its template in a file, and its expected tools."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from evaluators.case import expected_calls, offered_tools, parse_case
from evaluators.errors import BadConfiguration, EvaluationError
from evaluators.evaluator import Need
from evaluators.registry import kind_of
from evaluators.templating import MAX_TEMPLATE
from rules.errors import BadRule, Problem
from rules.rule_text import BadRuleText, RuleText
from storage.limit import Limit


def check_evaluator(text: RuleText) -> Need:
    """Check the rule's evaluator; return when it calls a judge: never, optionally or always.

    Raises:
        BadRule: there is no such evaluator, or it cannot be used like this.
    """
    rule, problems = text.rule, list[Problem]()

    def tried(key: str, attempt: Callable[[], object]) -> None:
        try:
            attempt()
        except EvaluationError as error:
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
    need: Need = "never"
    if not any(problem.key in {"evaluator", "config"} for problem in problems):
        need = kind_of(rule.evaluator).judge(kind_of(rule.evaluator).settings(rule.configuration))
        if rule.jury and need == "never":
            message = f"needs an evaluator with a judge, and {rule.evaluator} has none"
            problems.append(Problem(line=text.lines.get("jury", 1), key="jury", message=message))
    if problems:
        raise BadRule(problems)
    return need


def read_rule(read: Callable[[], RuleText], folder: Path | None = None) -> tuple[RuleText, Need]:
    """Read a rule, with the template that it names in a folder, and check its evaluator.

    Raises:
        BadRule: the rule cannot be read or used; all problems are reported at once.
    """
    problems: list[Problem] = []
    try:
        parsed = read()
    except BadRuleText as error:
        parsed = error.read
        problems += error.problems
    if folder is not None:
        try:
            parsed = with_template(parsed, folder)
        except BadRule as error:
            problems += error.problems
    need: Need = "never"
    try:
        need = check_evaluator(parsed)
    except BadRule as error:
        reported = {re.split(r"[.\[]", problem.key)[0] for problem in problems}
        # An evaluator may lack something only because a key beside it is wrong, which is reported already.
        problems += [each for each in error.problems if not reported & _BESIDE.get(each.key, {each.key})]
    if problems:
        raise BadRule(problems)
    return parsed, need


_BESIDE: Final = {"config": {"config", "evaluator", "criteria", "evaluatorName"}}
KEY: Final = "templateFile"
ENDING: Final = "txt"
_NAME: Final = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]{0,195}\.(?i:txt)")
_FILE: Final = Limit(
    value=4 * MAX_TEMPLATE,  # UTF-8 takes up to four bytes per character
    unit="bytes",
    remedy="shorten the template",
)


def with_template(text: RuleText, folder: Path) -> RuleText:
    """Return the rule with the text of its template file, so that a changed text makes a new revision.

    Raises:
        BadRule: the template is not in the folder, or cannot be read.
    """
    configuration = text.rule.configuration
    if KEY not in configuration:
        return text
    try:
        template = {"template": _read(configuration, folder)}
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        line = text.lines.get("config", 1)
        raise BadRule([Problem(line=line, key=f"config.{KEY}", message=why)]) from None
    others = {key: value for key, value in configuration.items() if key != KEY}
    return replace(text, rule=replace(text.rule, configuration=others | template))


def _read(configuration: Mapping[str, object], folder: Path) -> str:
    name = configuration[KEY]
    if "template" in configuration:
        raise ValueError("says the same as config.template; keep one of them")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"must be the name of a file NAME.{ENDING} in the folder of the rule")
    path = folder / name
    if not path.is_file():
        raise ValueError(f"there is no file {name} in the folder of the rule")
    with path.open("rb") as handle:
        content = handle.read(int(_FILE.value) + 1)
    if len(content) > _FILE.value:
        raise ValueError(f"{name} is larger than {_FILE}")
    return content.decode("utf-8-sig")
