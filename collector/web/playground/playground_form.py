"""The form of the playground: filled from a span, parsed as sent, and converted to a request."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from collector.api.rules.playing import PlaygroundBody
from collector.conventions.parameters import request_parameters
from collector.live.judges.playground import MOST_ANSWERS
from collector.web.playground.pictures import filled, named
from collector.web.spans.conversation import parts_of
from collector.web.visitor import Form
from evaluators.chat.dialogue import ROLES
from storage.records import JsonValue, Message, OfferedTool, Span, SpanReading

MOST_SHOWN: Final = 40
"""Maximum number of messages with an input field, the last ones; `earlier` holds the others. A guess: the number of
form fields is limited."""

_NUMBERS: Final = ("temperature", "topP", "maxOutputTokens")
_MOST_DIGITS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageField:
    """A message of the form: a text, or its parts as JSON."""

    role: str
    text: str
    is_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaygroundForm:
    """Values of the form. `texts` are fields of one line, and the tools."""

    messages: Sequence[MessageField]
    earlier: str = ""  # the messages before those, as a JSON list
    texts: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""  # TRACE/SPAN
    tenant: str = ""
    media_left_out: int = 0  # pictures and files of the span that are not sent

    def text(self, name: str) -> str:
        """Return the value of a field, or ""."""
        return self.texts.get(name, "")


def blank_form(connection: str) -> PlaygroundForm:
    """Return an empty form."""
    messages = [MessageField(role="system", text=""), MessageField(role="user", text="")]
    return PlaygroundForm(messages=messages, texts={"connection.0": connection})


def form_of_span(span: Span, reading: SpanReading, connection: str, tenant: str) -> PlaygroundForm:
    """Fill a form with the request that a span recorded."""
    shown, media_left_out = named(reading.input_messages or ())
    messages = [_field(message) for message in shown]
    if not messages:
        messages = [MessageField(role="user", text=reading.input or "")]
    parameters = request_parameters(span.attributes)
    texts = {
        "tools": tools_text(reading.tool_definitions or ()),
        "temperature": _text(parameters.temperature),
        "topP": _text(parameters.top_p),
        "maxOutputTokens": _text(parameters.max_output_tokens),
        "reasoningEffort": parameters.reasoning_effort or "",
        "project": span.project,
        "connection.0": connection,
    }
    earlier = [_message(each) for each in messages[:-MOST_SHOWN]]
    return PlaygroundForm(
        messages=messages[-MOST_SHOWN:],
        earlier=_json(earlier) if earlier else "",
        texts=texts,
        origin=f"{span.trace_id}/{span.span_id}",
        tenant=tenant,
        media_left_out=media_left_out,
    )


def sent_form(form: Form) -> PlaygroundForm:
    """Parse the form as it was sent."""
    numbers = sorted({int(at) for name in form.fields if (at := _place(name)) is not None and len(at) <= _MOST_DIGITS})
    messages = [
        MessageField(
            role=form.text(f"role.{at}"),
            text=form.text(f"parts.{at}") if form.checked(f"parts.{at}") else form.text(f"text.{at}"),
            is_json=form.checked(f"parts.{at}"),
        )
        for at in numbers
    ]
    names = ["tools", "reasoningEffort", "project", *_NUMBERS]
    names += [f"{name}.{at}" for name in ("connection", "model") for at in range(MOST_ANSWERS)]
    return PlaygroundForm(
        messages=messages[:MOST_SHOWN],
        earlier=form.text("earlier"),
        texts={name: form.text(name).strip() for name in names},
        origin=form.text("from"),
        tenant=form.text("tenant"),
        media_left_out=_count(form.text("mediaLeftOut")),
    )


def body_of(form: PlaygroundForm, recorded: Sequence[Message]) -> tuple[PlaygroundBody | None, dict[str, str]]:
    """Return the request that the form describes, or None and the problems by field.

    `recorded` are the messages of the span that filled the form; its picture references are resolved against them.
    """
    problems: dict[str, str] = {}
    messages, places = _messages(form, problems)
    messages = _with_pictures(messages, places, recorded, problems)
    document: dict[str, Any] = {"messages": messages, "tools": _list(form.text("tools"), "tools", problems)}
    for name in _NUMBERS:
        if form.text(name):
            document[name] = form.text(name)
    for name in ("reasoningEffort", "project"):
        if form.text(name):
            document[name] = form.text(name)
    chosen = [at for at in range(MOST_ANSWERS) if form.text(f"connection.{at}")]
    document["answers"] = [
        {"connectionId": form.text(f"connection.{at}"), "model": form.text(f"model.{at}") or None} for at in chosen
    ]
    for at in set(range(MOST_ANSWERS)) - set(chosen):
        if form.text(f"model.{at}"):
            problems[f"connection.{at}"] = "Choose a connection for that model."
    trace_id, _, span_id = form.origin.partition("/")
    if span_id:
        document["origin"] = {"traceId": trace_id, "spanId": span_id}
    if problems:
        return None, problems
    try:
        return PlaygroundBody.model_validate(document), {}
    except ValidationError as error:
        return None, _problems_by_field(error, places, chosen)


def tools_text(tools: Sequence[OfferedTool]) -> str:
    """Format tools for the form."""
    documents = [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]
    return _json(documents) if documents else ""


def _messages(form: PlaygroundForm, problems: dict[str, str]) -> tuple[list[JsonValue], list[str]]:
    """Return the messages, and the form field of each; empty fields are skipped."""
    messages = list(_list(form.earlier, "earlier", problems))
    places = ["earlier"] * len(messages)
    for at, each in enumerate(form.messages):
        name = f"message-{at}"
        if not each.text.strip():
            continue
        if each.is_json:
            parts = _list(each.text, name, problems)
            messages.append({"role": each.role, "parts": parts})
        else:
            messages.append({"role": each.role, "parts": [{"type": "text", "content": each.text}]})
        places.append(name)
    return messages, places


def _with_pictures(
    messages: Sequence[JsonValue], places: Sequence[str], recorded: Sequence[Message], problems: dict[str, str]
) -> list[JsonValue]:
    """Replace picture references in the messages by the pictures."""
    whole: list[JsonValue] = []
    for message, name in zip(messages, places, strict=True):
        parts = message.get("parts") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(parts, list):
            whole.append(message)
            continue
        sent = [filled(part, recorded) if isinstance(part, dict) else part for part in parts]
        if None in sent:
            problems[name] = "This refers to an image that no longer exists or is not an image: remove it."
        whole.append({**message, "parts": [dict(part) if isinstance(part, Mapping) else part for part in sent]})
    return whole


def _list(text: str, name: str, problems: dict[str, str]) -> list[JsonValue]:
    """Parse a JSON list; an empty text is an empty list."""
    if not text.strip():
        return []
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        problems[name] = f"This is not JSON: {error}"
        return []
    if not isinstance(parsed, list) or not all(isinstance(each, dict) for each in parsed):
        problems[name] = "This must be a list of objects: [{…}, …]"
        return []
    return parsed


def _problems_by_field(error: ValidationError, places: Sequence[str], chosen: Sequence[int]) -> dict[str, str]:
    """Sort validation errors by form field."""
    problems: dict[str, str] = {}
    for each in error.errors():
        where, message = each["loc"], str(each["msg"]).removeprefix("Value error, ")
        match where:
            case ("messages", *_) if message.partition(".")[0].isdecimal():
                at, _, message = message.partition(".")
                name = places[int(at)]
            case ("messages", *_):
                name = ""
                message = "The conversation needs a message." if each["type"] == "too_short" else message
            case ("answers", int(at), "model", *_):
                name = f"model.{chosen[at]}"
            case ("answers", *_):
                name = "connection.0"
                message = "Choose a connection." if each["type"] == "too_short" else message
            case (str(first), *_):
                name = first
            case _:
                name = ""
        problems.setdefault(name, message)
    return problems


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _field(message: Message) -> MessageField:
    role = str(message.get("role") or "user")
    role = role if role in ROLES else "system" if role == "developer" else "user"
    parts = parts_of(message)
    if parts and all(part.get("type") == "text" for part in parts):
        return MessageField(role=role, text="\n\n".join(str(part.get("content") or "") for part in parts))
    return MessageField(role=role, text=_json(parts), is_json=True)


def _message(each: MessageField) -> dict[str, JsonValue]:
    parts: JsonValue = json.loads(each.text) if each.is_json else [{"type": "text", "content": each.text}]
    return {"role": each.role, "parts": parts}


def _place(name: str) -> str | None:
    kind, _, at = name.partition(".")
    return at if kind == "role" and at.isdecimal() else None


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.12g}"
