"""Content blocks and items that an instrumentation turned into texts, parsed back.

A user could write such a text, too. So texts are parsed on spans of these libraries only; of messages with the role of
a user, only those that the library itself adds.
"""

from collections.abc import Callable, Collection
from operator import is_
from typing import Final

from collector.conventions.parts import is_of_model, part_of
from collector.conventions.pieces import Joined, once
from collector.conventions.python_repr import written_map
from collector.conventions.table import Slot
from collector.conventions.values import as_dict, as_list, opened
from storage.records import JsonValue, Message

SLOTS: Final[frozenset[Slot]] = frozenset({"texts_of_items", "texts_of_blocks"})
"""Slots with a value on the spans of these libraries."""

_LITERAL = "{'"
_KIND_IN_LITERAL, _KIND_IN_OBJECT = "'type': '", "type='"
_OF_BEDROCK = {"reasoningContent"}  # a block that OpenLLMetry does not know, and so records as text
_UNSPOKEN = ("refusal", "reasoning", "reasoning_content", "thinking", "function_call", "tool_use")
_ANSWERED = frozenset({*_UNSPOKEN, "redacted_thinking", "text", "output_text", "message"})
_CONTENT = frozenset(
    {"output_text", "refusal", "reasoning_text", "input_text", "input_image", "image_url", "input_file", "input_audio"}
)
_TOOLS = ("function", "custom_tool", "web_search", "file_search", "computer", "code_interpreter", "image_generation",
          "local_shell", "shell", "apply_patch", "tool_search", "mcp")  # fmt: skip
_ITEMS = frozenset(
    {"message", "reasoning", "mcp_list_tools", "mcp_approval_request", "compaction", *_CONTENT}
    | {f"{tool}_call{end}" for tool in _TOOLS for end in ("", "_output")}
)
_CLASSES = ("Response", "Mcp", "ImageGenerationCall(", "LocalShellCall(")
"""Prefixes of these items' class names in OpenAI's library."""

_REQUIRED: Final = {
    "function_call": frozenset({"name", "arguments", "call_id"}),
    "custom_tool_call": frozenset({"name", "input", "call_id"}),
    "reasoning": frozenset({"id", "summary"}),
    "message": frozenset({"role", "content"}),
    "tool_use": frozenset({"id", "name", "input"}),
}
_MESSAGES_OWN = frozenset({"tool_calls", "refusal"})


def may_hide_blocks(text: str) -> bool:
    """Return whether a text may contain content blocks, so that it is worth parsing; False for most texts."""
    if text[:1] in ("{", "["):
        has_kind = "refusal" in text or "reasoning" in text or "thinking" in text or "function_call" in text
        return has_kind or "tool_use" in text or (text.startswith(_LITERAL) and _KIND_IN_LITERAL in text)
    return text[-1:] == ")" and _KIND_IN_OBJECT in text and text.startswith(_CLASSES)


def with_items(messages: list[Message]) -> list[Message]:
    """Parse items of OpenAI's Responses API that were recorded as Python reprs.

    OpenTelemetry's instrumentation of OpenAI's agents records all items but texts as their repr, and those without a
    role as messages of the user: `ResponseFunctionToolCall(…)`, `{'type': 'input_image', …}`, whole messages.
    """
    return _opened(messages, ("assistant", "user"), _blocks_of_item, _ends(messages))


def _ends(messages: list[Message]) -> set[int]:
    spoken = [at for at, message in enumerate(messages) if message["role"] != "system"]
    is_reply = len(spoken) > 1 and messages[spoken[-2]]["role"] == "assistant"
    ends = spoken[:1] + (spoken[-1:] if is_reply else [])
    return {at for at in ends if messages[at]["role"] == "user"}


def with_blocks(messages: list[Message]) -> list[Message]:
    """Parse content blocks of answers that were recorded as text: as JSON, or as a Python literal.

    Instrumentations of LangChain record answers of OpenAI's Responses API so.
    """
    return _opened(messages, ("assistant",), _blocks_of_answer)


