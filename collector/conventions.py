"""Where each instrumentation dialect keeps what we read: the only file that spells attribute names.

`INPUT` and `OUTPUT` are tables: the first place that holds text wins. A dialect is supported by adding
its line; `Shape` says how a place is read.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from storage.records import AttributeValue

Attributes = Mapping[str, AttributeValue]


class Shape(Enum):
    """How the text is taken out of a place."""

    TEXT = auto()
    """The value as text; arrays and maps as JSON."""
    JSON = auto()
    """JSON text, of which a JSON string is shown without its quotes."""
    ASKED = auto()
    """Messages (JSON text or structured): the text of the last one by the user, else everything as it came."""
    ANSWERED = auto()
    """Messages (JSON text or structured): the text of the last one by the model, else everything as it came."""
    ASKED_FLAT = auto()
    """Messages spread over numbered attributes (`key.0.content`): the text of the last one by the user."""
    ANSWERED_FLAT = auto()
    """Messages spread over numbered attributes (`key.0.content`): the text of the last one by the model."""


@dataclass(frozen=True, slots=True)
class Place:
    """One attribute, or one prefix of attributes, that may hold a span's text."""

    key: str
    shape: Shape = Shape.TEXT


PROJECT_KEYS = ("dokimos.project", "dokimos.project.name", "openinference.project.name", "service.name")
"""Resource attributes that name the project, strongest first."""

SERVICE_NAME = "service.name"

EXCEPTION_EVENT = "exception"
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"
EXCEPTION_STACKTRACE = "exception.stacktrace"

INPUT: tuple[Place, ...] = (
    Place("dokimos.input"),
    Place("gen_ai.input.messages", Shape.ASKED),  # OTel GenAI since 1.37
    Place("gen_ai.tool.call.arguments", Shape.JSON),
    Place("gen_ai.retrieval.query.text"),
    Place("llm.input_messages", Shape.ASKED_FLAT),  # OpenInference
    Place("input.value"),
    Place("reranker.query"),
    Place("ai.toolCall.args", Shape.JSON),  # Vercel AI SDK
    Place("ai.prompt.messages", Shape.ASKED),
    Place("ai.prompt", Shape.ASKED),
    Place("ai.value", Shape.JSON),
    Place("traceloop.entity.input", Shape.JSON),  # OpenLLMetry
    Place("gen_ai.prompt", Shape.ASKED_FLAT),
    Place("gen_ai.prompt"),  # OTel GenAI before 1.28, LangSmith
    Place("tool_arguments", Shape.JSON),  # pydantic-ai 2
    Place("pydantic_ai.all_messages", Shape.ASKED),
    Place("all_messages_events", Shape.ASKED),
    Place("request_data", Shape.ASKED),  # Logfire
    Place("mlflow.spanInputs", Shape.JSON),
    Place("langfuse.observation.input"),
    Place("langfuse.trace.input"),
    Place("spring.ai.tool.call.arguments", Shape.JSON),
    Place("gcp.vertex.agent.tool_call_args", Shape.JSON),  # Google ADK 1
    Place("gcp.vertex.agent.llm_request", Shape.ASKED),
    Place("user_prompt"),  # Claude Code
    Place("new_context"),
    Place("tool.input", Shape.JSON),
    Place("genkit:input", Shape.JSON),
    Place("lk.input_text"),  # LiveKit
    Place("lk.user_transcript"),
    Place("lmnr.span.input", Shape.JSON),  # Laminar
    Place("llm.input"),
    Place("input"),
    Place("prompt"),
)
"""Where a span's input text may be, strongest first."""

OUTPUT: tuple[Place, ...] = (
    Place("dokimos.output"),
    Place("gen_ai.output.messages", Shape.ANSWERED),
    Place("gen_ai.tool.call.result", Shape.JSON),
    Place("llm.output_messages", Shape.ANSWERED_FLAT),
    Place("output.value"),
    Place("ai.toolCall.result", Shape.JSON),
    Place("ai.response.text"),
    Place("ai.response.object", Shape.JSON),
    Place("ai.response.toolCalls", Shape.JSON),
    Place("ai.result.text"),
    Place("ai.result.object", Shape.JSON),
    Place("traceloop.entity.output", Shape.JSON),
    Place("gen_ai.completion", Shape.ANSWERED_FLAT),
    Place("gen_ai.completion"),
    Place("tool_response", Shape.JSON),
    Place("final_result", Shape.JSON),
    Place("response_data", Shape.ANSWERED),
    Place("mlflow.spanOutputs", Shape.JSON),
    Place("langfuse.observation.output"),
    Place("langfuse.trace.output"),
    Place("spring.ai.tool.call.result", Shape.JSON),
    Place("gcp.vertex.agent.tool_response", Shape.JSON),
    Place("gcp.vertex.agent.llm_response", Shape.ANSWERED),
    Place("response.model_output"),
    Place("tool.output", Shape.JSON),
    Place("genkit:output", Shape.JSON),
    Place("lk.response.text"),
    Place("lk.function_tool.output"),
    Place("lmnr.span.output", Shape.JSON),
    Place("llm.output"),
    Place("output"),
    Place("completion"),
)
"""Where a span's output text may be, strongest first."""

_USER = frozenset({"user", "human"})
_MODEL = frozenset({"assistant", "model", "ai"})
_NESTED_MESSAGES = ("messages", "contents", "message", "content", "choices")
_FLAT_TEXTS = ("content", "message.content")
_FLAT_ROLES = ("role", "message.role")
_FLAT_PARTS = "message.contents"
_FLAT_PART_TEXT = "message_content.text"
_TEXT_PARTS = ("text", "input_text", "output_text")
_TOOL_ANSWERS = ("tool_call_response", "server_tool_call_response", "tool_result", "tool-result")
_TEXT_FIELDS = ("content", "text")


