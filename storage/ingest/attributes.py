"""Decoding of attribute texts with their type letters (`storage.ingest.batch.TYPE_LETTERS`)."""

import base64
import json
from collections.abc import Callable, Mapping

from storage.records import AttributeValue


def decode_attributes(texts: Mapping[str, str | None] | None, letters: str | None) -> dict[str, AttributeValue]:
    """Decode the values of OTLP attributes, by key, in their order.

    Arrays come as lists and maps as dicts; of a map's repeated keys the last wins.

    """
    if not texts:
        return {}
    return {
        key: None if text is None else _DECODERS[letter](text)
        for (key, text), letter in zip(texts.items(), letters or "s" * len(texts), strict=True)
    }


def decode_value(text: str | None, letter: str | None) -> AttributeValue:
    """Decode one OTLP value, such as the body of a log record."""
    return None if text is None else _DECODERS[letter or "s"](text)


def _json(text: str) -> AttributeValue:
    value: AttributeValue = json.loads(text)
    return value


def _any_value(text: str) -> AttributeValue:
    return _plain(json.loads(text))


def _plain(value: Mapping[str, object]) -> AttributeValue:
    """Return an `AnyValue` in OTLP/JSON as a plain value."""
    for field, content in value.items():
        match field, content:
            case "arrayValue", dict():
                return [_plain(item) for item in content.get("values", [])]
            case "kvlistValue", dict():
                return {pair.get("key", ""): _plain(pair.get("value", {})) for pair in content.get("values", [])}
            case _, str() | int() | float() if field in _SCALARS:
                return _SCALARS[field](content)
            case _:
                return None
    return None


_SCALARS: dict[str, Callable[[str | float], AttributeValue]] = {
    "stringValue": str,
    "boolValue": bool,
    "intValue": int,
    "doubleValue": float,
    "bytesValue": lambda text: base64.b64decode(str(text)),
}

_DECODERS: dict[str, Callable[[str], AttributeValue]] = {
    "s": str,
    "b": lambda text: text == "true",
    "i": int,
    "d": float,
    "x": bytes.fromhex,
    "a": _json,
    "m": _json,
    "v": _any_value,
    "n": lambda _: None,
}
