"""Documents on the wire: one declaration builds, encodes, documents and parses them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Self, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, UnsetType, structs
from pydantic import BaseModel, Field, create_model

from collector.api.base.times import time_text
from collector.api.responses.base import ApiAnswer
from collector.declared_fields import declared_fields

_MISSING: Final = object()
_WHOLE: Final = ""
Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class From:
    """Source of a field: another attribute of the record, a conversion of its value, or both."""

    name: str | None = None
    convert: Convert | None = None


def doc(description: str | None) -> Meta:
    """Return the description of a field in the OpenAPI document."""
    return Meta(description=description)


def computed(convert: Convert) -> From:
    """Return the source of a field that is computed from the whole record (the first, if there are several)."""
    return From(_WHOLE, convert)


def time_of(name: str) -> From:
    """Return the source of a time: nanoseconds since the Unix epoch in the record, RFC 3339 in the document."""
    return From(name, time_text)


def time_of_us(time_us: int) -> str | None:
    """Convert microseconds since the Unix epoch to RFC 3339."""
    return time_text(time_us * 1_000)


class WireDocument(msgspec.Struct, rename="camel", kw_only=True):
    """An answer of the API, or a part of one: made from a record, encoded by routes, read by commands.

    An answer of a newer server may have further fields. A field that the first release (0.1.0) lacks, and that cannot
    be null, has a default, so that commands can read answers of that release.
    """

    @classmethod
    def of(cls, *records: object, **others: object) -> Self:
        """Make a document: each field comes from `others`, else from the first record or row that has it.

        Nested documents, and lists of documents, are made from the nested records.
        """
        for name, source, convert in sources_of(cls):
            if name in others:
                continue
            value = _value(records, source)
            if value is not _MISSING:
                others[name] = value if convert is None or value is None else convert(value)
        return cls(**others)

    @classmethod
    def __get_pydantic_core_schema__(cls, _: object, handler: Any) -> Any:  # noqa: ANN401 - of Pydantic's core
        """Describe the document as a Pydantic model, for the OpenAPI document and for tests of responses."""
        hints = get_type_hints(cls, include_extras=True)
        fields = {each.name: _described(hints[each.name], each) for each in structs.fields(cls)}
        model = create_model(cls.__name__, __base__=ApiAnswer, __doc__=cls.__doc__, __module__=cls.__module__, **fields)
        return handler.generate_schema(model)


def document_with(source: type, base: type[WireDocument] = WireDocument) -> Any:  # noqa: ANN401 - a class, made now
    """Make a document with the fields of `base`, then those that a dataclass declares."""
    added = [(each.name, Annotated[each.kind, doc(each.described.text)]) for each in declared_fields(source)]
    name, module = f"_{source.__name__}Document", source.__module__
    return msgspec.defstruct(name, added, bases=(base,), module=module, kw_only=True, rename="camel")


class PageAnswer(WireDocument):
    """A page of a list."""

    number: int
    size: int
    number_of_elements: int
    first: bool
    last: bool

    @classmethod
    def page(cls, documents: Sequence[object], page: int, size: int, **others: object) -> Self:
        """Make a page of the first `size` documents; more of them show that it is not the last page."""
        content = documents[:size]
        return cls.of(
            {"number": page, "size": size, "number_of_elements": len(content), "first": page == 0},
            last=len(documents) <= size,
            content=content,
            **others,
        )


@cache
def read_type(kind: Any, document: Any = None) -> Any:  # noqa: ANN401 - types
    """Derive the type by which a client reads answers of older and newer servers.

    A `Literal` becomes the type of its values, because a newer server may send further values. A field that may be null
    may also be absent. If `document` is given, it replaces the type of each document.
    """
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if document is not None:
            return document
        fields = [_read_field(each) for each in structs.fields(kind)]
        return msgspec.defstruct(kind.__name__, fields, bases=(kind,), module=kind.__module__, kw_only=True)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return dict[str, Any]
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return read_type(parts[0], document)
    if origin is Literal:
        return Union[tuple({type(each) for each in parts})]  # noqa: UP007 - of a tuple
    inner = tuple(read_type(each, document) for each in parts)
    if origin in {Union, UnionType}:
        return Union[inner]  # noqa: UP007 - of a tuple
    return origin[inner] if parts else kind


def description_of(hint: Any) -> str | None:  # noqa: ANN401 - a type
    """Return the description of a field that has one."""
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((each.description for each in metadata if isinstance(each, Meta)), None)


def _read_field(field: structs.FieldInfo) -> tuple[str, Any, Any]:
    kind = read_type(field.type)
    default = {"default": None} if field.required and type(None) in get_args(kind) else {}
    default |= {
        name: value for name in ("default", "default_factory") if (value := getattr(field, name)) is not NODEFAULT
    }
    return field.name, kind, msgspec.field(name=field.encode_name, **default)


def _value(records: tuple[object, ...], name: str) -> Any:  # noqa: ANN401 - of a record
    if name == _WHOLE:
        return records[0]
    for record in records:
        value = record.get(name, _MISSING) if isinstance(record, Mapping) else getattr(record, name, _MISSING)
        if value is not _MISSING:
            return value
    return _MISSING


@cache
def sources_of(kind: type[WireDocument]) -> tuple[tuple[str, str, Convert | None], ...]:
    """List the fields of a document with the attribute that each is made of, and its conversion."""
    return tuple((name, *_source(name, hint)) for name, hint in get_type_hints(kind, include_extras=True).items())


def _source(name: str, hint: Any) -> tuple[str, Convert | None]:  # noqa: ANN401 - a type
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    source = next((each for each in metadata if isinstance(each, From)), From())
    return name if source.name is None else source.name, source.convert or _conversion(hint)


def _conversion(hint: Any) -> Convert | None:  # noqa: ANN401 - a type
    """Return the conversion of records to a document, or to a list of them; None for other types."""
    if isinstance(hint, type) and issubclass(hint, WireDocument):
        return lambda value: value if isinstance(value, hint) else hint.of(value)
    inner = next(filter(None, map(_conversion, get_args(hint))), None)
    if inner is not None and get_origin(hint) is list:
        return lambda values: [inner(each) for each in values]
    return inner


def _described(hint: Any, field: structs.FieldInfo) -> Any:  # noqa: ANN401 - a type and a default
    kind, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    described = next((each.extra["described"] for each in metadata if isinstance(each, Meta) and each.extra), kind)
    default: object = ...
    if field.default is UNSET:  # a field that is left out is False or null
        described = Union[tuple(each for each in get_args(kind) if each is not UnsetType)]  # noqa: UP007 - of a tuple
        default = False if bool in get_args(kind) and type(None) not in get_args(kind) else None
    fields = [Field(description=each.description) if isinstance(each, Meta) else each for each in metadata]
    return Annotated[described, Field(alias=field.encode_name), *fields], default
