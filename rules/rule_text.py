"""Parsing of rules: one YAML or JSON text each."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast, get_args

from rules.condition_text import MAX_TEXT, ConditionReader
from rules.conditions import Clause, Condition, ConditionGroup, fields_of
from rules.errors import BadRule, Problem
from rules.fields import TOTALS
from rules.members import A_MAPPING, Members, shown
from rules.monitoring import AS_USUAL, MOST_SCORES, NUMBERS, WHOLE, AlertSeverity, Monitoring, range_of
from rules.rule import COMPARE_BY, PRIOR_OUTCOMES, AfterRule, Budget, Judge, PriorOutcome, Rule, Target
from rules.statistics.settings import KINDS, Kind, Measure, MonitorSettings
from rules.tree import ValueNode, read_json, read_tree
from storage.records import JsonValue

LLM_JUDGE: Final = "llm_judge"
"""The evaluator of a rule that names none."""

SHOWN_BY_DEFAULT: Final = ["INPUT", "ACTUAL_OUTPUT"]
"""The parts that a judge of spans or traces is shown if its rule names none."""

MAX_NAME: Final = 200
_MAX_CRITERIA: Final = 20_000  # characters. A guess at more than a judge follows
_MAX_TOOLS: Final = 200
JURIES: Final = (2, 4, 6, 8)
"""Further judges that a rule may have; more than eight are not worth their cost. A guess."""
_MAX_SCORE: Final = 1e6
_MAX_A_DAY: Final = 10**12
MOST_SETTLE_S: Final = 7 * 86_400  # a week

_SCORABLE: Final = Condition(field="output", operator="regex", operand=r"\S")
"""The further condition of Dokimos on spans, if a rule has `matchType` and target SPAN: a non-blank output."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """A rule, and the line of each key that its text has."""

    rule: Rule
    lines: Mapping[str, int]


def parse_rule(text: str) -> RuleText:
    """Parse a rule from YAML or JSON.

    Raises:
        BadRule: the text is not a rule; every problem has its line, its key, and what would be right.

    """
    return _parsed(read_tree(text))


def parse_json(text: str, *, passing_over: Collection[str] = ()) -> RuleText:
    """Parse a rule from JSON as it comes over HTTP: YAML does not accept all JSON.

    Keys in `passing_over` are ignored.

    Raises:
        BadRule: the text is not a rule; every problem has its key. All are at line 1.

    """
    tree = read_json(text)
    if isinstance(tree.value, Mapping):
        tree = replace(tree, value={key: node for key, node in tree.value.items() if key not in passing_over})
    return _parsed(tree)


def stored_rule(document: str) -> Rule:
    """Read a rule from its JSON document.

    Raises:
        BadRule: a later version wrote the rule, and this one cannot read it.
    """
    return _parsed(read_json(document, most=None)).rule


def written_keys(text: str) -> dict[str, JsonValue]:
    """Return the keys and values of a rule's text, YAML or JSON, without defaults or expansion."""
    try:
        plain = read_json(text, most=None).plain()
    except BadRule:
        plain = read_tree(text).plain()
    return plain if isinstance(plain, dict) else {}


def _parsed(tree: ValueNode) -> RuleText:
    problems: list[Problem] = []
    if not isinstance(tree.value, Mapping):
        raise BadRule([Problem(line=tree.line, key="", message=f"a rule is {A_MAPPING} (got {shown(tree)})")])
    rule = _rule(Members(tree, "", problems))
    read = RuleText(rule=rule, lines={key: node.line for key, node in tree.value.items()})
    if problems:
        raise BadRuleText(problems, read)
    return read


class BadRuleText(BadRule):
    """A text that is not a rule; its readable parts are checked further, so that all problems are reported at once."""

    def __init__(self, problems: Sequence[Problem], read: RuleText) -> None:
        super().__init__(problems)
        self.read = read


