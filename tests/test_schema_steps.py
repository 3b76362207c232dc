"""Bounds of comparing values with JSON Schemas."""

from typing import Any

import pytest

from evaluators.schema_steps import MAX_STEPS, Steps
from evaluators.tool_schema import BadSchema, compile_schema

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def doubled(keyword: str, **more: Any) -> dict[str, Any]:
    """Return a schema that refers to each of its 40 levels twice."""
    levels = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2} | more for n in range(40)}
    return {"$ref": "#/$defs/a0", "$defs": levels | {"a40": {"const": "x"}}}


@pytest.mark.parametrize(
    "schema, value, most",
    [
        (doubled("anyOf"), {}, 20_000),
        (doubled("oneOf"), {}, 20_000),
        (doubled("allOf"), "x", 20_000),
        (doubled("anyOf", **{"$schema": DRAFT}), {}, 20_000),
        (doubled("anyOf") | {"unevaluatedProperties": False}, {"a": 1}, 20_000),
        ({"uniqueItems": True}, [{"a": n} for n in range(2_000)], MAX_STEPS),
    ],
)
def test_a_comparison_has_a_number_of_steps(schema: dict[str, Any], value: object, most: int) -> None:
    """Alternatives behind references, dialects within a schema and comparisons of each with each all have the bound."""
    with pytest.raises(BadSchema, match=f"takes too many steps: more than {most},"):
        compile_schema(schema).errors(value, None if most == MAX_STEPS else Steps(most, 5))


def test_a_long_list_of_allowed_values_has_a_number_of_steps() -> None:
    """A value is compared with the values of a list as far as the bound."""
    allowed = [{"a": [n]} for n in range(300_000)]  # made here: each worker of the tests would make a parameter
    with pytest.raises(BadSchema, match=f"takes too many steps: more than {MAX_STEPS},"):
        compile_schema({"enum": allowed}).errors({"a": [-1]})


def test_values_of_one_request_share_their_steps() -> None:
    """Steps that several values share are used up by all of them, and the error names their number."""
    schema, steps = compile_schema({"allOf": [{"minimum": 1}] * 10}), Steps(50, 5)
    assert [schema.errors(5, steps) for _ in range(4)] == [[]] * 4
    with pytest.raises(BadSchema, match="more than 50,"):
        schema.errors(5, steps)


def test_alternatives_keep_their_messages() -> None:
    """A value that fits none of the alternatives, or several if one is allowed, gets the usual message."""
    for keyword in ("anyOf", "oneOf"):
        schema = compile_schema({keyword: [{"type": "string"}]})
        assert schema.errors(1) == ["1 is not valid under any of the given schemas"]
    assert compile_schema({"oneOf": [True, {}]}).errors(1) == ["1 is valid under each of {}, True"]
