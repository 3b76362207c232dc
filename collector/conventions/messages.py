"""Messages in the normal form, found and read by their shape.

`{"role", "parts"}` with roles system, user, assistant and tool, and unknown ones as they were sent. A message of
nothing but results has role tool.
"""

from collections.abc import Sequence

from collector.conventions.parts import (
    UNCAPTURED,
    Part,
    call_of,
    embedded_blocks,
    is_block,
    is_item,
    is_of_model,
    part_of,
    parts_of,
    response_part,
    text_part,
    thoughts_in,
)
from collector.conventions.pieces import (
    Joined,
    in_parts,
    words_of,
)
from collector.conventions.python_repr import written_map, written_message
from collector.conventions.unwrap import error_flag
from collector.conventions.values import as_dict, as_list, canonical, encodable, is_redacted
from storage.records import JsonValue, Message

MAX_CONTAINERS = 8  # maps and lists around messages; four were seen

ROLES = {
    **dict.fromkeys(("user", "human", "humanmessage", "humanmessagechunk"), "user"),
    **dict.fromkeys(("assistant", "ai", "model", "bot", "aimessage", "aimessagechunk"), "assistant"),
    **dict.fromkeys(("system", "developer", "systemmessage"), "system"),
    **dict.fromkeys(("tool", "function", "toolmessage", "functionmessage", "tool-response", "tool_response"), "tool"),
    "tool-call": "assistant",  # smolagents
}
_CONTAINERS = (
    "messages",
    "items",
    "contents",
    "message",
    "choices",
    "generations",
    "candidates",
    "delta",
    "content",
    "output",
    "outputs",
    "update",
    "response",
    "replies",
    "tool_messages",
    "inputs",
    "input",
)
_CONTAINING = frozenset(_CONTAINERS)
_ANSWERS = frozenset({"choices", "generations", "candidates", "output", "outputs", "response", "replies"})
"""Containers of a model's output, to which its instructions do not belong."""

_SYSTEM_KEYS = ("system", "instructions", "system_instruction", "systemInstruction", "system_prompt")
_BESIDE_INPUT = frozenset({"model", "instructions", "tools"})  # beside `input` in requests of OpenAI's Responses API
_ITEM_ROLES = {
    **dict.fromkeys(("function_call", "custom_tool_call", "reasoning"), "assistant"),
    **dict.fromkeys(("function_call_output", "custom_tool_call_output"), "tool"),
}
_LANGCHAIN_TYPES = frozenset({"human", "ai", "system", "tool", "function", "chat", "AIMessageChunk"})


def messages_of(value: object, role: str) -> list[Message] | None:
    """Parse messages, also a bare text, parts without a message, and containers of messages."""
    if isinstance(value, str):
        return [_of_text(value, role)] if value.strip() else None
    messages = find_messages(value, role)
    if messages is not None or not isinstance(value, list | dict) or not value:
        return messages
    blocks = as_list(value)
    if all(isinstance(block, str) or is_block(block) for block in blocks):
        return [_finished({"role": role, "parts": parts_of(blocks)})]
    return None


def find_messages(value: object, role: str, depth: int = MAX_CONTAINERS) -> list[Message] | None:
    """Return the messages in decoded JSON: in a list, alone, or within a request or response; None if there are none.

    `role` is that of messages without one; if it is empty, only messages with a role count.
    """
    if isinstance(value, list):
        return _of_list(value, role, depth)
    if not isinstance(value, dict):
        return None
    if _is_message(value):
        message = message_of(value, role)
        return [message] if message["role"] else None
    if depth <= 0:
        return None
    for key in () if _CONTAINING.isdisjoint(value) else _CONTAINERS:  # most maps in foreign JSON have none of them
        inner = value.get(key)
        if isinstance(inner, list | dict) and inner:
            messages = find_messages(inner, role, depth - 1)
            if messages is not None:
                return messages if key in _ANSWERS else _with_system(value, messages)
    return _of_plain(value, role) if role else None


def message_of(value: dict[str, JsonValue], role: str) -> Message:
    """Normalise a message of any vendor; `role` is the default."""
    content, named_role = value.get("content"), value.get("role")
    if len(value) == 2 and type(content) is str and type(named_role) is str and content[:1] != "[":  # noqa: PLR2004 - no more than a role and words
        own = ROLES.get(named_role) or _role(named_role, role)
        if own != "tool":
            return {"role": own, "parts": part_of(content) or _blank(content)}
    parts = value.get("parts")
    if type(parts) is list and "content" not in value and "tool_calls" not in value:
        return _finished(in_parts(parts, _role(value.get("role"), role), value.get("tool_call_id")), value)
    kind = value.get("type")
    kind = kind if isinstance(kind, str) else ""
    if "kwargs" in value or "data" in value or kind in _LANGCHAIN_TYPES:
        value = _langchain(value)
    elif kind in _ITEM_ROLES:
        return _finished({"role": _ITEM_ROLES[kind], "parts": part_of(value)})
    elif _is_llama_result(value):
        return {"role": "tool", "parts": part_of({**value, "type": "tool_result"})}
    inner = value.get("message")
    if isinstance(inner, dict) and "role" not in value:
        return message_of(inner, role)
    own_role = _role(value.get("role"), role)
    return _finished({"role": own_role, "parts": _all_parts(value, own_role)}, value)