def _rule(members: Members) -> Rule:
    name = members.text("name", most=MAX_NAME)
    enabled = members.flag("enabled")
    project = members.text("project", most=MAX_NAME)
    target = cast("Target", members.choice("target", ("SPAN", "TRACE", "SESSION")) or "SPAN")
    conditions = _conditions(members, target)
    evaluator, configuration = _evaluation(members, target)
    connection = members.text("connectionId", most=MAX_NAME)
    jury = _jury(members, connection)
    sample_rate = members.number("sampleRate", least=0, most=1)
    compare_by = members.text("compareBy", most=MAX_NAME)
    budget = _budget(members)
    tools = _tools(members)
    expected = members.mapping("expected")
    monitoring = _monitoring(members)
    judge = _judge(members, target)
    settle_s = _settle(members, target)
    after = _after(members)
    members.unknown()
    if name is None:
        _missing(members, "name")
    return Rule(
        name=name or "",
        enabled=_or(enabled, otherwise=True),
        project=project,
        target=target,
        conditions=conditions,
        evaluator=evaluator,
        configuration=configuration,
        connection=connection,
        jury=jury,
        sample_rate=_or(sample_rate, otherwise=1.0),
        compare_by=_or(compare_by, otherwise=COMPARE_BY),
        budget=budget,
        tools=tools,
        expected=expected,
        monitoring=monitoring,
        judge=judge,
        settle_s=settle_s,
        after=after,
    )


def _conditions(members: Members, target: Target) -> tuple[Clause, ...]:
    before = _match(members, target)
    node = members.take("conditions")
    if node is None:
        return before
    read = ConditionReader(members.problems, count=sum(1 for _ in fields_of(before))).read(node, "conditions")
    if target != "TRACE" and any(field in TOTALS.values() for field in fields_of(read)):
        members.wrong("conditions", f"{', '.join(TOTALS)} go with target: TRACE, once a trace has settled", node)
    return before + read


def _match(members: Members, target: Target) -> tuple[Clause, ...]:
    """Return Dokimos's selection of spans as a condition: by name, or by an attribute of the span or its resource."""
    kind = members.choice("matchType", ("SPAN_NAME", "ATTRIBUTE"))
    key = members.text("matchKey", most=MAX_NAME)
    value = members.take("matchValue")
    if kind is None:
        if key is not None or value is not None:
            _missing(members, "matchType")
        return ()
    if value is None or value.text is None or len(value.text) > MAX_TEXT:
        members.wrong("matchValue", f"must be a text of at most {MAX_TEXT} characters with matchType", value)
        return ()
    if (key is None) is (kind == "ATTRIBUTE"):
        members.wrong("matchKey", "goes with matchType: ATTRIBUTE, which needs the attribute's name")
        return ()
    clause = Condition(field="name", operator="=", operand=value.text) if key is None else _merged(key, value.text)
    return (clause, _SCORABLE) if target == "SPAN" else (clause,)


def _merged(key: str, text: str) -> ConditionGroup:
    """Return the condition that a span's attribute, or else its resource's, is a text."""
    own, inherited = f"attributes.{key}", f"resource.{key}"
    from_resource = ConditionGroup(
        mode="all",
        members=(
            Condition(field=own, operator="exists", operand=False),
            Condition(field=inherited, operator="=", operand=text),
        ),
    )
    return ConditionGroup(mode="any", members=(Condition(field=own, operator="=", operand=text), from_resource))


