"""Text that holds a value: JSON, JSON within JSON, Python literals, and everything that only looks like one."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collector.conventions import unwrap
from collector.conventions.literals import NotSimpleError, simple_literal
from collector.conventions.values import (
    MAX_DEPTH,
    NotJson,
    clean,
    compiled_literal,
    decode,
    fraction,
    looks_encoded,
    parsed,
    taken,
    text_of,
    whole,
)
from storage.records import JsonValue

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "value, expected",
    [
        ('{"city": "Oslo"}', {"city": "Oslo"}),
        (
            "{'city': 'Oslo', 'days': [1, 2.5], 'alert': None, 'now': True}",
            {"city": "Oslo", "days": [1, 2.5], "alert": None, "now": True},
        ),
        ('{\'name\': "it\'s", "b": (1, 2)}', {"name": "it's", "b": [1, 2]}),
        ('"{\\"city\\": \\"Oslo\\"}"', {"city": "Oslo"}),
        ('"\\"{}\\""', {}),
        ('"Oslo"', "Oslo"),
        ("Oslo", "Oslo"),
        ("7", 7),
        ("-1e3", -1000.0),
        ("NaN", "NaN"),
        ("[1e999]", ["Infinity"]),
        ("{1, 2}", [1, 2]),
        ("{'a': -5, 'b': 1e-07}", {"a": -5, "b": 1e-07}),
        ("[1 + 1]", "[1 + 1]"),
        ("{'a': open('x')}", "{'a': open('x')}"),
        ("[__import__('os')]", "[__import__('os')]"),
        ("{'a': f'{1}'}", "{'a': f'{1}'}"),
        ("{'a': '\\d'}", "{'a': '\\d'}"),
        ('{"a": "\\ud800"}', {"a": "?"}),
        ('{"cut": "of', '{"cut": "of'),
        ("{'cut': 'of", "{'cut': 'of"),
        ("", ""),
        (None, None),
        (5, 5),
        (b"\x00\xff", "AP8="),
    ],
)
def test_arguments_are_json_else_a_literal_else_text(value: object, expected: JsonValue) -> None:
    """A value is read as JSON, else as a Python literal, else as text, and nothing is ever evaluated."""
    assert parsed(value) == expected


def test_lists_and_maps_are_taken_clean_from_attributes() -> None:
    """Values that JSON cannot carry are replaced when an attribute is read, and other values stay."""
    assert taken({"a": math.nan, "b": [b"\x00\xff"]}) == {"a": "NaN", "b": ["AP8="]}
    assert (taken(b"\x00"), taken("a"), taken(7)) == (b"\x00", "a", 7)


@given(plain)
def test_what_python_writes_is_read_back(value: JsonValue) -> None:
    """The repr of any JSON value is read as that value, as long as it is not also other JSON."""
    written = repr([value])
    assert parsed(written) == [value]


PIECES = (
    "{", "}", "[", "]", "(", ")", ":", ",", " ", "'a'", '"b"', "'c\\'s'", '"d\\"s"', "'\\n'", "'\\\\'", "'\t'",
    "'\\x41'", "None", "True", '"e\\/f"', "False", "null", "true", "1", "-0", "1.5", "1e5", "1E5", "1e999", "01",
    "9" * 19, "b'x'", "é", "'é'",
)  # fmt: skip
pieces = st.lists(st.sampled_from(PIECES), max_size=9)


@given(pieces.map("".join))
@example("[" + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "]")
@example("{'a': None, 'b': [True, False, 'None'], \"it's\": 'a \"word\"'}")
def test_what_is_read_at_once_is_what_the_compiler_reads(text: str) -> None:
    """A literal that needs no compiler means what the compiler says, and nothing else is taken for one."""
    try:
        simple = simple_literal(text)
    except NotSimpleError:
        return
    if looks_encoded(text):
        assert repr(simple) == repr(compiled_literal(text))


def test_an_ordinary_literal_needs_no_compiler() -> None:
    """What frameworks write of their maps is read at once, quotes in its strings or not."""
    assert simple_literal("{'a': None, \"it's\": ['a \"word\"', True, -1.5]}") == {
        "a": None,
        "it's": ['a "word"', True, -1.5],
    }


def test_depth_is_bounded() -> None:
    """JSON as deep as the bound is read; deeper, it is text."""
    fits, too_deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH, "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
    assert isinstance(parsed(fits), list)
    assert parsed(too_deep) == too_deep
    nested: object = "x"
    for _ in range(2 * MAX_DEPTH):
        nested = {"a": nested}
    assert "<nested too deeply>" in (text_of(clean(nested)) or "")


texts_with_brackets = st.text(alphabet='[]{}"\\,: a\né')


@given(
    st.integers(MAX_DEPTH - 3, MAX_DEPTH + 3),
    st.lists(texts_with_brackets, min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
)
def test_brackets_in_strings_are_no_levels(depth: int, texts: list[str], is_map: bool, is_ascii: bool) -> None:  # noqa: FBT001 - drawn by hypothesis
    """The depth of JSON depends on its lists and maps, whatever brackets and quotes its texts have."""
    value: JsonValue = [*texts]
    for level in range(depth - 1):
        text = texts[level % len(texts)]
        value = {text: value, "more": text} if is_map else [text, value, text]
    written = json.dumps(value, ensure_ascii=is_ascii)
    if depth > MAX_DEPTH:
        with pytest.raises(NotJson, match="nested more than"):
            decode(written)
    else:
        assert decode(written) == json.loads(written)


@pytest.mark.parametrize(
    "text, reason",
    [
        ('[{"role": "us', "is cut off"),
        ('{"a": 1', "is cut off"),
        ('{"a": 1} and more', "breaks at character 9"),
        ("{'a': 1}", "breaks at character 1"),
        ("[" * 100_000, "is nested"),
        ("9" * 10_000, "Exceeds the limit"),
    ],
)
def test_broken_json_says_where(text: str, reason: str) -> None:
    """Truncated, malformed and too deeply nested JSON have different errors."""
    with pytest.raises(NotJson, match=reason):
        decode(text)


@pytest.mark.parametrize(
    "value, count",
    [
        (7, 7),
        (7.9, 7),
        ("19", 19),
        ("19.0", 19),
        (0, 0),
        ("NaN", None),
        (math.nan, None),
        (math.inf, None),
        (-1, None),
        (True, None),
        (None, None),
        ("many", None),
        (2**53, 2**53),
        (2**53 + 1, None),
        (f" {2**53}", 2**53),
        (f"0{2**53 + 1}", None),
        (float(2**54), None),
        (2**63 - 1, None),
        (10**400, None),
        ([1], None),
    ],
)
def test_counts_are_numbers_of_any_type(value: object, count: int | None) -> None:
    """Numbers as text count, and NaN, negative ones and truth values do not."""
    assert whole(value) == count
    assert fraction(value=True) is None


@pytest.mark.parametrize(
    "value, expected",
    [
        ('{"args": [], "sanitize_inputs_outputs": false, "kwargs": {"city": "Oslo"}}', {"city": "Oslo"}),
        ('{"args": ["Oslo"], "kwargs": {}}', {"args": ["Oslo"], "kwargs": {}}),
        ('{"args": [{"city": "Oslo"}], "kwargs": {}}', {"city": "Oslo"}),
        ('{"input_str": "{\'city\': \'Oslo\'}", "inputs": null, "tags": []}', {"city": "Oslo"}),
        ('{"input_str": "x", "inputs": {"city": "Oslo"}}', {"city": "Oslo"}),
        ('{"args": "a shell command"}', {"args": "a shell command"}),
    ],
)
def test_arguments_are_taken_out_of_their_wrapping(value: str, expected: JsonValue) -> None:
    """Frameworks hand on how a function was bound; a tool with a parameter of that name keeps it."""
    assert unwrap.arguments(value) == expected


@pytest.mark.parametrize(
    "value, expected, is_error",
    [
        ('[{"text": "{\\"celsius\\": 7}"}]', {"celsius": 7}, None),
        ('{"type": "tool", "data": {"content": "{\\"celsius\\": 7}", "tool_call_id": "c"}}', {"celsius": 7}, None),
        ({"output": {"content": "sunny", "type": "tool", "tool_call_id": "c", "status": "error"}}, "sunny", True),
        ({"lc": 1, "id": ["ToolMessage"], "kwargs": {"content": "7", "tool_call_id": "c"}}, "7", None),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "isError": True}, "a\nb", True),
        ({"type": "json", "value": {"celsius": 7}}, {"celsius": 7}, False),
        ({"type": "error-text", "value": "unknown city"}, "unknown city", True),
        ([{"json": {"celsius": 7}}], {"celsius": 7}, None),
        ({"toolResult": {"toolUseId": "c", "status": "error", "content": [{"text": "no"}]}}, "no", True),
        ({"content": {"celsius": 7}}, {"content": {"celsius": 7}}, None),
        ({"result": 7}, {"result": 7}, None),
        ([{"type": "text", "text": "a"}, {"type": "image"}], [{"type": "text", "text": "a"}, {"type": "image"}], None),
        ([], [], None),
        ({"content": [{"type": "text", "text": "Error: a sample"}], "isError": False}, "Error: a sample", False),
    ],
)
def test_results_are_taken_out_of_their_wrapping(
    value: object,
    expected: JsonValue,
    is_error: bool | None,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Serialised messages, content blocks and typed values are opened, with their flag; a tool's own keys are not."""
    result = unwrap.result(value)
    assert (result.value, result.is_error) == (expected, is_error)


@pytest.mark.parametrize(
    "value, fails",
    [
        ("Error: unknown city", True),
        ("ValueError('unknown city')", True),
        ("requests.exceptions.ConnectionError: refused", True),
        ("Traceback (most recent call last):\n ...", True),
        ({"error": "unknown city"}, True),
        ({"error": {"code": 404}, "status": 404}, True),
        ({"isError": True, "content": "x"}, True),
        ({"status": "error", "output": "x"}, True),
        ({"error": None, "rows": []}, False),
        ({"error": "", "status": "ok"}, False),
        ({"error": "of the estimate", "mean": 0.3}, False),
        ("An error occurred while running the tool.", True),
        ("Error handling in Go", False),
        ("Terror: a novel", False),
        ("The error was small.", False),
        ("Errors were found: 0", False),
        (["Error: x"], False),
        (None, False),
    ],
)
def test_results_that_are_errors_are_known(value: JsonValue, fails: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A serialised error is one; a word about errors is not."""
    assert unwrap.says_error(value) is fails
