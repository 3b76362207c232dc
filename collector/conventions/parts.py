"""The parts of a message in the normal form, read by their shape: every vendor's content blocks."""

import re
from collections.abc import Callable

from collector.conventions import unwrap
from collector.conventions.values import NotJson, as_dict, decode, is_redacted, looks_encoded, opened, text_of
from storage.records import JsonValue

Part = dict[str, JsonValue]

_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,]{0,100};base64,")
_IDS = (
    "toolCallId",
    "tool_call_id",
    "call_id",
    "toolUseId",
    "tool_use_id",
    "tool_id",
    "id",
    "ref",
)  # `id` can be the item's
_NAMES = ("name", "toolName", "tool_name")
_ARGUMENTS = ("arguments", "args", "input", "parameters", "tool_kwargs")
_RESPONSES = ("response", "result", "output", "tool_output", "content")
_WORDS = ("content", "text", "refusal")
_MEDIA_TYPES = ("mime_type", "media_type", "mimeType", "mediaType")
_MAX_WRAPPERS = 6
UNCAPTURED = object()
"""Marker in place of the response of a block that has no member for it."""

ITEM_IDS = ("fc_", "ctc_")
"""Prefixes of item ids of OpenAI's responses; the results of such calls have another id."""


def parts_of(content: object) -> list[JsonValue]:
    """Return the parts of any content: a text, a block, or a list of them."""
    if isinstance(content, str):
        return part_of(content)
    if content is None:
        return []
    return [part for block in (content if isinstance(content, list) else [content]) for part in part_of(block)]


def part_of(block: object, wrappers: int = _MAX_WRAPPERS) -> list[JsonValue]:
    """Return the parts of a content block, unknown ones unchanged; none for an empty string or a redacted text."""
    if isinstance(block, str):
        return [text_part(block)] if block and not is_redacted(block) else []
    if not isinstance(block, dict):
        text = text_of(block)
        return [text_part(text)] if text else []
    kind = block.get("type", block.get("kind", block.get("part_kind")))
    if kind == "text" and type(block.get("content")) is str and "type" in block:
        return [block] if block["content"] and not is_redacted(block["content"]) else []
    reader = _BY_TYPE.get(kind) if isinstance(kind, str) else None
    if reader is None and "toolCallId" in block and isinstance(kind, str):
        return _of_interface(block, kind)
    if reader is not None:
        part = reader(block)
        if reader is _words and _is_wordless(block if part is None else part):
            return []
        return [block if part is None else part]
    wrapped = _of_openinference(block, wrappers)
    return _by_key(block) if wrapped is None else wrapped


def _is_wordless(block: Part) -> bool:
    words = _first(block, _WORDS)
    return words is None or is_redacted(words)


def _of_interface(block: dict[str, JsonValue], kind: str) -> list[JsonValue]:
    """Return a call and its result from one block of a message, as Vercel's AI SDK UI stores it."""
    name = block.get("toolName") or kind.removeprefix("tool-")
    call = call_of({"toolCallId": block["toolCallId"], "name": name, "input": block.get("input")})
    state, output = block.get("state"), block.get("output")
    if state == "output-error":
        return [call, {**response_part(_text(call, ("id",)), block.get("errorText"), str(name), is_error=True)}]
    return [call] if output is None else [call, response_part(_text(call, ("id",)), output, str(name))]


def _of_openinference(block: dict[str, JsonValue], wrappers: int) -> list[JsonValue] | None:
    call, content = block.get("tool_call"), block.get("message_content")
    if isinstance(call, dict):
        return [call_of(call)]
    return part_of(content, wrappers - 1) if isinstance(content, dict) and wrappers else None


def _by_key(block: dict[str, JsonValue]) -> list[JsonValue]:
    """Return the part of a block without a type, by the key that holds it."""
    for key, reader in _BY_KEY:
        if block.get(key) is not None:
            part = reader(block)
            if part is not None:
                return [part]
    return [block]