def _evaluation(members: Members, target: Target) -> tuple[str, dict[str, JsonValue]]:
    """Return the evaluator and its configuration, with the shorthand keys beside it merged in."""
    evaluator = members.text("evaluator", most=MAX_NAME)
    configuration = members.mapping("config") or {}
    shorthand: dict[str, tuple[str, JsonValue]] = {
        "evaluatorName": ("name", members.text("evaluatorName", most=MAX_NAME)),
        "criteria": ("criteria", members.text("criteria", most=_MAX_CRITERIA)),
    }
    if evaluator is None and shorthand["criteria"][1] is None and "criteria" not in configuration:
        _missing(members, "evaluator")
    evaluator = evaluator or LLM_JUDGE
    scale = _scale(members)
    shorthand["minScore"] = ("scoreRange", None if scale is None else list(scale))
    shorthand["threshold"] = ("threshold", _threshold(members, scale))
    if scale is not None and "scoreRange" in configuration:
        members.wrong("minScore", "sets the scale of threshold; with config.scoreRange it is from 0 to 1: keep one")
        del shorthand["minScore"]
    if shorthand["threshold"][1] is not None and configuration.keys() & {"minScore", "maxScore"}:
        members.wrong("threshold", "goes into config, beside minScore and maxScore, whose scale it is on")
    for key, (name, value) in shorthand.items():
        if value is not None and name in configuration:
            members.wrong(key, f"says the same as config.{name}; keep one of them")
        elif value is not None:
            configuration[name] = value
    if evaluator == LLM_JUDGE:
        read: list[JsonValue] = ["CONVERSATION"] if target == "SESSION" else [*SHOWN_BY_DEFAULT]
        configuration.setdefault("evaluationParams", read)
    return evaluator, configuration


def _scale(members: Members) -> tuple[float, float] | None:
    least = members.number("minScore", least=-_MAX_SCORE, most=_MAX_SCORE)
    most = members.number("maxScore", least=-_MAX_SCORE, most=_MAX_SCORE)
    if least is None and most is None:
        return None
    scale = _or(least, otherwise=0.0), _or(most, otherwise=1.0)
    if scale[0] < scale[1]:
        return scale
    members.wrong("minScore", f"must be below maxScore (got {scale[0]:g} and {scale[1]:g})")
    return None


def _threshold(members: Members, scale: tuple[float, float] | None) -> float | None:
    """Return the score that passes, from 0 to 1; it is written on the scale of minScore and maxScore."""
    if scale is None:
        return members.number("threshold", least=0.0, most=1.0)
    least, most = scale
    threshold = members.number("threshold", least=-_MAX_SCORE, most=_MAX_SCORE)
    if threshold is None or least <= threshold <= most:
        return None if threshold is None else (threshold - least) / (most - least)
    members.wrong(
        "threshold",
        f"must be a number from {least:g} to {most:g}, the scale of minScore and maxScore (got {threshold:g}); "
        "with scoreRange in config instead, it is from 0 to 1",
    )
    return None


def _jury(members: Members, connection: str | None) -> tuple[str, ...]:
    """Return the further connections whose judges vote."""
    node = members.take("jury")
    listed = None if node is None else node.plain()
    if listed is None:
        return ()
    named = [each for each in listed if isinstance(each, str) and each.strip()] if isinstance(listed, list) else []
    whole = isinstance(listed, list) and len(named) == len(listed) and len(named) in JURIES
    if not whole or len({*named, connection}) <= len(named) or any(len(each) > MAX_NAME for each in named):
        sizes = ", ".join(map(str, JURIES))
        message = f"must be a list of distinct connections other than connectionId, for an odd number of votes: {sizes}"
        members.wrong("jury", message, node)
        return ()
    return tuple(named)


def _budget(members: Members) -> Budget | None:
    node = members.take("budget")
    if node is None:
        return None
    inner = Members(node, "budget", members.problems)
    calls = inner.number("callsPerDay", least=0, most=_MAX_A_DAY, whole=True)
    tokens = inner.number("tokensPerDay", least=0, most=_MAX_A_DAY, whole=True)
    usd = inner.number("usdPerDay", least=0, most=_MAX_A_DAY)
    unpriced = inner.flag("allowUnpriced")
    inner.unknown()
    return Budget(
        calls_per_day=None if calls is None else int(calls),
        tokens_per_day=None if tokens is None else int(tokens),
        usd_per_day=usd,
        allow_unpriced=bool(unpriced),
    )


