"""Texts of rules: every text is a rule or an error with its places, and a written rule reads back with its meaning."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.evaluation.rule_check import check_evaluator
from rules.condition_text import MAX_CONDITIONS, MAX_GROUPS, MAX_TEXT
from rules.conditions import Condition, ConditionGroup
from rules.errors import BadRule
from rules.marker import ITEM, MARKER, NOT_OF_PLAYGROUND, NOT_OF_RUN, NOT_SIMULATED, PLAYGROUND_MARK, RUN, SIMULATED
from rules.monitoring import Monitoring
from rules.operators import OPERATORS
from rules.rule import Budget
from rules.rule_text import MAX_NAME, parse_json, parse_rule, stored_rule
from rules.statistics.settings import MonitorSettings
from rules.tree import MAX_CHARACTERS
from tests.ruling import a_rule
from tests.source_tree import ROOT
from tests.test_rule_meaning import clauses

GOOD = """\
name: slow refunds
enabled: true
project: shop
target: TRACE
conditions:
  - {field: tool_name, op: "=", value: refund}
  - any:
      - {field: duration_ms, op: ">=", value: 5e3}
      - {field: attributes.retries, op: exists}
evaluator: llm_judge
config: {criteria: Be kind., scoreRange: [0, 10]}
connectionId: local
jury: [strict, other]
threshold: 0.5
sampleRate: 0.25
compareBy: git.commit
budget: {callsPerDay: 10, tokensPerDay: 1000, usdPerDay: 1.5, allowUnpriced: true}
tools: [{name: refund}]
expected: {output: done}
monitor: {alpha: 0.01, margin: 0.05, minResults: 50, baseline: 500, every: 5000, off: drift, of: score,
  lowerIsBetter: true, severity: critical}
