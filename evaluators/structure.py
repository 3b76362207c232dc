"""Structural match: two JSON values compared leaf by leaf."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from evaluators.case import actual_value, expected_value
from evaluators.configuration import Configuration, Flag, Upper
from evaluators.errors import BadCase
from evaluators.evaluator import Assessment, Check, EvaluatorKind, pure
from evaluators.model import Case, text_of
from evaluators.pairing import most_pairs
from evaluators.values import Key, key_of, same
from evaluators.wire import parse_json

_SHOWN_DIFFERENCES = 10
"""A reason lists this many differences, and the metadata all. A guess."""

_MISSING: Final = object()


class StructuralMatch(Configuration):
    """Settings of the comparison of two structures."""

    mode: Annotated[Literal["STRICT", "LENIENT"], Upper] = Field(
        default="STRICT",
        description="STRICT: the same names, arrays in order; LENIENT: what is expected is there, in any order.",
    )
    output_key: str = Field(default="output", description="The key of both the actual and the expected output.")
    binary: Flag = Field(
        default=False, description="Score 1 if nothing differs, else 0, instead of the fraction of matching leaves."
    )


def structural_match(settings: StructuralMatch) -> Check:
    """Compare the expected and the actual output as trees."""
    key = settings.output_key

    def check(case: Case) -> Assessment:
        expected = expected_value(case, key, settings.path)
        if expected is None:
            raise BadCase(f"expectedOutputs.{key} is missing")
        comparison = _Comparison(lenient=settings.mode == "LENIENT")
        expected_tree = _tree(expected, f"expectedOutputs.{key}")
        comparison.compare(expected_tree, _tree(actual_value(case, key, settings.path), f"actualOutputs.{key}"), "$")
        return _assessment(comparison, binary=settings.binary)

    return pure(check)


def _assessment(comparison: "_Comparison", *, binary: bool) -> Assessment:
    metadata = {"matchedLeaves": comparison.matched, "leaves": comparison.leaves, "differences": comparison.differences}
    if not comparison.differences:
        vacuous = comparison.lenient and not comparison.leaves
        reason = f"The structures match ({comparison.leaves} leaves{'; nothing in particular is expected' * vacuous})."
        return Assessment(score=1.0, reason=reason, metadata=metadata, vacuous=vacuous)
    listed = "; ".join(comparison.differences[:_SHOWN_DIFFERENCES])
    more = len(comparison.differences) - _SHOWN_DIFFERENCES
    reason = (
        f"{comparison.matched} of {comparison.leaves} leaves match: {listed}{f'; and {more} more' if more > 0 else ''}."
    )
    return Assessment(score=0.0 if binary else comparison.matched / comparison.leaves, reason=reason, metadata=metadata)


@dataclass(slots=True, kw_only=True)
class _Comparison:
    """State of a comparison."""

    lenient: bool
    matched: int = 0
    leaves: int = 0
    differences: list[str] = field(default_factory=list)

    def compare(self, expected: object, actual: object, place: str) -> None:
        """Compare two trees, either of which may be missing."""
        if self.lenient and actual is None:
            actual = _MISSING
        if isinstance(expected, Mapping) and isinstance(actual, Mapping):
            for name in _names(expected, () if self.lenient else actual):
                self.compare(expected.get(name, _MISSING), actual.get(name, _MISSING), place + _step(name))
        elif isinstance(expected, list) and isinstance(actual, list):
            (self._any_order if self.lenient else self._in_order)(expected, actual, place)
        elif expected is _MISSING or actual is _MISSING:
            self._one_missing(expected, actual, place)
        else:
            self._count(1, 1 if same(expected, actual) else 0, f"{place}: {_difference(expected, actual)}")

    def _one_missing(self, expected: object, actual: object, place: str) -> None:
        present = actual if expected is _MISSING else expected
        if self.lenient and present is None:
            self._count(1, 1, "")
        else:
            self._count(_leaves(present), 0, f"{place}: {_difference(expected, actual)}")

    def _in_order(self, expected: Sequence[object], actual: Sequence[object], place: str) -> None:
        for index in range(max(len(expected), len(actual))):
            one, other = (side[index] if index < len(side) else _MISSING for side in (expected, actual))
            self.compare(one, other, f"{place}[{index}]")

    def _any_order(self, expected: Sequence[object], actual: Sequence[object], place: str) -> None:
        """Compare elements as wholes in any order; each counts as many leaves as it has."""
        has_partner = _pair(expected, actual)
        for index, item in enumerate(expected):
            leaves = _leaves(item)
            matched = leaves if has_partner[index] else 0
            self._count(leaves, matched, f"{place}[{index}]: no actual element matches {_short(item)}")

    def _count(self, leaves: int, matched: int, difference: str) -> None:
        self.leaves += leaves
        self.matched += matched
        if matched < leaves:
            self.differences.append(difference)


def _pair(expected: Sequence[object], actual: Sequence[object]) -> list[bool]:
    """Match as many expected elements as possible; return True for each that has a partner."""
    equals: dict[Key, list[int]] = {}
    for column, item in enumerate(actual):
        equals.setdefault(key_of(item), []).append(column)
    start: dict[int, int] = {}
    for row, item in enumerate(expected):
        partners = equals.get(key_of(item))
        if partners:
            start[row] = partners.pop()
    pairs = most_pairs(len(expected), len(actual), lambda row, column: _fits(expected[row], actual[column]), start)
    return [column is not None for column in pairs]


def _fits(expected: object, actual: object) -> bool:
    if not isinstance(expected, dict | list):
        return same(expected, actual)
    probe = _Comparison(lenient=True)
    probe.compare(expected, actual, "$")
    return not probe.differences


def _leaves(value: object) -> int:
    """Count the leaves of a tree; an empty container is one."""
    items: Iterable[object] = ()
    if isinstance(value, Mapping):
        items = value.values()
    elif isinstance(value, list):
        items = value
    return sum(map(_leaves, items)) or 1


def _tree(value: object, place: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value as JSON; text is parsed, so that a structure and the text of it are the same."""
    text = value if isinstance(value, str) else text_of(value)
    try:
        return parse_json(text, decimals=True)
    except ValueError as error:
        raise BadCase(f"{place} is not JSON: {error}") from None


def _names(expected: Mapping[str, object], actual: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*expected, *actual]))


def _step(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{json.dumps(name, ensure_ascii=False)}]"


def _difference(expected: object, actual: object) -> str:
    return f"expected {_short(expected)} and it is {_short(actual)}"


def _short(value: object) -> str:
    return "missing" if value is _MISSING else text_of(value)


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="structural_match",
        title="Structural Match",
        version=4,
        checks="The output has the expected structure and values, whatever its formatting.",
        reads=("actualOutputs[outputKey]", "expectedOutputs[outputKey]"),
        configuration=StructuralMatch,
        check=structural_match,
    ),
)
