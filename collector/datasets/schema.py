"""The schemas that the items of a dataset have to follow, if it has any."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from evaluators.schema_steps import MAX_SECONDS, MAX_STEPS, Steps
from evaluators.tool_schema import BadSchema, Schema, compile_schema
from storage.limit import Limit

MAX_SCHEMA_BYTES: Final = 64 << 10  # a guess
_SIZE: Final = Limit(value=MAX_SCHEMA_BYTES, unit="bytes", remedy="check fewer fields")

_REQUEST: Final = 4  # limit of all items of a request, in multiples of the limit of one value; a guess

_NAMED: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})  # members are not keywords
_VALUES: Final = frozenset({"enum", "const", "default", "examples"})
_REFUSED: Final = frozenset({"pattern", "patternProperties"})
"""Keywords that are refused: a regular expression could run forever, and holds the GIL meanwhile."""


class AgainstSchema(ValueError):
    """Refusal of an item that the dataset's schema does not allow; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSchemas:
    """The compiled schemas of a dataset, for the items of one request. Without any, every item passes."""

    inputs: Schema | None = None
    expected: Schema | None = None
    _steps: Steps = field(default_factory=lambda: Steps(_REQUEST * MAX_STEPS, _REQUEST * MAX_SECONDS))

    def check(self, inputs: object, expected: object) -> None:
        """Check an item against the schemas.

        Raises:
            AgainstSchema: the item does not follow a schema.
        """
        for name, schema, value in (("inputs", self.inputs, inputs), ("expectedOutputs", self.expected, expected)):
            if schema is None:
                continue
            try:
                wrong = schema.errors(value, self._steps)
            except BadSchema as error:
                raise AgainstSchema(f"{name}: the schema cannot be used: {error}") from None
            if wrong:
                raise AgainstSchema(f"{name}: {wrong[0]}")


def schemas_of(inputs: str | None, expected: str | None) -> ItemSchemas:
    """Compile the stored schemas."""
    compiled = [None if text is None else compile_schema(json.loads(text)) for text in (inputs, expected)]
    return ItemSchemas(inputs=compiled[0], expected=compiled[1])


def schema_text(document: Mapping[str, Any] | None) -> str | None:
    """Encode a schema for storage.

    Raises:
        BadSchema: the schema is not valid, or uses a refused feature.
    """
    if document is None:
        return None
    text = json.dumps(document, ensure_ascii=False)
    try:
        nbytes = len(text.encode())
    except UnicodeEncodeError:
        raise BadSchema("a text holds half a surrogate pair, which UTF-8 cannot carry: leave it out") from None
    if nbytes > MAX_SCHEMA_BYTES:
        raise BadSchema(f"a schema has at most {_SIZE}")
    refused = next((key for key in _keywords(document) if key in _REFUSED), None)
    if refused is not None:
        raise BadSchema(f"{refused} is not taken here, because nothing bounds the time that it takes")
    compile_schema(document)
    return text


def _keywords(schema: object) -> Iterator[str]:
    """Yield the keywords of a schema and of those inside of it, not names or values that look like one."""
    if isinstance(schema, list):
        for each in schema:
            yield from _keywords(each)
    if not isinstance(schema, Mapping):
        return
    for key, value in schema.items():
        yield key
        if key in _NAMED and isinstance(value, Mapping):
            for each in value.values():
                yield from _keywords(each)
        elif key not in _VALUES:
            yield from _keywords(value)
