"""Items of a dataset, parsed from any file or request."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from collector.datasets.schema import ItemSchemas
from storage.errors import BadQuery
from storage.limit import Limit
from storage.offline.datasets import NewItem
from tracejury import dataset_text
from tracejury.dataset_text import MAX_ITEM_BYTES, ItemText

ITEM: Final = Limit(value=MAX_ITEM_BYTES, unit="bytes", remedy="shorten its texts, or make several items of it")
Redact = Callable[[Any], Any]
"""Function that redacts a JSON value before it is stored."""


class BadItem(BadQuery, ValueError):
    """Refusal of an item that is not valid; the message names the key."""


def read_item(document: object) -> ItemText:
    """Parse the item in a JSON document, by the rules of the SDK.

    Raises:
        BadItem: the document is not an item.
    """
    try:
        return dataset_text.read_item(document)
    except ValueError as error:
        raise BadItem(str(error)) from None


def digest_of(*values: object) -> str:
    """Return a digest of JSON values that ignores only the order of object members: 5 and 5.0 differ."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def json_text(value: object) -> str:
    """Encode a JSON value for storage.

    Raises:
        BadItem: the value cannot be written as UTF-8, or is nested too deep.
    """
    try:
        return dataset_text.json_text(value)
    except ValueError as error:
        raise BadItem(str(error)) from None


@dataclass(slots=True, kw_only=True)
class ItemMaker:
    """Maker of the items of one version: redacted, checked against the schemas, with unique ids.

    An item without an id gets one from its inputs, so that it has the same one in the next version; items with the same
    inputs are numbered.
    """

    schemas: ItemSchemas
    redact: Redact | None = None
    _ids: set[str] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)  # last number by name; counting from 1 would be quadratic

    def make(self, text: ItemText) -> NewItem:
        """Make an item for storage.

        Raises:
            BadItem: its id is taken, or it is too large.
            AgainstSchema: a schema refuses it.
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

    def _id_of(self, own_id: str | None, inputs: object) -> str:
        if own_id is not None and own_id in self._ids:
            raise BadItem(f"id: another item is called {own_id!r}")
        name = own_id or f"item-{digest_of(inputs)[:16]}"
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