"""


def problems(text: str) -> list[tuple[int, str, str]]:
    """Parse an invalid text; return line, key and message of each problem."""
    with pytest.raises(BadRule) as caught:
        parse_rule(text)
    assert caught.value.problems
    return [(problem.line, problem.key, problem.message) for problem in caught.value.problems]


def problem_of(**keys: object) -> str:
    """Return the one thing that is wrong with a rule, with its key."""
    text = json.dumps({"name": "a rule", "evaluator": "tool_error", **keys})
    ((_, key, message),) = problems(text)
    return f"{key}: {message}"


def is_rule_or_refused(text: str) -> bool:
    """Return whether the text is a rule; if not, check that each problem has a line of the text."""
    try:
        parse_rule(text)
    except BadRule as error:
        problems_of = error.problems
    else:
        return True
    lines = len(text.splitlines()) + 1
    assert problems_of
    assert all(1 <= problem.line <= lines and problem.message for problem in problems_of)
    return False


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(OPERATORS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
names = st.text(min_size=1, max_size=5)
keys = st.sampled_from([line.split(":")[0] for line in GOOD.splitlines() if ":" in line and line[0] != " "])


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(keys | st.sampled_from(["matchType", "matchKey", "minScore", "criteria"]), values))
def test_any_values_are_a_rule_or_an_error_with_its_place(document: dict[str, Any]) -> None:
    """Parsing is total over documents of known keys with any values."""
    is_rule_or_refused(json.dumps(document))


@settings(max_examples=500, deadline=None)
@given(
    st.integers(0, len(GOOD)),
    st.integers(0, 12),
    st.sampled_from(["", "{", "[", "- ", "&a ", "*a", "!x ", "|\n", ">", '"', "'", "\\", "\t", "\n", "---\n", "\x07"])
    | st.text(max_size=4)
    | st.sampled_from(
        ['"\\ud800"', '"\\UFFFFFFFF"', '"\\U00110000"', '"\\0"', "? ", "%YAML 9.9\n", "\ufeff", "\u2028"]
    ),
)
def test_any_text_is_a_rule_or_an_error_with_its_place(at: int, removed: int, inserted: str) -> None:
    """Parsing is total over a good text into which anything is written."""
    is_rule_or_refused(GOOD[:at] + inserted + GOOD[at + removed :])


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "{a: " * 20_000, "- " * 30_000, "a" * (MAX_CHARACTERS + 1), "? " * 30_000, "!" * 60_000]
)
def test_large_texts_are_refused_soon(text: str) -> None:
    """Neither depth nor length stops the parser."""
    assert not is_rule_or_refused(text)


def test_a_rule_says_what_was_written() -> None:
    """Each key arrives, and has its line."""
    parsed = parse_rule(GOOD)
    rule = parsed.rule
    assert (rule.name, rule.enabled, rule.project, rule.target) == ("slow refunds", True, "shop", "TRACE")
    assert rule.conditions[0] == Condition(field="tool_name", operator="=", operand="refund")
    assert isinstance(rule.conditions[1], ConditionGroup)
    assert [str(member) for member in rule.conditions[1].members] == [
        "duration_ms >= 5000",
        "attributes.retries exists",
    ]
    assert rule.configuration == {
        "criteria": "Be kind.",
        "scoreRange": [0, 10],
        "threshold": 0.5,
        "evaluationParams": ["INPUT", "ACTUAL_OUTPUT"],
    }
    assert rule.monitoring == Monitoring(
        settings=MonitorSettings(
            alpha=0.01,
            margin=0.05,
            minimum=50,
            baseline=500,
            every=5000,
            off=frozenset({"drift"}),
            lower_is_better=True,
        ),
        of="score",
        severity="critical",
    )
    assert rule.jury == ("strict", "other")
    assert rule.budget == Budget(calls_per_day=10, tokens_per_day=1000, usd_per_day=1.5, allow_unpriced=True)
    assert (rule.connection, rule.sample_rate, rule.compare_by) == ("local", 0.25, "git.commit")
    assert (rule.tools, rule.expected) == (({"name": "refund"},), {"output": "done"})
    assert (parsed.lines["conditions"], parsed.lines["expected"]) == (5, 19)


def test_what_is_not_said_has_a_default() -> None:
    """A name and an evaluator are enough, and `criteria` is an evaluator."""
    rule = parse_rule("name: all\ncriteria: Be kind.").rule
    assert (rule.enabled, rule.project, rule.target, rule.conditions) == (True, None, "SPAN", ())
    assert (rule.evaluator, rule.sample_rate, rule.compare_by) == ("llm_judge", 1.0, "service.version")
    assert (rule.budget, rule.tools, rule.expected, rule.connection) == (None, None, None, None)


def test_everything_wrong_is_told_at_once_with_its_line() -> None:
    """Each problem has its line, its key, and what would be right."""
    text = """\
name: ""
evaluatr: tool_error
target: SESSIONS
conditions:
  - {field: nme, op: "=", value: a}
  - {field: name, op: "=~", value: a}
  - field: duration_ms
    op: contains
    value: "5"
  - {field: kind, op: "=", value: client}
