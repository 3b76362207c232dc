"""Rules as fields of a form, and as YAML that is written by us."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.web.rules.rule_form import blank_form, form_of, places, sent_form
from collector.web.rules.rule_settings import evaluators, literal_keys, settings_of
from collector.web.visitor import Form
from evaluators.registry import KINDS
from rules.errors import BadRule, Problem
from rules.rule_text import parse_rule
from rules.rule_yaml import meant, spelled, yaml_of
from rules.tree import read_tree
from tests.ruling import a_rule

_ODD = [
    "yes",
    "1e5",
    "null",
    "~",
    "2020-01-01",
    "- a",
    "a: b",
    "*x",
    "!x",
    "# x",
    '"',
    '"a"',
    "a, b",
    "[x",
    "12.50",
    "a\nb",
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12) | st.sampled_from(_ODD)
NOT_BLANK = TEXTS.filter(lambda text: bool(text.strip()))
NAMES = NOT_BLANK.map(str.strip)
NUMBERS = st.floats(1e-9, 1e9) | st.integers(-1000, 1000)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def _condition(field: str, operator: str, value: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"field": st.just(field), "op": st.just(operator), "value": value})


CONDITIONS = st.recursive(
    st.one_of(
        _condition("attributes.a", "=", NOT_BLANK | NUMBERS),
        _condition("name", "contains", NOT_BLANK),
        _condition("input_tokens", ">", NUMBERS),
        _condition("attributes.b c", "in", st.lists(NOT_BLANK | NUMBERS, min_size=1, max_size=3)),
        _condition("model", "exists", st.booleans()),
    ),
    lambda inner: st.builds(
        lambda mode, listed: {mode: listed}, st.sampled_from(["any", "all"]), st.lists(inner, min_size=1)
    ),
    max_leaves=4,
)
RULES = st.fixed_dictionaries(
    {"name": NAMES, "evaluator": st.just("tool_error")},
    optional={
        "conditions": st.lists(CONDITIONS, max_size=4),
        "project": NAMES,
        "enabled": st.booleans(),
        "sampleRate": st.floats(0, 1),
        "target": st.sampled_from(["SPAN", "TRACE"]),
        "connectionId": NAMES,
        "config": st.fixed_dictionaries({}, optional={"name": NAMES, "threshold": st.floats(0, 1)}),
        "budget": st.fixed_dictionaries(
            {"callsPerDay": st.integers(0, 9999)}, optional={"allowUnpriced": st.booleans()}
        ),
        "expected": st.dictionaries(NOT_BLANK, NOT_BLANK | NUMBERS, min_size=1, max_size=2),
    },
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_what_is_written_is_read_back(document: dict[str, Any]) -> None:
    """YAML that we write says what the document said, whatever is in it."""
    assert (read_tree(yaml_of(document)).plain() or {}) == document


@given(VALUES)
def test_a_box_keeps_what_a_value_is(value: Any) -> None:
    """A value that is shown in a box means the same when the box is sent, text or number."""
    meaning = meant(spelled(value))
    assert (meaning, type(meaning)) == (value, type(value))


@given(RULES)
def test_a_form_that_nobody_touches_changes_nothing(document: dict[str, Any]) -> None:
    """A rule whose form is sent unchanged is the same revision."""
    rule = parse_rule(yaml_of(document)).rule
    form = form_of(rule, literal_keys("tool_error"))
    sent = {name: [text] for name, text in form.texts.items()}
    sent |= {f"config.{key}": [text] for key, text in form.settings.items()}
    sent |= {"field": [row.field for row in form.rows], "op": [row.operator for row in form.rows]}
    sent |= {"value": [row.value for row in form.rows]}
    sent |= {name: ["1"] for name, is_on in (("enabled", form.enabled), ("unpriced", form.unpriced)) if is_on}
    assert [row for row in form.rows if "\n" in row.value] == []  # which a box of one line would lose
    again = parse_rule(yaml_of(sent_form(Form(sent)).document(literal_keys("tool_error")))).rule
    assert (again.revision, again.enabled) == (rule.revision, rule.enabled)


def test_a_text_of_several_lines_is_written_as_such() -> None:
    """Criteria can be read in the YAML of a rule, and conditions stand on one line each."""
    text = yaml_of({"conditions": [{"field": "name", "op": "=", "value": "a"}], "criteria": "Be kind.\nBe brief.\n"})
    assert text.splitlines() == [
        "conditions:",
        '  - {field: name, op: "=", value: a}',
        "criteria: |",
        "  Be kind.",
        "  Be brief.",
    ]


@pytest.mark.parametrize(
    "more, message", [("- a", "must be a mapping"), ("name: b", "use the form field above"), ("a: [", "line 1")]
)
def test_what_else_a_form_says_is_yaml_about_other_keys(more: str, message: str) -> None:
    """The box for the rest takes a mapping without the keys that have a field."""
    with pytest.raises(BadRule, match=message):
        blank_form(name="a", more=more).document(frozenset())


@pytest.mark.parametrize("after", [{"passed": False}, {"passed": True}, {"outcome": "failed"}, {"outcome": "scored"}])
def test_what_a_rule_goes_by_has_fields(after: dict[str, object]) -> None:
    """What the form offers comes back as it was, and a problem with it stands beside the field."""
    rule = a_rule(after={"rule": "check", **after})
    form = form_of(rule, frozenset())
    assert (form.texts["after_rule"], form.texts["more"]) == ("check", "")
    assert parse_rule(yaml_of(form.document(frozenset()))).rule == rule
    assert list(places([Problem(line=1, key="after", message="no")], form)) == [("after_rule", "no")]


def test_what_a_rule_goes_by_may_be_yaml() -> None:
    """Scores that the form does not offer are in the box for the rest, not in both."""
    rule = a_rule(after={"rule": "check", "below": 0.5})
    form = form_of(rule, frozenset())
    assert form.texts["after_rule"] == ""
    assert "below: 0.5" in form.texts["more"]
    assert parse_rule(yaml_of(form.document(frozenset()))).rule == rule
    assert list(places([Problem(line=1, key="after", message="no")], form)) == [("more", "after: no")]


def test_problems_are_told_beside_their_fields() -> None:
    """Each problem is assigned to its field, and so is each part of an evaluator's error."""
    form = blank_form(evaluator="length")
    keys = ["name", "conditions[3].value", "budget.usdPerDay", "monitor.alpha", "nothing"]
    problems = [Problem(line=1, key=key, message="is wrong") for key in keys]
    parts = (("maximumOutputLength", "is not a number; see 5"), ("threshold", "too high"))
    problem = Problem(line=1, key="config", message="length: two are wrong", parts=parts)
    placed = dict(places([*problems, problem], form))
    assert placed == {
        "name": "is wrong",
        "row3": "is wrong",
        "usd": "is wrong",
        "more": "monitor.alpha: is wrong",
        "": "nothing: is wrong",
        "config.maximumOutputLength": "is not a number; see 5",
        "config.threshold": "too high",
    }


def test_every_evaluator_can_be_chosen_but_programs() -> None:
    """The choices are all kinds that a rule of the API may name, and each has its settings."""
    chosen = {choice.name for _, choices in evaluators() for choice in choices}
    assert chosen == set(KINDS) - {"code_judge"}
    for name in chosen:
        keys = [setting.key for setting in settings_of(name, {"left": "over"})]
        assert {"threshold", "left"} <= set(keys)
        assert literal_keys(name) <= set(keys)