def with_last_blocks(messages: list[Message]) -> list[Message]:
    """Parse content blocks of an answer with the finish reason `stop`, unless Anthropic's calls (`tool_use`) are in it.

    OpenAI's responses have this reason with and without calls.
    """
    return _opened(messages, ("assistant",), _blocks_of_last_answer)


_Reader = Callable[[str, str], list[JsonValue] | None]


def _opened(
    messages: list[Message], roles: tuple[str, ...], read: _Reader, users: Collection[int] = ()
) -> list[Message]:
    changed = [_with_parts(message, read) if message["role"] in roles else message for message in messages]
    for at in users:
        if changed[at]["role"] != "user":
            changed[at] = messages[at]
    if all(map(is_, changed, messages)):
        return messages
    joined = Joined()
    for message in changed:
        joined.add(message, is_open=False, are_items=False)
    return joined.messages


def _with_parts(message: Message, read: _Reader) -> Message:
    """Parse the texts of a message, with each call once. A message of calls and thoughts alone is the assistant's."""
    role, parts, is_changed = str(message["role"]), list[JsonValue](), False
    for part in as_list(message["parts"]):
        text = part.get("content") if isinstance(part, dict) and part.get("type") == "text" else None
        blocks = read(text, role) if isinstance(text, str) and may_hide_blocks(text) else None
        is_changed = is_changed or blocks is not None
        parts += [part] if blocks is None else [inner for block in blocks for inner in part_of(block)]
    if not is_changed:
        return message
    parts = once(parts)
    return {**message, "role": "assistant" if parts and all(map(is_of_model, parts)) else role, "parts": parts}


def _blocks_of_item(text: str, role: str) -> list[JsonValue] | None:
    """Return the blocks of an item, or of a whole message of the model; None for all else."""
    parsed = written_map(text) if text.startswith(_CLASSES) else opened(text) if text.startswith(_LITERAL) else None
    item = parsed if isinstance(parsed, dict) else {}
    kind = item.get("type")
    if kind is None:
        is_answer = role == "assistant" == item.get("role") and not _MESSAGES_OWN.isdisjoint(item)
    else:
        is_answer = _is_complete(item) and kind in _ITEMS
    return (_of_message(item) or None) if is_answer else None


def _blocks_of_answer(text: str, _: str) -> list[JsonValue] | None:
    """Return the blocks of an answer with thoughts or calls among them; None for all else."""
    parsed = opened(text) if text[:1] in ("{", "[") else None
    if isinstance(parsed, dict) and parsed.keys() == _OF_BEDROCK:
        return [parsed]
    blocks = [as_dict(block) for block in as_list(parsed)]
    kinds = [str(block.get("type")) for block in blocks]
    is_answer = any(kind in _UNSPOKEN for kind in kinds) and all(kind in _ANSWERED for kind in kinds)
    return (
        [inner for block in blocks for inner in _of_message(block)]
        if is_answer and all(map(_is_complete, blocks))
        else None
    )


def _blocks_of_last_answer(text: str, role: str) -> list[JsonValue] | None:
    blocks = _blocks_of_answer(text, role)
    return None if any(as_dict(block).get("type") == "tool_use" for block in blocks or ()) else blocks


def _is_complete(block: dict[str, JsonValue]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and _REQUIRED.get(kind, frozenset()) <= block.keys()


def _of_message(item: dict[str, JsonValue]) -> list[JsonValue]:
    """Return the blocks of a message of a model, with its refusal and its calls; any other item is a block itself."""
    if item.get("type", "message") != "message":
        return [item]
    content, refusal = item.get("content"), item.get("refusal")
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    calls = item.get("tool_calls") or item.get("function_call")
    called = [{**as_dict(call), "type": "function"} for call in as_list(calls)] if calls else []
    return [*blocks, *([{"type": "refusal", "refusal": refusal}] if refusal else []), *called]