def call_of(block: dict[str, JsonValue]) -> Part:
    """Return a tool call of any spelling."""
    function = as_dict(block.get("function"))
    inner = {**block, **function} if function else block
    name = _text(inner, _NAMES)
    if name is None and isinstance(block.get("content"), str):  # OpenLIT: the call as a literal
        content = opened(block["content"])
        return call_of(content) if isinstance(content, dict) and content.get("name") else _call(block, None, inner)
    return _call(block, name, inner)


def _call(block: dict[str, JsonValue], name: str | None, inner: dict[str, JsonValue]) -> Part:
    written = _first(inner, _ARGUMENTS)
    if written == {}:  # LangChain puts the input of Anthropic's streams beside it, as the pieces of its JSON
        written = inner.get("partial_json") or written
    arguments = None if is_redacted(written) else unwrap.arguments(written)
    if arguments is None and inner is not block and name is not None and not {"type", *_ARGUMENTS} & block.keys():
        arguments = {}  # a function that is called with nothing: OpenInference leaves `{}` out
    return {"type": "tool_call", "id": _text(block, _IDS), "name": name, "arguments": arguments}


def is_item(part: Part) -> bool:
    """Return True if the id of a call or a result is that of an item of OpenAI's responses."""
    return str(part.get("id")).startswith(ITEM_IDS)


def is_of_model(part: JsonValue) -> bool:
    """Return True for a call or a thought, which only models produce."""
    return isinstance(part, dict) and part.get("type") in ("reasoning", "tool_call")


def may_think(text: str) -> bool:
    """Return whether a model's answer may contain thoughts, so that it is worth parsing."""
    # Two searches, as this runs for each answer: 0.7 µs for 800 characters, and 4 µs for all marks one by one.
    return '"thinking"' in text or ("reasoning" in text and any(mark in text for mark in _MARKS_OF_REASONING))


_MARKS_OF_REASONING = ("reasoning_content", '"summary_text"', '"reasoning":"', '"reasoning": "')


def response_part(
    call_id: str | None, response: object, name: str | None = None, *, is_error: bool | None = None
) -> Part:
    """Return a tool's result, unwrapped, with `response` if it was captured.

    The part has `is_error` if the flag is true, or if the flag is false although the result reads like an error.
    """
    if response is UNCAPTURED or is_redacted(response):
        part: Part = {"type": "tool_call_response", "id": call_id}
        return part | ({"name": name} if name else {}) | ({"is_error": True} if is_error else {})
    result = unwrap.result(response)
    part = {"type": "tool_call_response", "id": call_id or result.call_id, "response": result.value}
    if name:
        part["name"] = name
    flag = result.is_error if is_error is None else is_error
    if flag or (flag is False and unwrap.says_error(result.value)):
        part["is_error"] = flag
    return part


def text_part(text: str) -> Part:
    """Return a text part."""
    return {"type": "text", "content": text}


def _first(block: dict[str, JsonValue], keys: tuple[str, ...]) -> JsonValue:
    for key in keys:
        value = block.get(key)
        if value is not None:
            return value
    return None


def _text(block: dict[str, JsonValue], keys: tuple[str, ...]) -> str | None:
    value = _first(block, keys)
    return value if isinstance(value, str) else text_of(value)


def _words(block: dict[str, JsonValue]) -> Part | None:
    content = _first(block, _WORDS)
    if isinstance(content, dict):  # OpenAI's assistants
        content = content.get("value")
    if block.get("thought") is True:
        return {"type": "reasoning", "content": content}
    return text_part(content) if isinstance(content, str) else None


def _reasoning(block: dict[str, JsonValue]) -> Part:
    return {"type": "reasoning", "content": thoughts_in(block)}


def thoughts_in(value: object, depth: int = _MAX_WRAPPERS) -> str | None:
    """Return the thoughts in a block, a list of pieces or a text, which may be the JSON of these; None if it has none.

    A member without words is skipped for the next one: a summary may be empty although `content` has a text.
    """
    if isinstance(value, str):
        parsed = opened(value) if depth and may_hide_thoughts(value) else value
        is_block = isinstance(parsed, list) or (isinstance(parsed, dict) and parsed.get("type") == "reasoning")
        return thoughts_in(parsed, depth - 1) if is_block else value
    if not depth:
        return None
    if isinstance(value, list):
        texts = [text for item in value if (text := thoughts_in(item, depth - 1)) is not None]
        return "\n".join(texts) if texts or not value else None
    thoughts = None
    for key in _THOUGHTS if isinstance(value, dict) else ():
        text = thoughts_in(as_dict(value).get(key), depth - 1)
        if text:
            return text
        thoughts = text if thoughts is None else thoughts
    return thoughts


