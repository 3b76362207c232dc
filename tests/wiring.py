"""Documents of the API for tests of what prints them."""

from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from msgspec import UNSET, UnsetType

from collector.api.responses.wire import WireDocument

_Document = TypeVar("_Document", bound=WireDocument)


def a_document(kind: type[_Document], /, **fields: Any) -> _Document:
    """Build a document with these fields; the others are null, or else empty."""
    hints = get_type_hints(kind)
    return kind(**{name: fields[name] if name in fields else _empty(hints[name]) for name in kind.__struct_fields__})


def _empty(hint: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _empty(parts[0])
    if hint is Any or type(None) in parts:
        return None
    if UnsetType in parts:
        return UNSET
    if origin is Literal:
        return parts[0]
    if isinstance(hint, type) and issubclass(hint, WireDocument):
        return a_document(hint)
    return (origin or hint)()