def _monitoring(members: Members) -> Monitoring:
    node = members.take("monitor")
    if node is None:
        return AS_USUAL
    inner = Members(node, "monitor", members.problems)
    numbers: dict[str, Any] = {}
    for key, name in NUMBERS.items():
        least, most = range_of(key)
        number = inner.number(key, least=least, most=most, whole=key in WHOLE)
        if number is not None:
            numbers[name] = number
    off = _off(inner)
    lower_is_better = inner.flag("lowerIsBetter")
    measure = cast("Measure | None", inner.choice("of", ("passed", "score")))
    scores = _scores(inner)
    severity = cast("AlertSeverity | None", inner.choice("severity", get_args(AlertSeverity)))
    inner.unknown()
    settings = MonitorSettings(off=off, lower_is_better=bool(lower_is_better), **numbers)
    return Monitoring(settings=settings, of=measure, scores=scores, severity=severity or "warning")


def _scores(inner: Members) -> tuple[str, ...]:
    node = inner.take("scores")
    listed = None if node is None else node.plain()
    if listed is None:
        return ()
    names = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    whole = isinstance(listed, list) and len(names) == len(set(names)) == len(listed) <= MOST_SCORES
    if not whole or not all(each.strip() and len(each) <= MAX_NAME for each in names):
        inner.wrong("scores", f"must be a list of at most {MOST_SCORES} names of scores, each once", node)
        return ()
    return tuple(names)


def _judge(members: Members, target: Target) -> Judge:
    judge = cast("Judge | None", members.choice("judge", ("once", "again"))) or "again"
    if judge == "once" and target == "SPAN":
        members.wrong("judge", "once goes with target: TRACE or SESSION; a span is judged once anyway")
    return judge


def _settle(members: Members, target: Target) -> float | None:
    settle_s = members.number("settle", least=1, most=MOST_SETTLE_S)
    if settle_s is not None and target != "SESSION":
        members.wrong("settle", "needs target: SESSION; for traces the wait is a setting of the server")
    return settle_s


def _after(members: Members) -> AfterRule | None:
    node = members.take("after")
    if node is None:
        return None
    inner = Members(node, "after", members.problems)
    rule = inner.text("rule", most=MAX_NAME)
    passed = inner.flag("passed")
    below, at_least = (inner.number(key, least=-_MAX_SCORE, most=_MAX_SCORE) for key in ("below", "atLeast"))
    outcome = cast("PriorOutcome | None", inner.choice("outcome", PRIOR_OUTCOMES))
    inner.unknown()
    if rule is None:
        _missing(inner, "rule")
        return None
    of_scores = [each is not None for each in (passed, below, at_least)]
    if outcome is None and not any(of_scores):
        members.wrong("after", "must have a condition on the rule's result: passed, below, atLeast or outcome", node)
    if outcome not in {None, "scored"} and any(of_scores):
        inner.wrong("outcome", f"{outcome} has no score, so passed, below and atLeast do not go with it")
    return AfterRule(rule=rule, passed=passed, below=below, at_least=at_least, outcome=outcome or "scored")


def _off(inner: Members) -> frozenset[Kind]:
    node = inner.take("off")
    if node is None or node.value is False:
        return frozenset()
    if node.value is True:
        return frozenset(KINDS)
    if node.value not in KINDS:
        inner.wrong("off", f"must be true, {' or '.join(KINDS)} (got {shown(node)})", node)
    return frozenset(kind for kind in KINDS if kind == node.value)


def _tools(members: Members) -> tuple[Mapping[str, JsonValue], ...] | None:
    node = members.take("tools")
    if node is None:
        return None
    listed = node.plain()
    if not isinstance(listed, list) or len(listed) > _MAX_TOOLS:
        members.wrong("tools", f"must be a list of at most {_MAX_TOOLS} tools (got {shown(node)})", node)
        return None
    tools = [tool for tool in listed if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
    if len(tools) < len(listed):
        members.wrong("tools", "each tool must be a mapping with a name, as in {name, description, inputSchema}", node)
    return tuple(tools)


def _or(value: _Value | None, *, otherwise: _Value) -> _Value:
    return otherwise if value is None else value


def _missing(members: Members, key: str) -> None:
    if not any(problem.key == members.place(key) for problem in members.problems):
        members.wrong(key, "is required")
