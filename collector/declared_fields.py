"""Fields that a stored record declares once, as fields of models: bodies of the API, settings."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, create_model
from pydantic.alias_generators import to_camel

from storage.described import Described


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredField:
    """A field of a dataclass: its type, the limits of `annotated_types`, its default, and its texts."""

    name: str
    kind: Any
    limits: tuple[object, ...]
    default: Any
    described: Described

    @property
    def key(self) -> str:
        """Return the name of the field in documents."""
        return to_camel(self.name)


@cache
def declared_fields(source: type) -> tuple[DeclaredField, ...]:
    """List the fields of a dataclass, all of which have a default and are annotated with `Described`."""
    return tuple(_declared(source))


def model_with(source: type, base: type[BaseModel] = BaseModel) -> Any:  # noqa: ANN401 - a class, made now
    """Make a model with the fields of `base` and those of a dataclass, under the names that documents have."""
    added: dict[str, Any] = {}
    for each in declared_fields(source):
        written = Field(alias=each.key, description=each.described.text)
        added[each.name] = Annotated[each.kind, *each.limits, written], each.default
    return create_model(f"{source.__name__}Model", __base__=base, __module__=source.__module__, **added)


def _declared(source: type) -> Iterator[DeclaredField]:
    hints = get_type_hints(source, include_extras=True)
    for each in fields(source):
        kind, *metadata = get_args(hints[each.name]) if get_origin(hints[each.name]) is Annotated else ()
        (described,) = (extra for extra in metadata if isinstance(extra, Described))
        limits = tuple(extra for extra in metadata if extra is not described)
        yield DeclaredField(name=each.name, kind=kind, limits=limits, default=each.default, described=described)