def with_system(instructions: Sequence[JsonValue], messages: list[Message] | None) -> list[Message] | None:
    """Prepend system instructions, unless the messages have their own."""
    if not instructions or any(message["role"] == "system" for message in messages or ()):
        return messages
    return [{"role": "system", "parts": list(instructions)}, *(messages or ())]


def offered_tool(value: object) -> JsonValue:
    """Return the tool definition if a message is one, as Langfuse writes the tools that LangChain offers a model."""
    content = value.get("content") if isinstance(value, dict) and value.get("role") == "tool" else None
    is_tool = (
        isinstance(content, dict) and content.get("type") == "function" and isinstance(content.get("function"), dict)
    )
    return content if is_tool else None


def last_text(messages: Sequence[Message] | None, role: str) -> str | None:
    """Return the last text of a role, skipping blank ones."""
    for message in reversed(messages or ()):
        if message["role"] == role:
            text = words_of(message)
            if text and not text.isspace():
                return encodable(text)
    return None


def answer_text(messages: Sequence[Message] | None) -> str | None:
    """Return the last text of the model; None if a user or system message is last, or the answer has no text."""
    if not messages or messages[-1]["role"] in ("user", "system") or wordless_answer(messages) is not None:
        return None
    return last_text(messages, "assistant")


def wordless_answer(messages: Sequence[Message] | None, role: str = "assistant") -> str | None:
    """Return the text, maybe "", of an answer without words: blank text or thoughts alone; None for other answers.

    The answer is all messages of the role at the end.
    """
    answer = None
    for message in reversed(messages or ()):
        if message["role"] != role:
            break
        text = _wordless(message)
        if text is None:
            return None
        answer = text if answer is None else answer
    return answer


def _wordless(message: Message) -> str | None:
    parts = as_list(message["parts"])
    recorded = [part for part in parts if isinstance(part, dict) and part.get("content") is not None]
    if not recorded or len(recorded) < len(parts) or any(part.get("type") not in _WORDLESS for part in recorded):
        return None
    text = words_of(message)
    return encodable(text) if not text or text.isspace() else None


_WORDLESS = ("text", "reasoning")


def tool_request(messages: Sequence[Message] | None) -> str | None:
    """Return the words of the message whose calls of tools end an answer, maybe ""; None if no call ends it.

    Words after a call are an answer, such as those that follow a search that the provider did itself.
    """
    for message in reversed(messages or ()):
        if message["role"] in ("user", "system"):
            return None
        for part in reversed(as_list(message["parts"])):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "tool_call":
                return encodable(words_of(message))
            if kind == "text" and message["role"] == "assistant" and not _is_blank_part(part):
                return None
    return None


def _is_blank_part(part: JsonValue) -> bool:
    content = as_dict(part).get("content")
    return not isinstance(content, str) or not content or content.isspace()


