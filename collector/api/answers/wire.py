"""Documents on the wire: one declaration from which they are made, encoded, described, and read again by clients."""

from collections.abc import Mapping
from typing import Annotated, Any, Self, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta
from pydantic import Field, create_model

from collector.api.answers.base import ApiAnswer


class WireDocument(msgspec.Struct, rename="camel", kw_only=True):
    """An answer of the API, or a part of one: made from a record, encoded by routes, read by commands.

    A server may add fields, so what is read may hold more than is declared. A field that the first release (0.1.0) has
    not, and that cannot be null, has a default, so that commands read servers of that release.
    """

    @classmethod
    def of(cls, record: object, **others: object) -> Self:
        """Make a document of a record, or of a row: fields of the same names, and those that it has not."""
        names = [name for name in cls.__struct_fields__ if name not in others]
        same = {name: record[name] if isinstance(record, Mapping) else getattr(record, name) for name in names}
        return cls(**same, **others)

    @classmethod
    def __get_pydantic_core_schema__(cls, _: object, handler: Any) -> Any:  # noqa: ANN401 - of Pydantic's core
        """Describe the document as a model, of which Pydantic makes the OpenAPI document and tests check answers."""
        hints = get_type_hints(cls, include_extras=True)
        names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
        fields: dict[str, Any] = {name: (_described(hints[name], alias), ...) for name, alias in names}
        model = create_model(cls.__name__, __base__=ApiAnswer, __doc__=cls.__doc__, __module__=cls.__module__, **fields)
        return handler.generate_schema(model)


def _described(hint: Any, alias: str) -> Any:  # noqa: ANN401 - a type
    if get_origin(hint) is not Annotated:
        return Annotated[hint, Field(alias=alias)]
    kind, *metadata = get_args(hint)
    described = next((each.extra["described"] for each in metadata if isinstance(each, Meta) and each.extra), kind)
    fields = [Field(description=each.description) if isinstance(each, Meta) else each for each in metadata]
    return Annotated[described, Field(alias=alias), *fields]
