"""Fast path of schema validation for ordinary tools: it accepts a value, or leaves it to `jsonschema`.

`jsonschema` takes 30 µs for the arguments of an ordinary call, and most calls are valid. A quick test takes a tenth of
that. It accepts only values that full validation accepts too. The rest is left to `jsonschema`: schemas with other
keywords, and invalid values, for which it also gives the explanation.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Test: TypeAlias = Callable[[Any], bool]
"""Predicate: True if a value is certainly valid, False if full validation must decide."""


def quick_test(schema: object) -> Test:
    """Return the quick test of a schema."""
    if schema is True:
        return lambda _: True
    if not isinstance(schema, Mapping) or not schema.keys() <= _KNOWN:
        return _unsure
    tests = [_KEYWORDS[keyword](value, schema) for keyword, value in schema.items() if keyword in _KEYWORDS]
    if len(tests) == 1:
        return tests[0]
    return lambda value: all([test(value) for test in tests])  # noqa: C419 - a list is faster for two or three


def _unsure(_: object) -> bool:
    return False


def _type(name: object, _schema: Mapping[str, Any]) -> Test:
    return _TYPES.get(name, _unsure) if isinstance(name, str) else _unsure


def _enum(members: object, _schema: Mapping[str, Any]) -> Test:
    texts = frozenset(member for member in members if isinstance(member, str)) if isinstance(members, list) else ()
    return lambda value: isinstance(value, str) and value in texts


def _properties(members: object, _schema: Mapping[str, Any]) -> Test:
    if not isinstance(members, Mapping):
        return _unsure
    tests = [(name, quick_test(schema)) for name, schema in members.items()]

    def test(value: Any) -> bool:  # noqa: ANN401 - JSON
        if isinstance(value, dict):
            for name, passes in tests:
                if name in value and not passes(value[name]):
                    return False
        return True

    return test


def _required(names: object, _schema: Mapping[str, Any]) -> Test:
    if not isinstance(names, list):
        return _unsure
    required = frozenset(names)
    return lambda value: not isinstance(value, dict) or required <= value.keys()


def _additional(allowed: object, schema: Mapping[str, Any]) -> Test:
    if allowed is True:
        return lambda _: True
    if allowed is not False:
        return _unsure
    known = frozenset(schema.get("properties", ()))
    return lambda value: not isinstance(value, dict) or value.keys() <= known


def _items(schema: object, _schema: Mapping[str, Any]) -> Test:
    test = quick_test(schema)
    return lambda value: not isinstance(value, list) or all(map(test, value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Final[Mapping[str, Test]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
_KEYWORDS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], Test]]] = {
    "type": _type,
    "enum": _enum,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "items": _items,
    "minimum": lambda bound, _: lambda value: not _is_number(value) or value >= bound,
    "maximum": lambda bound, _: lambda value: not _is_number(value) or value <= bound,
    "minLength": lambda bound, _: lambda value: not isinstance(value, str) or len(value) >= bound,
    "maxLength": lambda bound, _: lambda value: not isinstance(value, str) or len(value) <= bound,
}
_KNOWN: Final = frozenset({*_KEYWORDS, "title", "description", "default", "examples", "deprecated"})
"""Keywords that a quick test supports, and those without effect on validity."""
