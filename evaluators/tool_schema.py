"""Validation against a JSON Schema: the whole standard, compiled once for each schema."""

import functools
import json
from collections.abc import Mapping
from typing import Any

from evaluators.quick_schema import Test, quick_test
from evaluators.schema_steps import Steps

_KEPT_SCHEMAS = 2048
"""Compiled schemas that are kept, some 20 kB each. A guess: more tools than one installation has."""


class BadSchema(Exception):
    """A schema that is invalid; the message says where."""


class Schema:
    """A compiled JSON Schema."""

    def __init__(self, document: Mapping[str, Any] | bool) -> None:  # noqa: FBT001 - true and false are schemas
        from evaluators.full_schema import FullValidator, UnusableSchema  # noqa: PLC0415 - not needed at start, and a twentieth of its time

        self._unusable = UnusableSchema
        try:
            self._full = FullValidator(document)
        except UnusableSchema as error:
            raise BadSchema(str(error)) from None
        self._surely: Test = quick_test(document)

    def errors(self, value: Any, steps: Steps | None = None) -> list[str]:  # noqa: ANN401 - JSON
        """List the errors of a value, each with its place. `steps` are shared by the values of one request.

        Raises:
            BadSchema: a reference leads nowhere, the schema never ends or is too costly, or RE2 does not support one
                of its patterns.
        """
        if self._surely(value):
            return []
        try:
            return self._full.errors(value, steps)
        except self._unusable as error:
            raise BadSchema(str(error)) from None


def compile_schema(document: Mapping[str, Any] | bool) -> Schema:  # noqa: FBT001 - true and false are schemas
    """Return the compiled schema of a document, from a cache if possible.

    Raises:
        BadSchema: the document is not a JSON Schema.

    """
    return _compiled(json.dumps(document))


@functools.lru_cache(maxsize=_KEPT_SCHEMAS)
def _compiled(text: str) -> Schema:
    return Schema(json.loads(text))
