"""The stored row of one span's reading: texts, JSON, and keys of attributes with the same content."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from collector.conventions.slot_values import Memo, SlotValues
from collector.conventions.span import Content, tells_nothing
from collector.conventions.values import encodable
from storage.records import AttributeValue, JsonValue, Message, OfferedTool

Row = dict[str, Any]

LONG_ENOUGH: Final = 16  # characters; for a longer text, the key of an equal attribute is stored


def row_of(content: Content, slot_values: SlotValues, attribute_of: Callable[[str], AttributeValue]) -> Row:
    """Return the content of a span as a row; `attribute_of` returns an attribute of the span."""
    row: Row = {
        "input": content.input,
        "output": content.output,
        "error": content.error,
        "error_type": content.error_type,
    }
    if content.output_messages is not None:
        row["output_is_answer"] = content.is_answer
    elif slot_values.is_bare and tells_nothing(content):
        row["output_is_answer"] = False  # the span only records the usage of a call
    sources, memo = slot_values.sources, slot_values.memo
    for name, messages in (("input_messages", content.input_messages), ("output_messages", content.output_messages)):
        if messages is not None:
            key = sources.get(name, "")
            if _says(attribute_of(key), messages, memo):
                row[f"{name}_key"] = key
            else:
                row[name] = written(messages, memo)
    use = content.use
    if use is None:
        return row
    row["tool_name"], row["tool_call_id"] = use.name, use.call_id
    if use.arguments is not None:
        _keep(row, "tool_arguments", use.arguments, sources.get("tool_arguments", ""), attribute_of, memo)
    result, key = use.result.value, sources.get("tool_result", "")
    if isinstance(result, str):
        is_attribute = len(result) >= LONG_ENOUGH and attribute_of(key) == result
        row["tool_result_key" if is_attribute else "tool_result"] = key if is_attribute else result
        row["tool_result_is_text"] = True
    elif result is not None or "tool_result" in sources:
        _keep(row, "tool_result", result, key, attribute_of, memo)
    return row


def written(messages: list[Message], memo: Memo) -> str:
    """Encode messages as JSON, once for all spans that have them."""
    known = memo.written.get(id(messages))
    if known is None:
        known = memo.written[id(messages)] = messages, json_text(messages)
    return known[1]


def _keep(
    row: Row, name: str, value: JsonValue, key: str, attribute_of: Callable[[str], AttributeValue], memo: Memo
) -> None:
    if _says(attribute_of(key), value, memo):
        row[f"{name}_key"] = key
    else:
        row[name] = json_text(value)


def _says(text: AttributeValue, value: "JsonValue | Sequence[Message]", memo: Memo) -> bool:
    """Return True if a long text is the JSON of a value, for Python and for DuckDB, which rejects lone surrogates."""
    if not isinstance(text, str) or len(text) < LONG_ENOUGH or text.lstrip()[:1] not in ("{", "["):
        return False
    decoded = memo.decoded.get(text)
    if decoded is None or decoded != value or text in memo.literals:
        return False
    return "\\ud" not in text.lower()


def json_text(value: "JsonValue | Sequence[Mapping[str, JsonValue]]") -> str:
    """Encode a value as JSON."""
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError, ValueError):
        return encodable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def definitions_text(definitions: Sequence[OfferedTool]) -> str | None:
    """Encode tool definitions as JSON; None for none."""
    if not definitions:
        return None
    return json_text(
        [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in definitions]
    )