sampleRate: 2
budget: {calls: 1}
"""
    faults = problems(text)
    assert [(line, key) for line, key, _ in faults] == [
        (1, "name"),
        (1, "evaluator"),
        (2, "evaluatr"),
        (3, "target"),
        (5, "conditions[0].field"),
        (6, "conditions[1].op"),
        (9, "conditions[2].value"),
        (10, "conditions[3].value"),
        (11, "sampleRate"),
        (12, "budget.calls"),
    ]
    messages = "\n".join(message for *_, message in faults)
    for right in (
        "did you mean evaluator?",
        "SPAN, TRACE",
        "did you mean name?",
        "startsWith",
        "CLIENT",
        "from 0 to 1",
    ):
        assert right in messages


@pytest.mark.parametrize(
    "text, line, error",
    [
        ("name: a\nname: b", 2, "occurs twice"),
        ("name: &a b\nproject: *a", 1, "anchors"),
        ("name: a\nevaluator: !!str b", 2, "tags"),
        ("name: a\n---\nname: b", 2, "one rule a file"),
        ("name: a\nop: >=", 2, "need quotes"),
        ("- name: a", 1, "a mapping"),
        ("", 1, "a mapping"),
        ("name: a\n\x07", 2, "U+0007"),
        ('name: a\nproject: "\\ud800"', 2, "surrogate"),
        ("name: a\nproject: [[" + "[" * 40, 2, "nested"),
    ],
)
def test_yaml_that_is_not_taken_is_told_by_its_line(text: str, line: int, error: str) -> None:
    """YAML features that rules do not allow are refused with their line."""
    ((at_line, _, message),) = problems(text)
    assert (at_line, error in message) == (line, True), message


@pytest.mark.parametrize(
    "condition, message",
    [
        ({"field": "name", "op": "<", "value": "5"}, "without quotes"),
        ({"field": "name", "op": "contains", "value": 5}, "in quotes"),
        ({"field": "name", "op": "contains", "value": ""}, "1 to 1000"),
        ({"field": "name", "op": "=", "value": 2**53}, "in quotes"),
        ({"field": "name", "op": "=", "value": None}, "is required"),
        ({"field": "name", "op": "=", "value": ["a"]}, "a text or a number"),
        ({"field": "name", "op": "in", "value": []}, "1 to 100"),
        ({"field": "name", "op": "in", "value": ["a"] * 101}, "1 to 100"),
        ({"field": "name", "op": "exists", "value": "no"}, "true, or false"),
        ({"field": "duration_ms", "op": "=", "value": "5"}, "without quotes"),
        ({"field": "duration_ms", "op": "=", "value": True}, "a text or a number"),
        ({"field": "status", "op": "in", "value": ["OK", "FAILED"]}, "UNSET, OK, ERROR"),
        ({"field": "name", "op": "regex", "value": "a(?=b)"}, "look-around"),
        ({"field": "name", "op": "regex", "value": r"(a)\1"}, "not taken"),
        ({"field": "name", "op": "regex", "value": "a**"}, "repeated"),
        ({"field": "name", "op": "regex", "value": r"\B"}, "not taken"),
        ({"field": "name", "op": "regex", "value": "a{1001}"}, "1000"),
        ({"field": "name", "op": "regex", "value": "((a{100}){100})"}, "too large"),
        ({"field": "name", "op": "regex", "value": "("}, "without its"),
        ({"field": "name", "op": "regex", "value": "[b-a]"}, "lower character"),
        ({"field": "name", "op": "regex", "value": "a" * 501}, "500"),
        ({"field": "name", "op": "glob", "value": "a\\"}, "backslash"),
        ({"field": "attributes.", "op": "=", "value": "a"}, "there is no field"),
        ({"op": "=", "value": "a"}, "is required"),
        ({"field": "name", "op": "=", "value": "a", "not": True}, "unknown key"),
        ({"all": []}, "a condition in it"),
        ({"all": [{"field": "name", "op": "exists"}], "any": []}, "unknown key"),
        ("name = a", "{field, op, value}"),
    ],
)
def test_conditions_that_mean_nothing_are_refused(condition: object, message: str) -> None:
    """Each says what would be right."""
    assert message in problem_of(conditions=[condition])


def test_conditions_are_bounded() -> None:
    """Neither their number nor their depth is without limit."""
    one: dict[str, Any] = {"field": "name", "op": "exists"}
    a_rule(conditions=[one] * MAX_CONDITIONS)
    assert "at most" in problem_of(conditions=[one] * (MAX_CONDITIONS + 1))
    nested = one
    for _ in range(MAX_GROUPS):
        nested = {"any": [nested]}
    a_rule(conditions=nested)
    assert "deep" in problem_of(conditions={"any": [nested]})


def test_the_seeds_way_to_match_is_conditions() -> None:
    """A name, or an attribute that may be the resource's; and an output that is not blank."""
    by_name = a_rule(matchType="SPAN_NAME", matchValue="llm.generate")
    assert [str(clause) for clause in by_name.conditions] == ['name = "llm.generate"', r'output regex "\\S"']
    by_attribute = a_rule(matchType="ATTRIBUTE", matchKey="env", matchValue="5")
    row = dict.fromkeys(("name", "project", "status_code")) | {"output": "x"}
    for own, inherited, expected in (
        ({"env": "5"}, {}, True),
        ({}, {"env": "5"}, True),
        ({"env": "6"}, {"env": "5"}, False),
    ):
        target = row | {"attributes": own, "resource_attributes": inherited}
        assert all(clause.holds(target) for clause in by_attribute.conditions) is expected
    assert "SPAN_NAME, ATTRIBUTE" in problem_of(matchType="NAME", matchValue="a")
    assert "matchType: is required" in problem_of(matchValue="a")
    assert "matchKey" in problem_of(matchType="ATTRIBUTE", matchValue="a")


