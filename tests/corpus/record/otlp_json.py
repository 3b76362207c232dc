"""OTLP/JSON as the specification has it (hex ids, enums as numbers), from and to the protobuf messages."""

import base64
import json
from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

M = TypeVar("M", bound=Message)
IDS = {"traceId", "spanId", "parentSpanId"}


def dumps(message: Message) -> str:
    """Encode the message as OTLP/JSON; raise unless decoding gives the message."""
    text = pretty(_with_ids(json_format.MessageToDict(message, use_integers_for_enums=True), _to_hex))
    if loads(text, type(message)) != message:
        raise ValueError("OTLP/JSON lost something")
    return text


def loads(text: str | bytes, kind: type[M]) -> M:
    """Decode OTLP/JSON; raise if it has an unknown field."""
    return json_format.ParseDict(_with_ids(json.loads(text), _to_base64), kind())


def pretty(value: object) -> str:
    """Format JSON, keeping on one line what fits."""
    return _pretty(value, "") + "\n"


def _pretty(value: object, indent: str) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent) + len(flat) <= 118:
        return flat
    inner = indent + " "
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key)}: {_pretty(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + _pretty(item, inner) for item in value) + f"\n{indent}]"


def _with_ids(value: Any, convert: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: convert(item) if key in IDS else _with_ids(item, convert) for key, item in value.items()}
    return [_with_ids(item, convert) for item in value] if isinstance(value, list) else value


def _to_hex(text: str) -> str:
    return base64.b64decode(text).hex()


def _to_base64(text: str) -> str:
    return base64.b64encode(bytes.fromhex(text)).decode()
