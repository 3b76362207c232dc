"""The page about rules: its examples have the stated meaning, and no key of a rule is left out."""

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
import yaml

from collector.conventions.own_keys import FIELDS as CONVENTIONS
from collector.evaluation.rule_check import check_evaluator
from rules.errors import BadRule
from rules.fields import FIELDS, MAPS, TOTALS
from rules.marker import MARKER, SIMULATED
from rules.matching import failing_clause
from rules.operators import OPERATORS
from rules.rule_text import parse_rule
from tests.ruling import a_rule, a_span, failing_clauses, insert, stored, views_in_memory
from tests.source_tree import ROOT

PAGE = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    """Return the examples of one kind."""
    return re.findall(rf"^```yaml {kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


MEANINGS: list[dict[str, Any]] = yaml.safe_load(blocks("meaning")[0])


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the view `spans` over tables in memory."""
    with views_in_memory() as connection:
        yield connection


@pytest.mark.parametrize("example", MEANINGS, ids=lambda example: json.dumps(example["condition"]))
def test_conditions_hold_of_what_the_page_says(database: duckdb.DuckDBPyConnection, example: dict[str, Any]) -> None:
    """Each condition holds of the values that are printed as such and fails of the others, in Python and in SQL."""
    rule = a_rule(conditions=[example["condition"]])
    for name, expected in (("holds", None), ("fails", 1)):
        values = example[name]
        insert(database, [a_span(span_id=f"{at:016x}", attributes={"k": value}) for at, value in enumerate(values)])
        assert failing_clauses(database, rule) == [expected] * len(values)
        assert [failing_clause(rule, row) for row in stored(database)] == [expected] * len(values)


def test_examples_are_rules() -> None:
    """Each rule on the page can be used as it stands."""
    for text in (*blocks("rule"), *blocks("same")):
        check_evaluator(parse_rule(text))


def test_the_two_ways_to_match_are_the_same() -> None:
    """The shorthand and its long form are one revision."""
    short, long = (parse_rule(text).rule for text in blocks("same"))
    assert short == long
    assert short.revision == long.revision


def test_every_key_field_and_operator_is_told() -> None:
    """The page names all that a rule can say."""
    with pytest.raises(BadRule) as caught:
        parse_rule(
            "name: a\nevaluator: b\nzzz: 1\nbudget: {zzz: 1}\nmonitor: {zzz: 1}\nafter: {rule: a, passed: true, zzz: 1}"
        )
    keys = [key for problem in caught.value.problems for key in problem.message.split("there are: ")[1].split(", ")]
    assert len(keys) == 45
    names = (*keys, *FIELDS, *TOTALS, *OPERATORS, *(f"{prefix}KEY" for prefix in MAPS), MARKER, SIMULATED)
    assert [name for name in names if f"`{name}`" not in PAGE] == []
    assert {example["condition"].get("op", "any") for example in MEANINGS} == {*OPERATORS, "any"}


def test_every_field_of_the_conventions_is_a_field() -> None:
    """Every field that is read from spans can be matched."""
    assert [name for name in (*CONVENTIONS, "span_type", "dialect") if name not in FIELDS] == []
