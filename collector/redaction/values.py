"""Redaction of JSON values that come over the API, by the same plan as that of attributes of spans."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from collector.redaction.columns import Redactor
from collector.redaction.plan import REDACTED, RedactionPlan


class ValueRedactor:
    """Redaction of JSON by a plan: the values under hidden keys at any depth, and matches in texts.

    A number with a match becomes a text.
    """

    def __init__(self, plan: RedactionPlan) -> None:
        self._redactor = Redactor(plan)

    def redact(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Redact a value."""
        keys = sorted(set(_keys(value)))
        hidden = frozenset(self._redactor.hidden_among(keys))
        texts = [each if isinstance(each, str) else str(each) for each in _leaves(value, hidden)]
        changed = self._redactor.texts(pa.array(texts, pa.string())) if texts else []
        after = iter(zip(texts, changed, strict=True))
        return _with_leaves(value, hidden, after)


def _keys(value: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield key
            yield from _keys(member)
    elif isinstance(value, list):
        for member in value:
            yield from _keys(member)


def _leaves(value: Any, hidden: frozenset[str]) -> Iterator[Any]:  # noqa: ANN401 - JSON
    """Yield texts and numbers in their order, without those under hidden keys."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            if key not in hidden:
                yield from _leaves(member, hidden)
    elif isinstance(value, list):
        for member in value:
            yield from _leaves(member, hidden)
    elif value is not None and not isinstance(value, bool):
        yield value


def _with_leaves(value: Any, hidden: frozenset[str], after: Iterator[tuple[str, str]]) -> Any:  # noqa: ANN401 - JSON
    """Return the value with its leaves replaced; unchanged leaves keep their type."""
    if isinstance(value, Mapping):
        return {
            key: REDACTED if key in hidden else _with_leaves(member, hidden, after) for key, member in value.items()
        }
    if isinstance(value, list):
        return [_with_leaves(member, hidden, after) for member in value]
    if value is None or isinstance(value, bool):
        return value
    before, changed = next(after)
    return value if before == changed else changed
