"""Forms of declared fields: what each shows for a record, and what it means in a document of the API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from collector.declared_fields import DeclaredField, declared_fields
from collector.web.text import one_line
from collector.web.visitor import Form

_LONGEST_SUMMARY: Final = 300

Kind: TypeAlias = Literal["text", "number", "lines", "choice", "choices", "tick"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of a form. An empty one stands for null."""

    name: str
    label: str
    hint: str
    kind: Kind
    choices: Sequence[str] = ()

    def sent(self, form: Form) -> Any:  # noqa: ANN401 - by kind
        """Return the value to show again in a form that was sent."""
        if self.kind == "tick":
            return form.checked(self.name)
        return form.texts(self.name) if self.kind == "choices" else form.text(self.name)

    def shown(self, value: Any) -> Any:  # noqa: ANN401 - by kind
        """Return a stored value as the form shows it."""
        if self.kind in {"tick", "choices"}:
            return value or ()
        return "\n".join(value or ()) if self.kind == "lines" else "" if value is None else str(value)

    def summary(self, shown: Any) -> str:  # noqa: ANN401 - by kind
        """Return a shown value on one line; "" if it is empty."""
        values = shown.splitlines() if self.kind == "lines" else (shown,) if isinstance(shown, str) else shown
        return one_line(", ".join(values), _LONGEST_SUMMARY)

    def meant(self, form: Form) -> Any:  # noqa: ANN401 - by kind
        """Return the value in a document of the API; checks are left to the document's model."""
        sent = self.sent(form)
        if self.kind == "tick":
            return sent
        if self.kind == "lines":
            return [line.strip() for line in sent.splitlines() if line.strip()] or None
        return (list(sent) if self.kind == "choices" else sent.strip()) or None


def form_fields(source: type) -> tuple[FormField, ...]:
    """Return the form's fields of a dataclass."""
    return tuple(_form_field(each) for each in declared_fields(source))


def _form_field(declared: DeclaredField) -> FormField:
    kind, choices = _kind(declared.kind)
    described = declared.described
    return FormField(name=declared.key, label=described.label, hint=described.hint, kind=kind, choices=choices)


def _kind(kind: Any) -> tuple[Kind, Sequence[str]]:  # noqa: ANN401 - a type
    if get_origin(kind) in {Union, UnionType}:
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is Literal:
        return "choice", get_args(kind)
    if get_origin(kind) is Sequence:
        item = get_args(kind)[0]
        return ("lines", ()) if item is str else ("choices", get_args(item))
    plain: Mapping[type, Kind] = {bool: "tick", int: "number", str: "text"}
    return plain[kind], ()