def may_hide_thoughts(text: str) -> bool:
    """Return whether thoughts may be a block as a literal (OpenLIT), or a summary as JSON (OpenLLMetry)."""
    return text[:1] in ("{", "[") and any(kind in text for kind in ("reasoning", "summary_text"))


_THOUGHTS = (
    "content",
    "thinking",
    "text",
    "reasoning",
    "reasoningText",
    "reasoning_text",
    "reasoning_content",
    "reasoningContent",
    "summary",
    "details",  # Vercel's AI SDK 4
)


def _result(block: dict[str, JsonValue]) -> Part:
    response = UNCAPTURED if block.keys().isdisjoint(_RESPONSES) else _first(block, _RESPONSES)
    is_error = True if block.get("status") == "error" else unwrap.error_flag(block)
    return response_part(_text(block, _IDS), response, _text(block, _NAMES), is_error=is_error)


def _bedrock_call(block: dict[str, JsonValue]) -> Part:
    return call_of(as_dict(block["toolUse"]))


def _bedrock_result(block: dict[str, JsonValue]) -> Part:
    return _result(as_dict(block["toolResult"]))


def _genkit_call(block: dict[str, JsonValue]) -> Part:
    return call_of(as_dict(block["toolRequest"]))


def _genkit_result(block: dict[str, JsonValue]) -> Part:
    return _result(as_dict(block["toolResponse"]))


def _haystack_result(block: dict[str, JsonValue]) -> Part | None:
    call_result = block["tool_call_result"]
    if not isinstance(call_result, dict):
        return None
    origin = as_dict(call_result.get("origin"))
    flag = call_result.get("error")
    is_error = flag if isinstance(flag, bool) else None
    return response_part(_text(origin, _IDS), call_result.get("result"), _text(origin, _NAMES), is_error=is_error)


def _thoughts(block: dict[str, JsonValue]) -> Part | None:
    text = thoughts_in(block["reasoning"])
    return None if text is None else {"type": "reasoning", "content": text}


def _by_framework(block: dict[str, JsonValue]) -> Part | None:
    is_thought = "thinking" in block.values() or "reasoning" in block.values()
    return _reasoning({key: block.get(key) for key in ("content", "text")}) if is_thought else None


def _gemini_call(block: dict[str, JsonValue]) -> Part | None:
    call = _first(block, ("function_call", "functionCall"))
    return call_of(call) if isinstance(call, dict) else None


def _gemini_result(block: dict[str, JsonValue]) -> Part | None:
    answer = _first(block, ("function_response", "functionResponse"))
    if not isinstance(answer, dict):
        return None
    part = _result(answer)
    return {**part, "response": unwrap.without_adk_wrapping(part["response"])} if "response" in part else part


def _image(block: dict[str, JsonValue]) -> Part | None:
    return _media(block, "image")


def _sound(block: dict[str, JsonValue]) -> Part | None:
    return _media(block, "audio")


def _video(block: dict[str, JsonValue]) -> Part | None:
    return _media(block, "video")


def _document(block: dict[str, JsonValue]) -> Part | None:
    return _media(block, "document")


def _any_media(block: dict[str, JsonValue]) -> Part | None:
    return _media(block, None)


