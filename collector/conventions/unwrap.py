"""Tool arguments and tool results without what frameworks wrap around them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from collector.conventions.values import as_dict, opened, parsed, text_of
from storage.records import JsonValue

_ERROR_TEXT = re.compile(
    r"\s*(?:Traceback \(most recent call last\)"
    r"|(?:[Ee]rror|ERROR|Exception|[\w.]*[a-z.](?:Error|Exception))\s*[:(]"
    r"|(?:[Aa]n |[Tt]ool )?[Ee]rror (?:occurred|while|executing|running|invoking|calling|processing)\b)"
)
_ERROR_TEXT_HEAD = 200  # characters: an error begins with its type
_ERROR_KEYS = frozenset({"error", "message", "code", "status", "type", "details", "success", "ok", "isError", "data"})
_ERROR_STATUSES = frozenset({"error", "failed", "failure"})
_NO_ERRORS = frozenset({"", "none", "null", "no", "no error", "no errors", "ok", "success", "false", "n/a", "-"})
_TEXT_BLOCK = frozenset({"type", "block_type", "text", "annotations", "id", "meta", "_meta"})
_FUNCTION_RESPONSE = frozenset({"id", "name", "response", "will_continue", "scheduling", "parts"})
_MAX_LAYERS = 4  # a serialised message with MCP content blocks with JSON text: two were seen


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a tool."""

    value: JsonValue
    call_id: str | None = None  # if the wrapping names it
    is_error: bool | None = None  # None: only the text of the result may show it


def arguments(value: object) -> JsonValue:
    """Return the arguments of a tool call."""
    if isinstance(value, str) and value.startswith(_HEADED):  # Claude Code: a line above them
        value = value.partition("\n")[2]
    inner = parsed(value)
    if not isinstance(inner, dict):
        return inner
    if inner.keys() == {"kwargs"} and isinstance(inner["kwargs"], dict):
        return inner["kwargs"]
    if "kwargs" in inner and "args" in inner:
        return _bound(inner)
    if "input_str" in inner and "inputs" in inner:  # LangChain by OpenLLMetry
        inputs = inner["inputs"]
        return inputs if isinstance(inputs, dict) and inputs else parsed(inner["input_str"])
    return inner


def lone_text(text: str) -> str | None:
    """Return what to show as the input of a function, from its `args` and `kwargs`; None for any other text.

    If a text is the only argument, return it unwrapped.
    """
    if not text.startswith(BOUND_TEXTS):
        return None
    call = parsed(text)
    if not isinstance(call, dict) or not call.keys() <= _BOUND:
        return None
    positional, named = call.get("args") or [], call.get("kwargs") or {}
    if not isinstance(positional, list) or not isinstance(named, dict):
        return None
    every = [*positional, *named.values()]
    if len(every) == 1 and isinstance(every[0], str):
        return every[0]
    bound = _bound(call)
    return None if bound == call else text_of(bound)


_BOUND = frozenset({"args", "kwargs"})
BOUND_TEXTS = ('{"args"', '{"kwargs"', "{'args'", "{'kwargs'")


def _bound(call: dict[str, JsonValue]) -> JsonValue:
    """Return arguments as Python bound them: the named ones, or the only map, if there are no others; else all."""
    positional, named = call.get("args", []), call.get("kwargs", {})
    if not positional and isinstance(named, dict):
        return named
    if not named and isinstance(positional, list) and len(positional) == 1 and isinstance(positional[0], dict):
        return positional[0]
    return {"args": positional, "kwargs": named}


_HEADED = "[TOOL INPUT"


def result(value: object) -> ToolResult:
    """Return the result of a tool, unwrapped from serialised messages, content blocks and typed values."""
    if isinstance(value, str) and value.startswith(WRITTEN):
        written = _written(value)
        if written is not None:
            more = result(written.value)
            is_error = more.is_error if written.is_error is None else written.is_error
            return ToolResult(more.value, written.call_id or more.call_id, is_error)
    inner, call_id, is_error = parsed(value), None, None
    for _ in range(_MAX_LAYERS):
        layer = _layer(inner)
        if layer is None:
            break
        inner = opened(layer.value)
        call_id = call_id or layer.call_id
        is_error = layer.is_error if is_error is None else is_error
    return ToolResult(inner, call_id, is_error)


WRITTEN = "content="
"""Beginning of the Python repr of a LangChain message."""

_FIELD = re.compile(
    r"""\s*(\w+)=('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|\[[^\[\]]*+\]|\{[^{}]*+\}|[^\s'"\[{]++)""", re.DOTALL
)


def _written(text: str) -> ToolResult | None:
    """Parse the Python repr of a LangChain message: `content='…' name='…' tool_call_id='…'`."""
    fields: dict[str, JsonValue] = {}
    at = 0
    while (match := _FIELD.match(text, at)) is not None:
        fields[match[1]] = parsed(match[2])
        at = match.end()
    call_id = fields.get("tool_call_id")
    if at < len(text.rstrip()) or not isinstance(call_id, str):
        return None
    return ToolResult(fields.get("content"), call_id, status_flag(fields))


