"""Two people change the same thing: the second is told, and sees what he typed beside what is there now."""

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
_KEPT: Final = "kept, encrypted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """One thing that would be another after saving; "" where there is none."""

    name: str
    typed: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditConflict:
    """A form that was sent after somebody else had changed what it is about."""

    kind: str  # as people call it
    differences: tuple[FieldDifference, ...]


def version_seen(form: Form) -> int:
    """The version that was there when a form was shown; of one that does not say, what no version is."""
    sent = form.text(_FIELD)
    return int(sent) if _VERSION.fullmatch(sent) else _UNSEEN


def overtaken(kind: str, typed: Document, now: Document, labels: Mapping[str, str] = _NO_LABELS) -> EditConflict:
    """How two documents differ, by the labels of their keys; a key inside of another is `outer.inner`."""
    wanted, there = dict(_flat(typed)), dict(_flat(now))
    names = [name for name in dict.fromkeys((*wanted, *there)) if wanted.get(name) != there.get(name)]
    return EditConflict(
        kind=kind,
        differences=tuple(
            FieldDifference(name=labels.get(name, name), typed=_shown(wanted.get(name)), now=_shown(there.get(name)))
            for name in names
        ),
    )


def without_secret(form: Form, name: str, forget: str, *, is_kept: bool) -> tuple[Document, Document]:
    """What a form wants of a secret and what is there, for `overtaken`, without what was typed.

    Left empty, a secret stays; `forget` is the box that removes it.
    """
    now = {name: _KEPT} if is_kept else {}
    if form.text(name).strip():
        return {name: "a new one, which has to be typed again"}, now
    return {} if form.checked(forget) else now, now


def _flat(document: Document) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", told) for inner, told in _flat(value))
        elif value is not None:
            yield key, value


def _shown(value: JsonValue) -> str:
    return "" if value is None else value if isinstance(value, str) and "\n" in value else spelled(value)