def test_the_seeds_way_to_score_is_a_configuration() -> None:
    """`criteria`, the scale and the threshold on it become the judge's configuration."""
    rule = parse_rule("name: a\nevaluatorName: kind\ncriteria: Be kind.\nminScore: 1\nmaxScore: 5\nthreshold: 4").rule
    assert rule.configuration == {
        "name": "kind",
        "criteria": "Be kind.",
        "scoreRange": [1.0, 5.0],
        "threshold": 0.75,
        "evaluationParams": ["INPUT", "ACTUAL_OUTPUT"],
    }
    assert "below maxScore" in problem_of(criteria="a", minScore=2)
    assert "from 0 to 1" in problem_of(threshold=2)
    explained = problem_of(criteria="a", minScore=1, maxScore=5, threshold=0.8)
    assert "from 1 to 5, the scale of minScore and maxScore (got 0.8)" in explained
    assert "with scoreRange in config instead, it is from 0 to 1" in explained
    assert "keep one" in problem_of(criteria="a", minScore=1, maxScore=5, config={"scoreRange": [1, 5]})
    own_scale = {"minScore": 1, "maxScore": 5, "threshold": 4}
    encoded = json.dumps({"name": "a", "criteria": "a", "config": own_scale})
    assert parse_rule(encoded).rule.configuration["threshold"] == 4
    assert "goes into config" in problem_of(criteria="a", threshold=0.5, config={"minScore": 1, "maxScore": 5})
    assert "keep one" in problem_of(threshold=0.5, config={"threshold": 0.5})


@pytest.mark.parametrize(
    "jury", [["a"], ["a", "a"], ["a", "local"], ["a", 1], ["a", " "], "a", [*"abcdefghij"], {"a": 1}, []]
)
def test_a_jury_has_an_odd_number_of_judges(jury: object) -> None:
    """Further connections are an even number, each once and none of them the rule's own."""
    assert "jury: must be a list of distinct connections" in problem_of(connectionId="local", jury=jury)


monitors = st.fixed_dictionaries(
    {},
    optional={
        "alpha": st.floats(1e-9, 0.5),
        "margin": st.floats(0, 0.99),
        "minResults": st.integers(1, 1_000_000),
        "baseline": st.integers(64, 10_000_000),
        "every": st.integers(100, 10**12),
        "off": st.sampled_from((True, False, "release", "drift")),
        "of": st.sampled_from(("passed", "score")),
        "lowerIsBetter": st.booleans(),
        "severity": st.sampled_from(("info", "warning", "critical")),
    },
)
more_keys = st.fixed_dictionaries(
    {},
    optional={
        "project": names,
        "enabled": st.booleans(),
        "target": st.sampled_from(("SPAN", "TRACE")),
        "config": st.dictionaries(st.text(max_size=5), values, max_size=3),
        "connectionId": names,
        "sampleRate": st.floats(0, 1),
        "judge": st.sampled_from(["again", None]),
        "compareBy": names,
        "budget": st.dictionaries(st.sampled_from(("callsPerDay", "tokensPerDay", "usdPerDay")), st.integers(0, 9)),
        "tools": st.lists(st.fixed_dictionaries({"name": names}, optional={"description": values}), max_size=2),
        "expected": st.dictionaries(st.text(max_size=5), values, max_size=2),
        "monitor": monitors,
        "threshold": st.floats(0, 1),
        "minScore": st.floats(-9, 0.5),
        "criteria": names,
        "evaluatorName": names,
    },
)
matches = st.sampled_from(
    (
        {},
        {"matchType": "SPAN_NAME", "matchValue": ""},
        {"matchType": "SPAN_NAME", "matchValue": "\x1b[2J \U0001f600"},
        {"matchType": "ATTRIBUTE", "matchKey": "k" * MAX_NAME, "matchValue": "v" * MAX_TEXT},
    )
)