def input_text(attributes: Attributes) -> str | None:
    """What the span was asked, by the first place of `INPUT` that holds text."""
    return _first_text(INPUT, attributes)


def output_text(attributes: Attributes) -> str | None:
    """What the span answered, by the first place of `OUTPUT` that holds text."""
    return _first_text(OUTPUT, attributes)


def project_of(resource_attributes: Attributes) -> str:
    """The project that a resource belongs to; empty when it names none."""
    return _first_text((Place(key) for key in PROJECT_KEYS), resource_attributes) or ""


def service_of(resource_attributes: Attributes) -> str:
    """The name of the service that a resource describes; empty when it has none."""
    return _first_text((Place(SERVICE_NAME),), resource_attributes) or ""


def _first_text(places: Iterable[Place], attributes: Attributes) -> str | None:
    for place in places:
        text = _READERS[place.shape](attributes, place.key)
        if text and not text.isspace():
            return _encodable(text)
    return None


def _encodable(text: str) -> str:
    """JSON may spell half of a surrogate pair, which no UTF-8 answer can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _text(attributes: Attributes, key: str) -> str | None:
    return _stringified(attributes.get(key))


def _json(attributes: Attributes, key: str) -> str | None:
    value = _parsed(attributes.get(key))
    return value if isinstance(value, str) else _stringified(attributes.get(key))


def _asked(attributes: Attributes, key: str) -> str | None:
    return _of_messages(attributes.get(key), _USER)


def _answered(attributes: Attributes, key: str) -> str | None:
    return _of_messages(attributes.get(key), _MODEL)


def _asked_flat(attributes: Attributes, key: str) -> str | None:
    return _of_flat_messages(attributes, key, _USER)


def _answered_flat(attributes: Attributes, key: str) -> str | None:
    return _of_flat_messages(attributes, key, _MODEL)


_READERS: dict[Shape, Callable[[Attributes, str], str | None]] = {
    Shape.TEXT: _text,
    Shape.JSON: _json,
    Shape.ASKED: _asked,
    Shape.ANSWERED: _answered,
    Shape.ASKED_FLAT: _asked_flat,
    Shape.ANSWERED_FLAT: _answered_flat,
}


def _stringified(value: object) -> str | None:
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case _:
            return json.dumps(value, ensure_ascii=False, default=_stringified)


def _parsed(value: object) -> object:
    """JSON text as its value; anything else, also text cut in the middle, as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in {"[", "{", '"'}:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _of_messages(value: object, roles: frozenset[str]) -> str | None:
    for message in reversed(_messages(_parsed(value))):
        if _has_role(message.get("role"), roles):
            text = _message_text(message)
            if text.strip():
                return text
    return _stringified(value)


def _messages(value: object) -> list[dict[str, object]]:
    """The messages of a list, of one message by itself, or of a request or reply around them."""
    if isinstance(value, list):
        return [item for item in value if isinstance(item, dict)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("prompt"), str):
        return [{"role": "user", "content": value["prompt"]}]
    if "role" in value:
        return [value]
    for key in _NESTED_MESSAGES:
        inner = value.get(key)
        found = _messages(inner) if isinstance(inner, dict | list) else []
        if found:
            return found
    return [value] if "parts" in value or "content" in value else []


def _has_role(role: object, roles: frozenset[str]) -> bool:
    """A message that names no role is taken for the one that was looked for."""
    return role is None or (isinstance(role, str) and role.lower() in roles)


def _message_text(message: dict[str, object]) -> str:
    """The text parts of a message; where a whole trajectory is in one message, those after its last tool result."""
    parts = message.get("parts", message.get("content"))
    if isinstance(parts, str):
        return parts
    everything: list[str] = []
    since_tool: list[str] = []
    for part in parts if isinstance(parts, list) else [parts]:
        if isinstance(part, dict) and part.get("type") in _TOOL_ANSWERS:
            since_tool = []
        text = _part_text(part)
        if text:
            everything.append(text)
            since_tool.append(text)
    return "\n".join(since_tool or everything)


def _part_text(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or part.get("thought") is True:
        return None
    if part.get("type", "text") not in _TEXT_PARTS:
        return None
    texts = (part.get(field) for field in _TEXT_FIELDS)
    return next((text for text in texts if isinstance(text, str)), None)


def _of_flat_messages(attributes: Attributes, key: str, roles: frozenset[str]) -> str | None:
    """OpenInference and older OpenLLMetry: `key.N.message.content`, `key.N.content`."""
    numbers = {name[len(key) + 1 :].partition(".")[0] for name in attributes if name.startswith(f"{key}.")}
    for number in sorted((int(n) for n in numbers if n.isascii() and n.isdigit()), reverse=True):
        prefix = f"{key}.{number}."
        role = next((attributes[prefix + name] for name in _FLAT_ROLES if prefix + name in attributes), None)
        if _has_role(role, roles):
            text = _flat_text(attributes, prefix)
            if text.strip():
                return text
    return None


def _flat_text(attributes: Attributes, prefix: str) -> str:
    for name in _FLAT_TEXTS:
        content = attributes.get(prefix + name)
        if content is not None:
            return _message_text({"content": _parsed(content)}) or _stringified(content) or ""
    parts: list[str] = []
    while (text := attributes.get(f"{prefix}{_FLAT_PARTS}.{len(parts)}.{_FLAT_PART_TEXT}")) is not None:
        parts.append(_stringified(text) or "")
    return "\n".join(parts)
