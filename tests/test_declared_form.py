"""Forms, bodies and documents of fields that a record declares once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Len
from pydantic import ValidationError

from collector.api.responses.wire import document_with
from collector.declared_fields import model_with
from collector.web.declared_form import form_fields
from collector.web.visitor import Form
from storage.described import Described


@dataclass(frozen=True, kw_only=True)
class Options:
    """A field of each kind."""

    note: Annotated[str | None, Described(label="Note")] = None
    most_calls: Annotated[int | None, Ge(1), Described(label="Calls", text="Calls a day.")] = None
    rules: Annotated[Sequence[str] | None, Len(1, 2), Described(label="Rules", hint="One per line.")] = None
    levels: Annotated[Sequence[Literal["low", "high"]] | None, Described(label="Levels")] = None
    style: Annotated[Literal["plain", "rich"], Described(label="Style")] = "plain"
    enabled: Annotated[bool, Described(label="Enabled")] = True


SENT = {
    "note": [" ask Ada "],
    "mostCalls": ["12"],
    "rules": ["a\n\n b "],
    "levels": ["low", "high"],
    "style": ["rich"],
    "enabled": ["on"],
}
BODY = {
    "note": "ask Ada",
    "mostCalls": "12",
    "rules": ["a", "b"],
    "levels": ["low", "high"],
    "style": "rich",
    "enabled": True,
}


def test_each_type_has_its_field() -> None:
    """The type of a field decides how it is entered."""
    kinds = [(each.name, each.kind, tuple(each.choices)) for each in form_fields(Options)]
    assert kinds == [
        ("note", "text", ()),
        ("mostCalls", "number", ()),
        ("rules", "lines", ()),
        ("levels", "choices", ("low", "high")),
        ("style", "choice", ("plain", "rich")),
        ("enabled", "tick", ()),
    ]


@pytest.mark.parametrize(
    "sent, body",
    [(SENT, BODY), ({}, dict.fromkeys(BODY) | {"enabled": False})],
)
def test_a_form_becomes_a_body(sent: dict[str, list[str]], body: dict[str, object]) -> None:
    """Values come back as the API takes them, and empty fields as null."""
    assert {each.name: each.meant(Form(sent)) for each in form_fields(Options)} == body


def test_a_stored_record_survives_its_own_form() -> None:
    """A form that is sent back unchanged means the values that it was filled with."""
    stored = Options(note="x", most_calls=3, rules=["a", "b"], levels=["high"], enabled=False)
    sent: dict[str, Any] = {
        each.name: each.shown(value) for each, value in zip(form_fields(Options), vars(stored).values(), strict=True)
    }
    sent = {name: value if isinstance(value, list) else [value] for name, value in sent.items() if value}
    body = {each.name: each.meant(Form(sent)) for each in form_fields(Options)}
    assert Options(**dict(model_with(Options).model_validate(body))) == stored


@pytest.mark.parametrize("key, value", [("mostCalls", 0), ("rules", []), ("levels", ["none"]), ("style", "x")])
def test_limits_hold_in_the_model(key: str, value: object) -> None:
    """A value outside its declared limits is refused by its name in documents."""
    with pytest.raises(ValidationError, match=key):
        model_with(Options).model_validate({key: value})


def test_a_document_has_the_declared_fields() -> None:
    """A document is made of a record, with the names of the API."""
    assert list(document_with(Options).of(Options(most_calls=3)).__struct_encode_fields__) == list(SENT)
