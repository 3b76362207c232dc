"""Conflicting edits: the second editor gets a conflict, with the typed values beside the stored ones."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from collector.web.visitor import Form
from rules.rule_yaml import spelled
from storage.records import JsonValue

Document: TypeAlias = Mapping[str, Any]

_FIELD: Final = "version"
_VERSION: Final = re.compile(r"[0-9]{1,18}")
_UNSEEN: Final = 0  # versions count from one
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
_KEPT: Final = "stored, encrypted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """A field that saving would change; "" for a missing value."""

    name: str
    typed: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditConflict:
    """Conflict of a form with a change that was stored after the form was opened."""

    kind: str  # the noun for the page: “rule”
    differences: tuple[FieldDifference, ...]


def version_seen(form: Form) -> int:
    """Return the version that the form was shown for; if it names none, a number that no version has."""
    sent = form.text(_FIELD)
    return int(sent) if _VERSION.fullmatch(sent) else _UNSEEN


def overtaken(kind: str, typed: Document, now: Document, labels: Mapping[str, str] = _NO_LABELS) -> EditConflict:
    """Return the fields in which two documents differ. `labels` maps keys to labels; nested keys are `outer.inner`."""
    typed_flat, now_flat = dict(_flat(typed)), dict(_flat(now))
    names = [name for name in dict.fromkeys((*typed_flat, *now_flat)) if typed_flat.get(name) != now_flat.get(name)]
    return EditConflict(
        kind=kind,
        differences=tuple(
            FieldDifference(
                name=labels.get(name, name), typed=_shown(typed_flat.get(name)), now=_shown(now_flat.get(name))
            )
            for name in names
        ),
    )


def without_secret(form: Form, name: str, forget: str, *, is_kept: bool) -> tuple[Document, Document]:
    """Return the typed and the stored document of a secret for `overtaken`, without the secret itself.

    An empty field `name` keeps the stored secret, and the checkbox `forget` removes it. `is_kept`: one is stored.
    """
    now = {name: _KEPT} if is_kept else {}
    if form.text(name).strip():
        return {name: "a new one, which must be entered again"}, now
    return {} if form.checked(forget) else now, now


def _flat(document: Document) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", leaf) for inner, leaf in _flat(value))
        elif value is not None:
            yield key, value


def _shown(value: JsonValue) -> str:
    return "" if value is None else value if isinstance(value, str) and "\n" in value else spelled(value)
