"""All of JSON Schema, by `jsonschema`: errors of a schema, and of a value.

IRIs are checked by our own mapping to URIs, because the library's own check compiles a grammar when it is imported.
That takes 1.3 s of CPU in each process of a server, a third of what the server needs to start.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Literal
from urllib.parse import quote

from jsonschema import Draft202012Validator, FormatChecker, _keywords, _legacy_keywords, _utils
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from rfc3986_validator import validate_rfc3986

from evaluators.regular import UnusableRegex, safe_regex
from evaluators.schema_steps import Steps, TooManySteps, count_step

_PLANES: Final = "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 14))
_IN_IRIS: Final = re.compile(f"[\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef{_PLANES}\U000e1000-\U000efffd]+")
"""`ucschar` of RFC 3987: what an IRI may hold where a URI holds letters."""

_IN_QUERIES: Final = re.compile("[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]+")
"""`iprivate` of RFC 3987, allowed in a query only."""

_QUERY: Final = re.compile(r"(?<=\?)[^#]*")


class _WithoutBacktracking:
    """Replacement of `re` for `jsonschema`: for `pattern`, `patternProperties` and the keywords that depend on it.

    The library has no hook for another engine; a test checks which functions of `re` its keywords call.
    """

    @staticmethod
    def search(pattern: str, text: str) -> bool:
        """Return True if the pattern occurs in the text.

        Raises:
            UnusableRegex: RE2 does not support the pattern.
        """
        try:
            return safe_regex(pattern).search(text) is not None
        except UnusableRegex as error:
            raise UnusableRegex(f"the pattern {pattern!r} cannot be used: {error}") from None


for _module in (_keywords, _legacy_keywords, _utils):
    _module.re = _WithoutBacktracking  # type: ignore[attr-defined] # a module of it


def _equal(one: object, two: object, compare: Callable[[object, object], bool] = _utils.equal) -> bool:
    count_step()  # `uniqueItems` compares each with each
    return compare(one, two)


for _module in (_keywords, _utils):
    _module.equal = _equal  # type: ignore[attr-defined] # a function of it


def is_regex(value: object) -> bool:
    """Return True if a text is a regular expression, of RE2 or of Python; other values pass every format."""
    if not isinstance(value, str):
        return True
    for compile_pattern in (safe_regex, re.compile):
        with suppress(UnusableRegex, re.error, OverflowError, RecursionError):
            return compile_pattern(value) is not None
    return False


@functools.cache
def formats_of(kind: type[Validator]) -> FormatChecker:
    """Return the formats that a draft of JSON Schema knows."""
    checker = FormatChecker(())
    checker.checkers = dict(kind.FORMAT_CHECKER.checkers)
    checker.checks("regex")(is_regex)
    if "idn-hostname" in checker.checkers:  # the drafts with names in all scripts are those with IRIs
        checker.checks("iri")(functools.partial(is_iri, rule="URI"))
        checker.checks("iri-reference")(functools.partial(is_iri, rule="URI_reference"))
    return checker


def is_iri(value: object, *, rule: Literal["URI", "URI_reference"]) -> bool:
    """Return True if a text is an IRI, or a reference to one; a value that is not text passes every format.

    By the mapping of RFC 3987, 3.1: each character that only IRIs have is percent-encoded as UTF-8, and the outcome is
    a URI of RFC 3986 exactly if the text was an IRI.

    """
    if not isinstance(value, str):
        return True
    path, mark, fragment = value.partition("#")
    path = _QUERY.sub(lambda query: _IN_QUERIES.sub(_encoded, query[0]), path, count=1)
    return bool(validate_rfc3986(_IN_IRIS.sub(_encoded, f"{path}{mark}{fragment}"), rule=rule))


def _encoded(characters: re.Match[str]) -> str:
    return quote(characters[0], safe="")


_MESSAGE_CHARACTERS = 200
"""The most characters of a message, which quotes its subject. A guess."""

_MOST_ERRORS: Final = 1000
"""Errors of a value that are reported. A guess."""

_Keyword = Callable[[Validator, Any, Any, Any], Iterable[ValidationError] | None]

_NOTHING_REMOTE: Final[Registry[Any]] = Registry()
"""References lead within the schema; a schema is never fetched."""


class UnusableSchema(Exception):
    """A schema that is invalid, or has a reference that leads nowhere; the message says where."""


class FullValidator:
    """Validator that lists the errors of a value, at most 1,000."""

    def __init__(self, document: Mapping[str, Any] | bool) -> None:  # noqa: FBT001 - true and false are schemas
        """Check the schema, and prepare the validator.

        Raises:
            UnusableSchema: the document is not a JSON Schema, or takes too many steps to check.
        """
        if isinstance(document, Mapping) and not isinstance(document.get("$schema", ""), str):
            raise UnusableSchema("$schema is not text")
        kind = validator_for(document, default=Draft202012Validator)
        bounded = _bounded(kind)
        try:
            with Steps():
                for error in bounded(kind.META_SCHEMA, format_checker=formats_of(kind)).iter_errors(document):
                    if not _is_about_a_type(error):
                        raise UnusableSchema(_error_text(error))
        except TooManySteps as error:
            raise UnusableSchema(str(error)) from None
        self._validator: Validator = bounded(document, registry=_NOTHING_REMOTE, format_checker=formats_of(kind))

    def errors(self, value: Any, steps: Steps | None = None) -> list[str]:  # noqa: ANN401 - JSON
        """List the errors of a value, each with its place.

        Raises:
            UnusableSchema: a reference leads nowhere, the schema never ends or takes too many steps, or RE2 does not
                support one of its patterns.
        """
        try:
            with steps or Steps():
                return [_error_text(error) for error in islice(self._validator.iter_errors(value), _MOST_ERRORS)]
        except Unresolvable as error:
            raise UnusableSchema(f"a reference leads nowhere: {error}") from None
        except (UnusableRegex, TooManySteps) as error:
            raise UnusableSchema(str(error)) from None
        except RecursionError:
            raise UnusableSchema("it refers to itself without end") from None


@functools.cache
def _bounded(kind: type[Validator]) -> type[Validator]:
    """Return the validator of a draft that counts every keyword as a step, and keeps no errors of alternatives."""
    own: dict[str, _Keyword] = {"type": _type, "anyOf": _any_of, "oneOf": _one_of}
    keywords: Mapping[str, _Keyword] = kind.VALIDATORS
    counted = {name: _counted(own.get(name, keyword)) for name, keyword in keywords.items()}
    bounded: type[Validator] = extend(kind, counted)  # type: ignore[no-untyped-call] # its stub has no types
    evolve = bounded.evolve

    def evolve_bounded(validator: Validator, **changes: Any) -> Validator:
        # Leave out a nested `$schema`: for it, the library would switch to its own class, which counts no steps.
        evolved = evolve(validator, **changes)
        if isinstance(evolved, bounded) or isinstance(evolved.schema, bool):
            return evolved
        return evolve(validator, **changes | {"schema": _without_dialect(evolved.schema)})

    bounded.evolve = evolve_bounded  # type: ignore[method-assign, assignment] # the library deprecates subclasses
    return bounded


def _without_dialect(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in schema.items() if name != "$schema"}


def _counted(keyword: _Keyword) -> _Keyword:
    def counted(validator: Validator, value: object, instance: object, schema: object) -> Any:  # noqa: ANN401 - as the library's
        count_step()
        return keyword(validator, value, instance, schema)

    return counted


def _any_of(validator: Validator, schemas: Iterable[Any], value: Any, _schema: object) -> Iterator[ValidationError]:  # noqa: ANN401 - JSON
    if not any(validator.evolve(schema=each).is_valid(value) for each in schemas):
        yield ValidationError(f"{value!r} is not valid under any of the given schemas")


def _one_of(validator: Validator, schemas: Iterable[Any], value: Any, _schema: object) -> Iterator[ValidationError]:  # noqa: ANN401 - JSON
    valid = [each for each in schemas if validator.evolve(schema=each).is_valid(value)]
    if not valid:
        yield ValidationError(f"{value!r} is not valid under any of the given schemas")
    elif len(valid) > 1:
        yield ValidationError(f"{value!r} is valid under each of {', '.join(map(repr, [*valid[1:], valid[0]]))}")


def _type(validator: Validator, types: object, value: Any, _schema: object) -> Iterator[ValidationError]:  # noqa: ANN401 - JSON
    names = types if isinstance(types, list) else [types]
    if not any(name not in _TYPES or validator.is_type(value, str(name)) for name in names):
        yield ValidationError(f"{value!r} is not of type {' or '.join(map(repr, names))}")


def _is_about_a_type(error: ValidationError) -> bool:
    place = [step for step in error.absolute_path if isinstance(step, str)]
    named = error.instance if isinstance(error.instance, list) else [error.instance]
    return place[-1:] == ["type"] and place[-2:-1] != ["properties"] and all(isinstance(name, str) for name in named)


def _error_text(error: ValidationError) -> str:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    message = error.message
    if len(message) > _MESSAGE_CHARACTERS:
        message = f"{message[:_MESSAGE_CHARACTERS]}…"
    return f"{place.removeprefix('.')}: {message}" if place else message


_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