@settings(max_examples=300, deadline=None)
@given(st.lists(clauses, max_size=3), st.sampled_from(("list", "all", "any")), more_keys, matches)
def test_a_rule_written_out_is_the_same_rule(
    conditions: list[dict[str, Any]], grouped: str, more: dict[str, Any], match: dict[str, Any]
) -> None:
    """The stored form of any rule reads back as that rule, with the same revision."""
    fields = {"conditions": conditions if grouped == "list" else {grouped: conditions}} if conditions else {}
    document = {"name": "a rule", "evaluator": "tool_error", **fields, **more, **match}
    try:
        rule = parse_json(json.dumps(document)).rule
    except BadRule:
        return
    again = stored_rule(json.dumps(rule.document()))
    assert again == rule
    assert again.revision == rule.revision


def test_the_largest_rules_are_read_back() -> None:
    """A rule whose text is within all bounds is also within them when it is written out."""
    one: dict[str, Any] = {"field": "name", "op": "=", "value": "ß" * 500}
    nested = one
    for _ in range(MAX_GROUPS):
        nested = {"any": [nested]}
    match = {"matchType": "ATTRIBUTE", "matchKey": "k", "matchValue": "v", "target": "TRACE"}
    many = [{"field": "name", "op": "exists"}] * (MAX_CONDITIONS - 3)
    for keys in ({"conditions": nested}, {"conditions": [one] * 100}, {"conditions": many, **match}):
        rule = parse_json(json.dumps({"name": "a", "evaluator": "tool_error", **keys}, ensure_ascii=False)).rule
        assert stored_rule(json.dumps(rule.document())) == rule
    with pytest.raises(BadRule, match="at most 100 conditions"):
        a_rule(conditions=many * 2, **match)


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"name": "a", "name": "b"}', "'name' occurs twice"),
        ('{"name": "a\\u0000"}', r"U\+0000"),
        ('{"name": "\\ud800"}', "surrogate"),
        ('{"sampleRate": NaN}', "NaN is not a number"),
        ('{"sampleRate": 1e999}', "1e999 is not a number"),
        ('{"sampleRate": ' + "1" * 5000 + "}", "longer than any"),
        ("[" * 60_000, "nested 32 deep"),
        ('{"a":' * 40 + "1" + "}" * 40, "nested 32 deep"),
        ("name: a", "is not JSON"),
        ("[]", "a rule is a mapping"),
        (" " * (MAX_CHARACTERS + 1), "at most 65536 characters"),
    ],
)
def test_json_that_is_not_taken_is_told(text: str, message: str) -> None:
    """What a rule may not hold is refused in JSON as in YAML."""
    with pytest.raises(BadRule, match=message):
        parse_json(text)


def test_json_may_be_laid_out_as_json_may_be() -> None:
    """Tabs, line ends before a colon and escaped slashes, which YAML does not take, are JSON."""
    text = '{\t"name"\n:\t"a\\/b", "evaluator": "tool_error", "matchType": "SPAN_NAME", "matchValue": 5.10}'
    rule = parse_json(text).rule
    assert (rule.name, str(rule.conditions[0])) == ("a/b", 'name = "5.10"')


