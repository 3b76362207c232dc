"""Declaration of the model of a route's response."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

_MARK: Final = "__answers_with__"
_REFERENCE: Final = "#/components/schemas/{model}"

Endpoint = TypeVar("Endpoint", bound=Callable[..., object])
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeclaredAnswer:
    """The model of a route's response, and its statuses beside the default one."""

    model: Any  # a model, a list of one, or a union of several
    statuses: tuple[int, ...] = ()


def response_model(model: object, *statuses: int) -> Callable[[Endpoint], Endpoint]:
    """Declare the model of a route's successful responses; used below the route decorator.

    The model documents the response and does not validate it: see `ApiAnswer`.
    """

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _MARK, DeclaredAnswer(model, statuses))
        return endpoint

    return declare


def declared_answer(endpoint: object) -> DeclaredAnswer | None:
    """Return the answer that a route declares, or None."""
    declared = getattr(endpoint, _MARK, None)
    return declared if isinstance(declared, DeclaredAnswer) else None


def schemas_of(declared: Iterable[DeclaredAnswer]) -> tuple[Mapping[int, Schema], Mapping[str, Schema]]:
    """Return the schema of each declaration, by its `id()`, and the named schemas that these reference."""
    adapters = [(id(each), "validation", TypeAdapter(each.model)) for each in declared]
    schemas, definitions = TypeAdapter.json_schemas(adapters, ref_template=_REFERENCE)  # type: ignore[arg-type]
    return {key: schema for (key, _), schema in schemas.items()}, definitions.get("$defs", {})
