"""Laws that evaluators obey whatever they are given."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from evaluators.errors import BadConfiguration
from evaluators.pairing import longest_common, most_pairs
from evaluators.path import Path, PathNotFound, parse_path
from evaluators.quick_schema import quick_test
from evaluators.registry import KINDS, build
from evaluators.values import key_of, same
from tests.evaluating import call, called, evaluate, verdict

scalars = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2, width=16) | st.sampled_from(["", "a", "A", "ab"])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
calls = st.lists(
    st.builds(
        call,
        st.sampled_from(["search", "fetch", "book"]),
        st.dictionaries(st.sampled_from("xy"), st.integers(0, 2), max_size=2),
        result=st.sampled_from([None, "", "ok", '{"error": "x"}', '{"content": 1}']),
        durationMs=st.sampled_from([None, 5, 50]),
    ),
    max_size=6,
)
matchers = st.sampled_from(["EXACT", "SUBSET", "SUPERSET", "IGNORE"])
grids = st.integers(0, 4).flatmap(
    lambda columns: st.lists(st.lists(st.booleans(), min_size=columns, max_size=columns), max_size=4)
)
TOOLS = [{"name": "search", "inputSchema": {"properties": {"x": {"maximum": 1}}, "required": ["x"]}}, {"name": "fetch"}]
CONFIGURATIONS: dict[str, Sequence[dict[str, Any]]] = {
    "tool_call_validity": [{}, {"strictMode": True}],
    "tool_correctness": [{"matchMode": mode} for mode in ("NAMES_ONLY", "NAMES_AND_ORDER", "NAMES_AND_ARGS")],
    "tool_trajectory": [
        {"matchMode": mode, "extraCalls": extra}
        for mode in ("STRICT", "IN_ORDER", "ANY_ORDER", "SUPERSET", "SUBSET", "PRECISION", "RECALL")
        for extra in ("COUNT", "FREE")
    ],
    "tool_error": [{}, {"errorDetector": {"contains": "o"}}],
    "tool_efficiency": [{}, {"argumentMatcher": "SUBSET"}],
    "tool_call_count": [{"toolCallsCount": {"search": [">", 1], "book": ["=", 0]}}],
    "tool_call_order": [{"toolCallsOrder": ["search", "book", "search"]}],
    "tool_call_args": [{"subset": subset} for subset in (True, False)],
    "tool_call_output": [{"toolOutputs": [{"name": "search", "output": "ok"}, {"name": "fetch", "output": "1"}]}],
    "tool_steps": [
        {"mode": mode, "expected": [{"tool": "search", "args": {"x": 1}, "max_duration_ms": 9}, {"tool": "book"}]}
        for mode in ("in_order", "exact")
    ],
}


def oracle(grid: Sequence[Sequence[bool]]) -> Callable[[int, int], bool]:
    """Return a predicate: whether a cell of the grid is set."""
    return lambda row, column: grid[row][column]


def width(grid: Sequence[Sequence[bool]]) -> int:
    """Return the number of columns of a grid."""
    return len(grid[0]) if grid else 0


@given(actual=calls, expected=calls, strict=st.booleans())
def test_scores_are_between_0_and_1(actual: list[Any], expected: list[Any], strict: bool) -> None:  # noqa: FBT001 - given
    """Whatever calls were made and expected, each evaluator of calls answers with a score in its range."""
    case = called(*actual, expected=expected) | {"metadata": {"tools": TOOLS}}
    for name, configurations in CONFIGURATIONS.items():
        for configuration in configurations:
            more = {"strict": strict} if name.startswith("tool_call_") and name != "tool_call_validity" else {}
            if name == "tool_call_validity" and any(made["name"] == "book" for made in actual):
                assert verdict(name, configuration, case).score < 1
            assert 0 <= verdict(name, configuration | more, case).score <= 1


@given(actual=calls, expected=calls, order=st.randoms(use_true_random=False), matcher=matchers)
def test_modes_without_order_ignore_it(actual: list[Any], expected: list[Any], order: Any, matcher: str) -> None:
    """Shuffling both sides changes no score of a mode that ignores the order."""
    shuffled = [order.sample(side, len(side)) for side in (actual, expected)]
    for name, modes in (
        ("tool_trajectory", ["ANY_ORDER", "SUPERSET", "SUBSET", "PRECISION", "RECALL"]),
        ("tool_correctness", ["NAMES_ONLY", "NAMES_AND_ARGS"]),
    ):
        for mode in modes:
            configuration = {"matchMode": mode, "argumentMatcher": matcher}
            one = verdict(name, configuration, called(*actual, expected=expected))
            other = verdict(name, configuration, called(*shuffled[0], expected=shuffled[1]))
            assert one.score == other.score


@given(actual=calls, expected=calls.filter(bool), place=st.integers(0, 6), matcher=matchers)
def test_another_matching_call_never_lowers_recall(
    actual: list[Any], expected: list[Any], place: int, matcher: str
) -> None:
    """Making an expected call as well cannot make less of the expected found."""
    configuration = {"matchMode": "RECALL", "argumentMatcher": matcher}
    more = [*actual[:place], expected[0], *actual[place:]]
    before = verdict("tool_trajectory", configuration, called(*actual, expected=expected)).score
    assert verdict("tool_trajectory", configuration, called(*more, expected=expected)).score >= before


@given(grid=grids)
def test_no_pairing_beats_ours(grid: list[list[bool]]) -> None:
    """The pairing is one, and no way to assign columns to rows pairs more."""
    columns = width(grid)
    pairs = most_pairs(len(grid), columns, oracle(grid))
    used = [column for column in pairs if column is not None]
    assert len(used) == len(set(used))
    assert all(grid[row][column] for row, column in enumerate(pairs) if column is not None)
    choices = itertools.permutations([*range(columns), *[None] * len(grid)], len(grid))
    best = max(sum(column is not None and grid[row][column] for row, column in enumerate(way)) for way in choices)
    assert len(used) == best


@given(grid=grids)
def test_pairing_may_start_from_any_pair_that_matches(grid: list[list[bool]]) -> None:
    """Pairs that are known beforehand never make the pairing smaller."""
    columns = width(grid)
    size = sum(column is not None for column in most_pairs(len(grid), columns, oracle(grid)))
    for row, column in itertools.product(range(len(grid)), range(columns)):
        if grid[row][column]:
            pairs = most_pairs(len(grid), columns, oracle(grid), {row: column})
            assert sum(paired is not None for paired in pairs) == size


@given(grid=grids)
def test_no_common_subsequence_is_longer(grid: list[list[bool]]) -> None:
    """The pairs rise in both lists, match, and no rising chain of matches is longer."""
    common = longest_common(len(grid), width(grid), oracle(grid))
    assert all(grid[row][column] for row, column in common)
    assert all(one[0] < two[0] and one[1] < two[1] for one, two in itertools.pairwise(common))
    cells = [(row, column) for row, line in enumerate(grid) for column, is_set in enumerate(line) if is_set]
    chains = dict.fromkeys(cells, 1)
    for cell in cells:
        before = [chains[other] for other in cells if other[0] < cell[0] and other[1] < cell[1]]
        chains[cell] = 1 + max(before, default=0)
    assert len(common) == max(chains.values(), default=0)


@given(one=values, other=values)
def test_equal_keys_are_an_equivalence_of_json(one: object, other: object) -> None:
    """A value is itself, sameness has no direction, and same values match structurally in both modes."""
    assert same(one, one)
    assert same(one, other) == same(other, one) == (key_of(one) == key_of(other))
    if one is not None and other is not None and not isinstance(one, str) and not isinstance(other, str):
        case = {"actualOutputs": {"output": other}, "expectedOutputs": {"output": one}}
        strict = verdict("structural_match", {}, case)
        lenient = verdict("structural_match", {"mode": "LENIENT"}, case)
        assert (strict.score == 1) == same(one, other)
        assert 0 <= strict.score <= 1
        assert lenient.score >= (strict.score == 1)


schemas = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"]),
            "enum": st.lists(scalars, min_size=1, max_size=3),
            "minimum": st.integers(-2, 2),
            "maxLength": st.integers(0, 2),
            "description": st.just("text"),
            "not": st.just({"type": "string"}),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2)},
        optional={
            "type": st.just("object"),
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
        },
    ),
    max_leaves=4,
)


@given(schema=schemas, value=values)
def test_quick_yes_is_a_yes(schema: dict[str, Any], value: object) -> None:
    """What the quick test of a schema accepts is valid by the whole standard."""
    if quick_test(schema)(value):
        assert Draft202012Validator(schema).is_valid(value)


@given(text=st.text("$.[]'\"ab0-*", max_size=8) | st.text(max_size=6), value=values)
def test_paths_are_total(text: str, value: object) -> None:
    """Any text is a path or is refused, and any path finds a value or says that there is none."""
    try:
        path = parse_path(text)
    except ValueError:
        return
    assert isinstance(path, Path)
    try:
        matches = path.find(value)
    except PathNotFound:
        return
    assert parse_path(str(path)).find(value) == matches


@given(case=st.fixed_dictionaries({}, optional={
    part: st.dictionaries(st.sampled_from(["input", "output", "toolCalls", "tools", "retrieved", "relevant"]), values)
    for part in ("inputs", "actualOutputs", "expectedOutputs", "metadata")
}))  # fmt: skip
def test_any_case_has_an_outcome(case: dict[str, Any]) -> None:
    """Whatever a case holds, each evaluator ends in a verdict or in a failure that is not an accident of its own."""
    needed: dict[str, dict[str, Any]] = {
        "regex": {"pattern": "a"},
        "length": {"maximumOutputLength": 3},
        "tool_steps": {"mode": "exact", "expected": [{"tool": "a"}]},
        "execution_metrics": {"maxToolCalls": 1},
        "tool_policy": {"forbidden": ["a"], "scope": "TURN"},
        "efficiency": {"best": {"toolCalls": 1, "turns": 1}},
    }
    for name, kind in KINDS.items():
        if name == "code_judge" or kind.judge(kind.configuration.model_construct()) != "never":
            continue
        document = evaluate(name, needed.get(name, {}), case).to_document()
        assert document["outcome"] in {"verdict", "failure"}
        assert document["failure"] is None or document["failure"]["kind"] == "bad_case", document["failure"]


KEYWORDS = [
    "type",
    "properties",
    "required",
    "enum",
    "items",
    "$ref",
    "$schema",
    "additionalProperties",
    "pattern",
    "not",
]
any_json = st.recursive(
    scalars | st.sampled_from(["string", "#", "#/properties/x", "http://json-schema.org/draft-04/schema#", "("]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=8,
)


@given(schema=st.dictionaries(st.sampled_from(KEYWORDS), any_json, max_size=4), arguments=any_json)
def test_any_schema_has_an_outcome(schema: dict[str, Any], arguments: object) -> None:
    """Whatever a tool calls its schema, a call of it is judged, or the schema is said to be none."""
    tools = [{"name": "t", "inputSchema": schema}]
    document = evaluate(
        "tool_call_validity", {}, called(call("t", arguments)) | {"metadata": {"tools": tools}}
    ).to_document()
    assert document["failure"] is None or document["failure"]["kind"] == "bad_case", document["failure"]


@given(data=st.data(), value=values | st.sampled_from(["$.a", "EXACT", "STRICT", "any_order", "byField"]))
def test_any_configuration_is_usable_or_refused(data: st.DataObject, value: object) -> None:
    """Whatever stands under a key of a configuration, it builds an evaluator, or the refusal names the key."""
    name = data.draw(st.sampled_from(sorted(KINDS)))
    key = data.draw(st.sampled_from([field.alias for field in KINDS[name].configuration.model_fields.values()]))
    refused = f"{name}: "
    try:
        build(name, {key: value})
    except BadConfiguration as error:
        refused = str(error)
    assert refused.startswith(f"{name}: ")
