"""Regular expressions of clients: no search tries again and again, and what RE2 lacks is an error that says so."""

import ast
import inspect
from typing import Any

import pytest
from jsonschema import _keywords, _legacy_keywords, _utils

from evaluators.errors import BadConfiguration
from evaluators.registry import build
from evaluators.regular import SafeRegex, UnusableRegex
from evaluators.tool_schema import BadSchema, compile_schema
from tests.evaluating import failure, outputs, verdict

ENDLESS = "(a+)+$"  # in `re`, twice the time for each letter more
LETTERS = "a" * 5_000 + "!"
DRAFTS = ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
LATE = "https://json-schema.org/draft/2019-09/schema"


def test_the_evaluator_searches_in_linear_time() -> None:
    """A pattern that keeps `re` for longer than the universe is old is a verdict at once."""
    assert verdict("regex", {"pattern": ENDLESS}, outputs(LETTERS)).score == 0.0
    assert verdict("regex", {"pattern": ENDLESS}, outputs(LETTERS[:-1])).score == 1.0


@pytest.mark.parametrize("draft", [*DRAFTS, LATE])
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"pattern": ENDLESS}}},
        {"patternProperties": {ENDLESS: False}},
        {"patternProperties": {ENDLESS: True}, "additionalProperties": {"const": LETTERS}},
        {"patternProperties": {ENDLESS: True}, "unevaluatedProperties": {"const": LETTERS}},
        {"propertyNames": {"pattern": f"{ENDLESS}|."}},
    ],
)
def test_schemas_search_in_linear_time(draft: str, schema: dict[str, Any]) -> None:
    """Each keyword of JSON Schema with a pattern, or that depends on one, takes linear time in each draft."""
    compiled = compile_schema({"$schema": draft, **schema})
    wrong = compiled.errors({"x": LETTERS, LETTERS: LETTERS})
    assert bool(wrong) is (schema.get("properties") is not None)


def test_the_library_searches_and_does_nothing_else() -> None:
    """What stands for `re` in the keywords of jsonschema has all that they use of it."""
    for module in (_keywords, _legacy_keywords, _utils):
        used = {
            node.attr
            for node in ast.walk(ast.parse(inspect.getsource(module)))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re"
        }
        assert used == {"search"}, module


@pytest.mark.parametrize(
    "pattern, why",
    [
        ("(?=a)", "a lookahead is not supported"),
        ("a(?!b)", "a lookahead is not supported"),
        ("(?<=a)b", "a lookbehind is not supported"),
        ("(?<!a)b", "a lookbehind is not supported"),
        (r"(a)\1", "a backreference is not supported"),
        ("(?P<x>a)(?P=x)", "a backreference is not supported"),
        ("(?>a)", "an atomic group or possessive quantifier is not supported"),
        ("a++", "an atomic group or possessive quantifier is not supported"),
        ("a{1,5000}", "invalid repetition size"),
        ("(" * 20_000, "more than 10,000 characters"),
    ],
)
def test_what_re2_has_not_is_told(pattern: str, why: str) -> None:
    """It is refused when it is configured, and in a schema of a span it is a failure, never a verdict."""
    with pytest.raises(BadConfiguration, match=why):
        build("regex", {"pattern": pattern})
    if len(pattern) > 1_000:
        return
    tools = [{"name": "t", "inputSchema": {"properties": {"x": {"pattern": pattern}}}}]
    case = {"actualOutputs": {"toolCalls": [{"name": "t", "arguments": {"x": "ab"}}]}, "metadata": {"tools": tools}}
    assert why in failure("tool_call_validity", {}, case)


@pytest.mark.parametrize(
    "pattern, text, expected",
    [
        (r"^\u0041\U0001F600\é\Z", "A😀é", "A😀é"),
        (r"\p{Lu}+", "abCDe", "CD"),
        (r"^\d+$", "12\n", None),
        (r"^\w+$", "é", None),
        (r"\\u0041", r"\u0041", r"\u0041"),
        ("x.y", "x\ud800y", "x?y"),
        ("x\ud800?y", "xy", "xy"),
    ],
)
def test_patterns_of_other_languages(pattern: str, text: str, expected: str | None) -> None:
    """Escapes of ECMAScript and Python are understood; half a surrogate pair is a question mark."""
    assert SafeRegex(pattern).search(text) == expected


def test_a_pattern_that_is_none_is_refused() -> None:
    """A syntax error says where."""
    with pytest.raises(UnusableRegex, match="missing"):
        SafeRegex("(a")
    with pytest.raises(BadSchema, match="is not a 'regex'"):
        compile_schema({"pattern": "(a"})
