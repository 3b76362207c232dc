"""Calls of tools in the answers of models, as each protocol tells them, in the normal form of messages."""

import json
from collections.abc import Iterator
from contextlib import suppress

from storage.records import JsonValue

Call = dict[str, JsonValue]


def chat_calls(message: dict[str, JsonValue]) -> Iterator[Call]:
    """Those of a message of Chat Completions."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(function, dict):
            yield _call(call.get("id"), function.get("name"), function.get("arguments"))


def responses_calls(output: list[JsonValue]) -> Iterator[Call]:
    """Those among the items of an answer of Responses."""
    for item in output:
        if isinstance(item, dict) and item.get("type") == "function_call":
            yield _call(item.get("call_id"), item.get("name"), item.get("arguments"))


def anthropic_calls(content: list[JsonValue]) -> Iterator[Call]:
    """Those among the blocks of an answer of Anthropic's."""
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_use":
            yield _call(block.get("id"), block.get("name"), block.get("input"))


def _call(call_id: JsonValue, name: JsonValue, arguments: JsonValue) -> Call:
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):  # what is no JSON stays as the model wrote it
            arguments = json.loads(arguments)
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