def _media(block: dict[str, JsonValue], modality: str | None) -> Part | None:
    """Return a picture or another medium: by its URL, its bytes, or the name of an uploaded file."""
    if block.get("type") in ("uri", "blob", "file") and not {"uri", "content", "file_id"}.isdisjoint(block):
        return None  # it has the normal form
    holder = block
    for _ in range(_MAX_WRAPPERS):
        inner = next((holder[key] for key in _MEDIA_HOLDERS if isinstance(holder.get(key), dict)), None)
        if not isinstance(inner, dict):
            break
        holder = {**holder, **inner} if inner is not holder else inner
        holder = {key: value for key, value in holder.items() if value is not inner}
    media_type = _text(holder, _MEDIA_TYPES)
    modality = modality or (media_type.partition("/")[0] if media_type else None)
    content = _first(holder, ("url", "uri", "file_uri", "fileUri", "image_url", "image", "data", "bytes", "content"))
    if isinstance(content, str):
        return _located(content, modality, media_type)
    file_id = _text(holder, ("file_id", "fileId"))
    return {"type": "file", "modality": modality, "file_id": file_id} if file_id else None


def _located(content: str, modality: str | None, media_type: str | None) -> Part:
    encoded = _DATA_URI.match(content)
    if encoded:
        content, media_type = content[encoded.end() :], encoded[1] or media_type
    elif "://" in content[:32]:
        return {"type": "uri", "modality": modality, "uri": content}
    return {"type": "blob", "modality": modality, "mime_type": media_type, "content": content}


_MEDIA_HOLDERS = (
    "image_url",
    "image",
    "source",
    "input_audio",
    "file",
    "inline_data",
    "inlineData",
    "file_data",
    "fileData",
)
_Reader = Callable[[dict[str, JsonValue]], Part | None]
_BY_TYPE: dict[str, _Reader] = {
    **dict.fromkeys(("text", "input_text", "output_text", "summary_text", "refusal"), _words),
    **dict.fromkeys(("reasoning", "thinking", "thought", "redacted_thinking", "redacted-reasoning"), _reasoning),
    **dict.fromkeys(("reasoningContent", "reasoning_content", "reasoning_text", "text_reasoning"), _reasoning),
    **dict.fromkeys(
        ("tool_call", "tool-call", "tool_use", "toolCall", "function", "function_call", "custom_tool_call"), call_of
    ),
    **dict.fromkeys(
        (
            "tool_call_response",
            "tool-result",
            "tool_result",
            "toolResult",
            "function_call_output",
            "custom_tool_call_output",
            "tool-return",
        ),
        _result,
    ),
    **dict.fromkeys(("image", "image_url", "image-url", "input_image", "image_file"), _image),
    **dict.fromkeys(("audio", "audio-url", "input_audio"), _sound),
    "video-url": _video,
    **dict.fromkeys(("document", "document-url", "input_file"), _document),
    **dict.fromkeys(("file", "binary", "media", "blob", "uri"), _any_media),
}
_BY_KEY: tuple[tuple[str, _Reader], ...] = (
    ("toolUse", _bedrock_call),
    ("toolResult", _bedrock_result),
    ("function_call", _gemini_call),
    ("functionCall", _gemini_call),
    ("function_response", _gemini_result),
    ("functionResponse", _gemini_result),
    ("toolRequest", _genkit_call),
    ("toolResponse", _genkit_result),
    ("tool_call_result", _haystack_result),
    ("tool_kwargs", call_of),  # LlamaIndex
    ("reasoning", _thoughts),
    ("block_type", _by_framework),
    ("content_type", _by_framework),
    ("inline_data", _any_media),
    ("inlineData", _any_media),
    ("file_data", _any_media),
    ("fileData", _any_media),
    ("image", _image),
    ("reasoningContent", _reasoning),
    ("text", _words),
)
BLOCK_KEYS = frozenset(key for key, _ in _BY_KEY)
BLOCK_TYPES = frozenset(_BY_TYPE)


def is_block(value: object) -> bool:
    """Return True for a content block, by its type or by the key that holds it."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    return (isinstance(kind, str) and kind in BLOCK_TYPES) or not BLOCK_KEYS.isdisjoint(value)


def embedded_blocks(content: object) -> object:
    """Decode content blocks that are JSON text; return any other text as is."""
    if isinstance(content, str) and content[:2] in ("[{", "[ ") and looks_encoded(content):
        try:
            blocks = decode(content)
        except NotJson:
            return content
        if isinstance(blocks, list) and all(is_block(block) for block in blocks):
            return blocks
    return content