def test_an_edit_makes_a_revision_and_a_comment_does_not() -> None:
    """The revision identifies the meaning of a rule, whether it is enabled or not."""
    revision = parse_rule(GOOD).rule.revision
    for same in (f"# a comment\n{GOOD}", GOOD.replace("5e3", "5000"), GOOD.replace("enabled: true", "enabled: false")):
        assert parse_rule(same).rule.revision == revision
    edits = [
        ("slow refunds", "b"),
        ("shop", "b"),
        ("TRACE", "SPAN"),
        ('"="', '"!="'),
        ("5e3", "5001"),
        ("kind", "fair"),
    ]
    edits += [
        ("local", "b"),
        ("0.25", "0.3"),
        ("git.commit", "b"),
        ("1.5", "2"),
        ("[{name: refund}]", "[]"),
        ("done", "b"),
        ("alpha: 0.01", "alpha: 0.02"),
        ("off: drift", "off: release"),
        ("of: score", "of: passed"),
    ]
    changed = {parse_rule(GOOD.replace(old, new, 1)).rule.revision for old, new in edits}
    assert len(changed | {revision}) == len(edits) + 1


@pytest.mark.parametrize(
    "monitor, message",
    [
        ({"alpha": 0.6}, "monitor.alpha: must be a number from 1e-09 to 0.5 (got 0.6)"),
        ({"minResults": 2.5}, "monitor.minResults: must be a whole number from 1 to 1000000"),
        ({"baseline": 10}, "monitor.baseline: must be a whole number from 64"),
        ({"off": "never"}, "monitor.off: must be true, release or drift (got 'never')"),
        ({"of": "both"}, "monitor.of: must be one of passed, score"),
        ({"alhpa": 0.1}, "monitor.alhpa: unknown key; did you mean alpha?"),
        (True, "monitor: must be a mapping"),
    ],
)
def test_what_monitors_cannot_do_is_told(monitor: object, message: str) -> None:
    """Each number has its range, and each key its name."""
    assert message in problem_of(monitor=monitor)


def test_what_monitors_are_told_as_usual_is_no_other_rule() -> None:
    """A setting that is written out at its default makes no revision."""
    usual = {"alpha": 0.05, "margin": 0.01, "minResults": 10, "baseline": 2000, "every": 100_000, "off": False}
    assert a_rule(monitor=usual).revision == a_rule().revision == a_rule(monitor={}).revision
    assert a_rule(monitor={"off": True}).document()["monitor"] == {"off": True}


def test_a_new_field_would_change_no_revision() -> None:
    """Fields at their defaults are not part of the digest."""
    assert set(a_rule().document()) == {"name", "target", "evaluator", "config"}


def test_every_rule_starts_by_passing_over_our_own_spans() -> None:
    """A span that has the marker, itself or in its resource, is matched by no rule."""
    first = a_rule(project="shop").clauses[0]
    theirs: dict[str, Any] = {"attributes": {"k": "v"}, "resource_attributes": None}
    assert first.holds(theirs)
    assert not first.holds(theirs | {"attributes": {MARKER: "false"}})
    assert not first.holds(theirs | {"resource_attributes": {MARKER: ""}})


@pytest.mark.parametrize("where", ["attributes", "resource_attributes"])
def test_no_rule_takes_simulated_traffic_for_production(where: str) -> None:
    """A span with the mark, or whose resource has it, meets no rule, but for one whose conditions name the mark."""
    row: dict[str, Any] = {"name": "a", "attributes": {}, "resource_attributes": None, where: {SIMULATED: "true"}}
    asks = Condition(field="name", operator="=", operand="a")
    usual = a_rule(conditions=[asks.document()])
    assert usual.clauses[-3] == NOT_SIMULATED
    assert not NOT_SIMULATED.holds(row)
    assert NOT_SIMULATED.holds(row | {where: {}})
    named = Condition(field=f"attributes.{SIMULATED}", operator="exists", operand=True)
    for clause in (named, ConditionGroup(mode="any", members=(named, asks))):
        assert a_rule(conditions=[clause.document()]).clauses[-3] == clause


