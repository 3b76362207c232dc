"""What an item of a dataset says, read from whatever file or request it comes in."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from collector.datasets.schema import ItemSchemas
from evaluators.wire import unknown
from storage.errors import BadQuery
from storage.limit import Limit
from storage.offline.datasets import NewItem

MAX_ITEM_BYTES: Final = 4 << 20
ITEM: Final = Limit(value=MAX_ITEM_BYTES, unit="bytes", remedy="shorten its texts, or make several items of it")
"""Of one item as JSON. A guess: the longest conversation with its documents, and half of what a request may hold."""

MAX_ID_CHARACTERS: Final = 200
_ID: Final = Limit(value=MAX_ID_CHARACTERS, unit="characters", remedy="shorten it")

_INPUTS: Final = ("inputs", "input")
_EXPECTED: Final = ("expectedOutputs", "expected_outputs", "expectedOutput", "expected_output")
_KEYS: Final = frozenset({"id", *_INPUTS, *_EXPECTED, "metadata", "source"})
_TOLD: Final = frozenset({"ordinal", "digest"})  # by answers of ours, and passed over

Redact = Callable[[Any], Any]
"""Takes out of a JSON value what must not be written."""


class BadItem(BadQuery, ValueError):
    """The error for an item that is not valid; the message names the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemText:
    """What an item says. `item_id` is None where it was given none."""

    item_id: str | None
    inputs: Mapping[str, Any]
    expected_outputs: Mapping[str, Any]
    metadata: Mapping[str, Any]
    source: Mapping[str, Any] | None = None


def read_item(document: object) -> ItemText:
    """The item in a JSON document, simple (`input`, `expectedOutput`) or not (`inputs`, `expectedOutputs`, `metadata`).

    Where both forms are there, the map counts unless it is empty.

    Raises:
        BadItem: it is none.
    """
    if not isinstance(document, Mapping):
        raise BadItem("an item is a JSON object")
    wrong = next((key for key in document if key not in _KEYS | _TOLD), None)
    if wrong is not None:
        raise BadItem(f"{wrong}: {unknown(str(wrong), _KEYS)}")
    inputs = _values(document, _INPUTS[:1]) or _simple(document, _INPUTS[1:], "input")
    if not inputs:
        raise BadItem("inputs: every item needs some")
    return ItemText(
        item_id=read_id(document.get("id")),
        inputs=inputs,
        expected_outputs=_values(document, _EXPECTED[:2]) or _simple(document, _EXPECTED[2:], "output"),
        metadata=_values(document, ("metadata",)),
        source=_values(document, ("source",)) or None,
    )


def read_id(value: object) -> str | None:
    """The id of an item: a number is its text, and what is blank is none.

    Raises:
        BadItem: it cannot be one.
    """
    if value is None:
        return None
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise BadItem("id: an id is text")
    text = str(value).strip()
    if len(text) > MAX_ID_CHARACTERS or not text.isprintable():
        raise BadItem(f"id: an id has visible characters only, and at most {_ID}")
    return text or None


def digest_of(*values: object) -> str:
    """Equal for JSON values that are written alike but for the order of members: 5 is not 5.0."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def json_text(value: object) -> str:
    """A JSON value as it is stored.

    Raises:
        BadItem: it cannot be written as UTF-8, or is too deep.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except UnicodeEncodeError:
        raise BadItem("half of a surrogate pair is no text") from None
    except (ValueError, RecursionError) as error:
        raise BadItem(str(error) or "nested too deeply to be written: nest it less") from None
    return text


@dataclass(slots=True, kw_only=True)
class ItemMaker:
    """Makes the items of one version: redacted, checked against the schemas, each with an id that no other one has.

    An item without an id is called after its inputs, so that the same item is known again in the next version; items
    with the same inputs are numbered.
    """

    schemas: ItemSchemas
    redact: Redact | None = None
    _ids: set[str] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)  # the last one of each name, or equal items are quadratic

    def make(self, text: ItemText) -> NewItem:
        """The item, ready to be stored.

        Raises:
            BadItem: its id is taken, it is too large, or a schema refuses it.
        """
        inputs, expected, metadata = (self._redacted(each) for each in _maps_of(text))
        self.schemas.check(inputs, expected)
        item_id = self._id_of(text.item_id, inputs)
        texts = [json_text(each) for each in (inputs, expected, metadata)]
        if sum(map(len, texts)) > MAX_ITEM_BYTES:
            raise BadItem(f"it is larger than {ITEM}")
        return NewItem(
            item_id=item_id,
            digest=digest_of(inputs, expected, metadata),
            inputs=texts[0],
            expected_outputs=texts[1],
            metadata=texts[2],
            source=None if text.source is None else json_text(text.source),
        )

    def _redacted(self, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        return values if self.redact is None else self.redact(values)

    def _id_of(self, given: str | None, inputs: object) -> str:
        if given is not None and given in self._ids:
            raise BadItem(f"id: another item is called {given!r}")
        name = given or f"item-{digest_of(inputs)[:16]}"
        item_id, number = name, self._numbers.get(name, 1)
        while item_id in self._ids:
            number += 1
            item_id = f"{name}-{number}"
        self._ids.add(item_id)
        if number > 1:
            self._numbers[name] = number
        return item_id


def _maps_of(text: ItemText) -> tuple[Mapping[str, Any], ...]:
    return text.inputs, text.expected_outputs, text.metadata


def _values(document: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The map under one of these keys; an empty one where there is none."""
    for key in keys:
        value = document.get(key)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            raise BadItem(f"{key}: expected an object")
        return dict(value)
    return {}


def _simple(document: Mapping[str, Any], keys: tuple[str, ...], name: str) -> dict[str, Any]:
    """The map with the one value that the simple form has."""
    return next(({name: document[key]} for key in keys if key in document), {})