def split_trajectory(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Split a whole conversation after the last text of the user."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index]["role"] == "user" and words_of(messages[index]):
            return messages[: index + 1], messages[index + 1 :]
    return messages, []


def _of_text(value: str, role: str) -> Message:
    return {"role": role, "parts": [] if is_redacted(value) else [text_part(encodable(value))]}


def _of_list(value: list[JsonValue], role: str, depth: int) -> list[Message] | None:
    first = value[0] if value else None
    if isinstance(first, list) and all(isinstance(item, list) for item in value) and not _is_pair(first):
        inner = [m for item in value for m in find_messages(item, role, depth - 1) or ()] if depth > 0 else []
        return inner or None
    if isinstance(first, str) and all(isinstance(item, str) for item in value) and written_message(first) is None:
        return None
    joined = Joined()
    was_item = is_open = False
    for raw in value:
        item = written_message(raw) if type(raw) is str else raw
        if isinstance(item, dict) and _is_message(item):
            if offered_tool(item) is not None:
                continue
            message = message_of(item, role)
            if not message["role"]:
                return None
            is_item = _is_item(item)
            joined.add(message, is_open=is_open, are_items=is_item and was_item)
            was_item, is_open = is_item, item.get("finish_reason") == ""
        elif _is_pair(item):
            joined.add_whole(_of_pair(item))
        elif depth > 0 and isinstance(item, dict):
            joined.add_whole(*(find_messages(item, role, depth - 1) or ()))
    return joined.messages or None


def _is_item(value: dict[str, JsonValue]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and (kind in _ITEM_ROLES or kind == "message")


def _of_plain(value: dict[str, JsonValue], role: str) -> list[Message] | None:
    """Return the messages of a request with a prompt instead of messages, or of a response with a text."""
    prompt = value.get("prompt", value.get("input") if not _BESIDE_INPUT.isdisjoint(value) else None)
    if isinstance(prompt, str) and prompt:
        return _with_system(value, [_of_text(prompt, "user")])
    if isinstance(prompt, list) and prompt:
        return messages_of(prompt, "user")
    replies = value.get("replies")
    if isinstance(replies, list) and replies and all(isinstance(reply, str) for reply in replies):  # Haystack
        return [_of_text(str(reply), role) for reply in replies]
    if isinstance(value.get("text"), str) and not {"generation_info", "finish_reason"}.isdisjoint(value):
        return [_of_text(str(value["text"]), role)]
    if "text" in value and not _BESIDE_TEXT.isdisjoint(value) and value.keys() <= _BESIDE_TEXT | {"text"}:  # DSPy
        calls = value.get("tool_calls")
        written: list[JsonValue] = [written_map(one) if isinstance(one, str) else one for one in as_list(calls or [])]
        return [message_of({**value, "role": role, "content": value["text"], "tool_calls": written}, role)]
    return None


_BESIDE_TEXT = frozenset({"reasoning_content", "tool_calls", "logprobs", "citations"})


def _with_system(value: dict[str, JsonValue], messages: list[Message]) -> list[Message]:
    instructions = _instructions(value)
    if instructions is None and "config" in value:
        instructions = _instructions(as_dict(value["config"]))
    if isinstance(instructions, dict):
        instructions = instructions.get("parts", instructions.get("text"))
    return with_system(parts_of(instructions), messages) or messages


def _instructions(value: dict[str, JsonValue]) -> JsonValue:
    for key in _SYSTEM_KEYS:
        instructions = value.get(key)
        if instructions:
            return instructions
    return None


def _role(value: object, otherwise: str) -> str:
    if not isinstance(value, str) or not value or value == "unknown":  # OpenLLMetry, of LangChain's streams
        return otherwise
    return ROLES.get(value) or ROLES.get(value.lower()) or encodable(value)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and value[0].lower() in ROLES  # noqa: PLR2004 - a pair


def _of_pair(value: JsonValue) -> Message:
    role, content = as_list(value)
    return {"role": _role(role, "user"), "parts": parts_of(content)}


_TELLING = frozenset({"role", "type", "lc", "parts", "content", "tool_output"})
"""A message has one of these."""


def _is_message(value: dict[str, JsonValue]) -> bool:
    if _TELLING.isdisjoint(value):
        return False
    if isinstance(value.get("role"), str):
        return "parts" in value or "content" in value or "tool_calls" in value or _role(value["role"], "") in _KNOWN
    kind = value.get("type")
    if isinstance(kind, str) and kind in _LANGCHAIN_TYPES:
        return "content" in value or isinstance(value.get("data"), dict)
    if isinstance(kind, str) and kind in _ITEM_ROLES:
        return True
    if value.get("lc") and isinstance(value.get("kwargs"), dict):
        return "content" in as_dict(value["kwargs"])
    if isinstance(value.get("parts"), list) or ("content" in value and isinstance(value["content"], str)):
        return True
    return _is_llama_result(value)


def _is_llama_result(value: dict[str, JsonValue]) -> bool:
    return "tool_output" in value and isinstance(value.get("tool_id"), str)


_KNOWN = frozenset({"user", "assistant", "system", "tool"})


def _langchain(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Convert a serialised message of LangChain to a plain one."""
    name = value.get("type")
    inner = value.get("kwargs", value.get("data"))
    fields = inner if isinstance(inner, dict) else value
    identity = value.get("id")
    if value.get("lc") and isinstance(identity, list) and identity:
        name = identity[-1]
    more = as_dict(fields.get("additional_kwargs"))
    role = fields.get("role") or (fields.get("type") if isinstance(fields.get("type"), str) else name)
    calls = fields.get("tool_calls") or more.get("tool_calls")
    kept = ("content", "tool_call_id", "name", "status")
    return {
        **{key: fields[key] for key in kept if fields.get(key) is not None},
        "role": role,
        **({"tool_calls": calls} if calls else {}),
        **{key: more[key] for key in (*_THOUGHTS_BESIDE, "refusal") if more.get(key)},
    }


def _all_parts(value: dict[str, JsonValue], role: str) -> list[JsonValue]:
    """Return the parts of a message, from `content`, `tool_calls` and others."""
    content = value.get("contents", value.get("parts", value.get("content")))
    content = value.get("content", value.get("blocks")) if content in (None, [], "") else content
    if role == "tool":
        results = _results(value, content)
        if results is not None:
            return results
    parts = _content_parts(content, role)
    if role == "assistant" and not _THOUGHTS_BESIDE.isdisjoint(value):
        parts = _with_thoughts(value, parts)
    refusal = value.get("refusal", as_dict(value.get("additional_kwargs")).get("refusal"))
    if not parts and isinstance(refusal, str):
        parts.append(text_part(refusal))
    more = as_dict(value.get("additional_kwargs")) if "blocks" in value else {}  # LlamaIndex
    calls = [as_dict(call) for call in as_list(value.get("tool_calls") or more.get("tool_calls") or [])]
    if isinstance(value.get("function_call"), dict):
        calls.append(as_dict(value["function_call"]))
    if isinstance(value.get("function_call_name"), str):  # OpenInference, of a call that has no id
        calls.append({"name": value["function_call_name"], "arguments": value.get("function_call_arguments_json")})
    keys = {_call_key(part) for part in parts if isinstance(part, dict) and part.get("type") == "tool_call"}
    for call in calls:
        part = call_of(as_dict(call.get("tool_call")) or call)
        if len(calls) == 1 and is_item(part) and isinstance(value.get("tool_call_id"), str):  # LiteLLM, of responses
            part["id"] = value["tool_call_id"]
        key = _call_key(part)
        if key not in keys:
            keys.add(key)
            parts.append(part)
    return parts


def _content_parts(content: object, role: str) -> list[JsonValue]:
    parts = parts_of(embedded_blocks(content))
    if isinstance(content, str) and role in ("user", "system") and any(map(is_of_model, parts)):
        return [text_part(content)]
    return parts


_THOUGHTS_BESIDE = frozenset({"reasoning_content", "reasoning", "thinking", "thinking_blocks", "reasoning_details"})
"""Keys of thoughts beside the words of a message: of DeepSeek, OpenRouter, Ollama, LiteLLM and LangChain."""


def _with_thoughts(value: dict[str, JsonValue], parts: list[JsonValue]) -> list[JsonValue]:
    """Prepend thoughts from beside the content, unless the content has them."""
    if any(isinstance(part, dict) and part.get("type") == "reasoning" for part in parts):
        return parts
    thoughts = (thoughts_in(value[key]) for key in sorted(_THOUGHTS_BESIDE & value.keys()))
    text = next(filter(None, thoughts), None)
    return parts if text is None else [{"type": "reasoning", "content": text}, *parts]


def _results(value: dict[str, JsonValue], content: object) -> list[JsonValue] | None:
    """Return the parts of a tool's message: the results in its content, else the content as one result."""
    blocks = embedded_blocks(content)
    if isinstance(blocks, list):
        parts = parts_of(blocks)
        if any(isinstance(part, dict) and part.get("type") == "tool_call_response" for part in parts):
            return parts
    identity = value.get("tool_call_id") or value.get("id")
    name = value.get("name")
    response = value.get("response", content if "content" in value else UNCAPTURED) if content is None else content
    is_error = True if value.get("status") == "error" else error_flag(value)
    part = response_part(
        identity if isinstance(identity, str) else None,
        response,
        name if isinstance(name, str) else None,
        is_error=is_error,
    )
    return [part]


def _call_key(part: Part) -> str:
    return canonical([part.get("id"), part.get("name"), part.get("arguments")])


def _is_result(part: JsonValue) -> bool:
    return isinstance(part, dict) and part.get("type") == "tool_call_response"


def _blank(content: object) -> list[JsonValue]:
    """Return the text of blank content, also among blocks; nothing for all other content."""
    blocks = content if isinstance(content, list) else [content]
    texts = (
        block.get("content") if isinstance(block, dict) and block.get("type") == "text" else block for block in blocks
    )
    return [text_part("")] if any(text == "" for text in texts) else []


def _finished(message: Message, source: dict[str, JsonValue] | None = None) -> Message:
    parts = as_list(message["parts"])
    if parts and _is_result(parts[0]) and all(map(_is_result, parts)):
        message["role"] = "tool"
    if source is not None:
        if not parts:
            message["parts"] = _blank(source.get("content", source.get("contents", source.get("parts"))))
        for key in ("name", "finish_reason"):
            value = source.get(key)
            if isinstance(value, str) and value:
                message[key] = value
    return message