OF_NO_RUN: dict[str, Any] = {"name": "a", "run_id": None, "item_key": None, "attributes": {}, "resource_attributes": {}}


@pytest.mark.parametrize("fields", [{"run_id": "r"}, {"item_key": "i"}, {"resource_attributes": {RUN: "r"}}])
def test_no_rule_takes_what_experiments_do_for_production(fields: dict[str, Any]) -> None:
    """A span of an item of a run meets no rule, but for one whose conditions name a run or an item."""
    asks = Condition(field="name", operator="=", operand="a")
    assert a_rule(conditions=[asks.document()]).clauses[-2] == NOT_OF_RUN
    assert NOT_OF_RUN.holds(OF_NO_RUN)
    assert not NOT_OF_RUN.holds(OF_NO_RUN | fields)
    for name in ("run_id", "item_key", f"attributes.{RUN}", f"resource.{RUN}", f"attributes.{ITEM}"):
        named = Condition(field=name, operator="exists", operand=True)
        assert a_rule(conditions=[named.document()]).clauses[-2] == NOT_SIMULATED


def test_no_rule_takes_what_somebody_tried_for_production() -> None:
    """An answer of the playground meets no rule, but for one whose conditions name its mark."""
    asks = Condition(field="name", operator="=", operand="a")
    assert a_rule(conditions=[asks.document()]).clauses[-1] == NOT_OF_PLAYGROUND
    assert NOT_OF_PLAYGROUND.holds(OF_NO_RUN)
    assert not NOT_OF_PLAYGROUND.holds(OF_NO_RUN | {"resource_attributes": {PLAYGROUND_MARK: "true"}})
    for name in (f"attributes.{PLAYGROUND_MARK}", f"resource.{PLAYGROUND_MARK}"):
        named = Condition(field=name, operator="exists", operand=True)
        assert a_rule(conditions=[named.document()]).clauses[-1] == NOT_OF_RUN


@pytest.mark.parametrize("file", sorted((ROOT / "deploy" / "rules").glob("*.yaml")), ids=lambda file: file.stem)
def test_the_example_rules_load(file: Any) -> None:
    """Each file in deploy/rules is a rule as it stands, with an evaluator that there is."""
    check_evaluator(parse_rule(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "keys, line, key, message",
    [
        ("evaluator: tool_eror", 2, "evaluator", "did you mean tool_error?"),
        ("evaluator: tool_error\nconfig:\n  treshold: 1", 3, "config", "treshold"),
        ("criteria: a\nconfig: {whenVacuous: 5}", 3, "config", "whenVacuous"),
        ("evaluator: regex\nconfig: {pattern: '('}", 3, "config", "pattern"),
        ("evaluator: tool_error\ntools: [{name: a, nme: b}]", 3, "tools", "nme"),
        ("evaluator: tool_error\nexpected: {toolCalls: [{nme: b}]}", 3, "expected", "nme"),
    ],
)
def test_what_a_rule_names_must_be_there(keys: str, line: int, key: str, message: str) -> None:
    """An unknown evaluator, or one that cannot be used like this, is reported with the line of its key."""
    with pytest.raises(BadRule) as caught:
        check_evaluator(parse_rule(f"name: a\n{keys}"))
    (problem,) = caught.value.problems
    assert (problem.line, problem.key, message in problem.message) == (line, key, True), problem.message


def test_judging_once_is_for_traces() -> None:
    """It makes another revision of a rule about traces, and a rule about spans has no use for it."""
    about_traces = {"name": "r", "target": "TRACE", "evaluator": "tool_error"}
    once, again = (parse_rule(json.dumps(about_traces | {"judge": word})).rule for word in ("once", "again"))
    assert (once.judge, again.judge) == ("once", "again")
    assert once.revision != again.revision == parse_rule(json.dumps(about_traces)).rule.revision
    with pytest.raises(BadRule, match="goes with target: TRACE"):
        parse_rule(json.dumps(about_traces | {"judge": "once", "target": "SPAN"}))