def status_flag(fields: Mapping[str, JsonValue]) -> bool | None:
    """Return True for an error `status`; None for the default that LangChain fills in."""
    return True if fields.get("status") == "error" else None


def error_flag(fields: Mapping[str, JsonValue]) -> bool | None:
    """Return the value of `isError` or `is_error`; None if both are missing."""
    flags = [flag for key in ("isError", "is_error") if isinstance(flag := fields.get(key), bool)]
    return any(flags) if flags else None


def is_failure(value: object, *, is_error: object) -> bool:
    """Return True if a result is a failure: by its flag, else by its words."""
    return is_error if isinstance(is_error, bool) else says_error(value)


def says_error(value: object) -> bool:
    """Return True if a result is a failure: a serialised error, or a text that begins like one."""
    if isinstance(value, str):
        return bool(_ERROR_TEXT.match(value[:_ERROR_TEXT_HEAD]))
    if not isinstance(value, dict):
        return False
    flag = error_flag(value)
    if flag is not None or value.get("success") is True:
        return flag is True
    if str(value.get("status")).lower() in _ERROR_STATUSES:
        return True
    error = value.get("error")
    if error is True and isinstance(value.get("message"), str):  # Mastra
        return True
    has_error = (
        error.strip().lower() not in _NO_ERRORS if isinstance(error, str) else isinstance(error, dict) and bool(error)
    )
    return has_error and value.keys() <= _ERROR_KEYS


def without_adk_wrapping(value: JsonValue) -> JsonValue:
    """Unwrap a value that is not a map, which ADK and the Gemini client put under `result`."""
    if isinstance(value, dict) and value.keys() == {"result"} and not isinstance(value["result"], dict):
        return value["result"]
    return value


def _layer(value: JsonValue) -> ToolResult | None:
    if isinstance(value, list):
        return _blocks(value)
    if not isinstance(value, dict):
        return None
    framework = _layer_of_framework(value)
    if framework is not None:
        return framework
    if "toolResult" in value:  # Bedrock
        return _layer_of_bedrock(as_dict(value["toolResult"]))
    if value.get("lc") and isinstance(value.get("kwargs"), dict):
        return _tool_message(as_dict(value["kwargs"]))
    if value.get("type") in ("tool", "ToolMessage"):
        data = value.get("data")
        return _tool_message(data if isinstance(data, dict) else value)
    if "output" in value and value.keys() <= {"output", "kwargs", "tags"} and _layer(value["output"]):
        return ToolResult(value["output"])
    if isinstance(value.get("type"), str) and "value" in value:  # Vercel
        is_error = _VERCEL.get(str(value["type"]))
        return None if is_error is None else ToolResult(value["value"], None, is_error)
    if "content" in value and value.keys() <= {"content", "isError", "_meta", "meta", "structuredContent"}:  # MCP
        blocks = _blocks(value["content"])
        return ToolResult(blocks.value, None, error_flag(value)) if blocks else None
    return None


def _layer_of_framework(value: dict[str, JsonValue]) -> ToolResult | None:
    if "blocks" in value and "tool_name" in value:  # LlamaIndex
        blocks = _blocks(value["blocks"])
        output = value.get("raw_output") if blocks is None else blocks.value
        return ToolResult(output, None, error_flag(value))
    if "response" in value and "name" in value and value.keys() <= _FUNCTION_RESPONSE:  # ADK
        call_id = value.get("id")
        return ToolResult(without_adk_wrapping(value["response"]), call_id if isinstance(call_id, str) else None)
    return None


def _tool_message(fields: dict[str, JsonValue]) -> ToolResult | None:
    if "content" not in fields or "tool_call_id" not in fields:
        return None
    call_id = fields["tool_call_id"]
    return ToolResult(fields["content"], call_id if isinstance(call_id, str) else None, status_flag(fields))


def _layer_of_bedrock(fields: dict[str, JsonValue]) -> ToolResult:
    call_id = fields.get("toolUseId")
    return ToolResult(fields.get("content"), call_id if isinstance(call_id, str) else None, status_flag(fields))


def _blocks(value: object) -> ToolResult | None:
    """Join a list of text blocks; return None for a list with anything else."""
    if not isinstance(value, list) or not value:
        return None
    only = value[0]
    if len(value) == 1 and isinstance(only, dict) and only.keys() == {"json"}:  # Bedrock
        return ToolResult(only["json"])
    texts: list[str] = []
    for block in value:
        if not isinstance(block, dict) or not block.keys() <= _TEXT_BLOCK or block.get("type", "text") != "text":
            return None
        text = block.get("text")
        if not isinstance(text, str):
            return None
        texts.append(text)
    return ToolResult("\n".join(texts))


_VERCEL = {"json": False, "text": False, "content": False, "error-text": True, "error-json": True}
"""The types of a result, and whether it is an error."""
