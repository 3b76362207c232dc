"""The messages of one span: from attributes, from its events, from log records, or pieced together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from collector.conventions import items_as_text
from collector.conventions.agent_logs import messages_in
from collector.conventions.call_ids import (
    calls_of_items,
    have_items,
    with_calls_for_items,
    with_ids_of_calls,
    with_ids_of_results,
    without_made_up,
    without_marked,
)
from collector.conventions.finish import read_finish_reason
from collector.conventions.items_as_text import with_blocks, with_items, with_last_blocks
from collector.conventions.messages import (
    find_messages,
    message_of,
    messages_of,
    split_trajectory,
    with_system,
)
from collector.conventions.parts import may_think, parts_of, text_part
from collector.conventions.pieces import (
    calls_of_stream,
    have_content,
    have_words_or_more,
    lacks_something,
    parts_by_type,
    pieces_of_stream,
    tells_more,
    with_ids,
    with_reply,
)
from collector.conventions.python_repr import written_map
from collector.conventions.slot_values import Candidate, SlotValues
from collector.conventions.table import Slot
from collector.conventions.values import NotJson, as_dict, as_list, clean, decode, looks_encoded, opened, text_of
from storage.records import JsonValue, LogRecord, Message, SpanType

EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
_CHOICE, _USER = "gen_ai.choice", "gen_ai.user.message"
_OPENLIT = "openlit"
_EVENT_CONTENT = "gen_ai.event.content"  # a whole message as JSON: Azure, Semantic Kernel for .NET


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedMessages:
    """Messages and their source."""

    messages: list[Message] | None
    source: str = ""
    is_trajectory: bool = False


_NOTHING = SourcedMessages(messages=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """The input and the output of a model or an agent."""

    prompt: SourcedMessages
    answered: SourcedMessages


NO_DIALOGUE = Dialogue(prompt=_NOTHING, answered=_NOTHING)


def dialogue(slot_values: SlotValues, logs: Sequence[LogRecord], kind: SpanType) -> Dialogue:
    """Return the messages of a span, each side from its strongest source."""
    prompt = _from_rows(slot_values, "input_messages", "user")
    whole = _opened_whole(prompt) if slot_values.candidates("whole_input") else prompt
    calls_are_left_out, prompt = whole is not prompt, whole  # Traceloop's JavaScript omits a response's calls
    answered = _from_rows(slot_values, "output_messages", "assistant")
    if not _says(answered) and (slot_values.tells("answer_text") or slot_values.tells("answer_calls")):
        answered = _stronger(answered, _pieced_together(slot_values))
    if not (_says(prompt) and _says(answered)) and slot_values.tells("trajectory"):
        other = _from_trajectory(slot_values)
        prompt, answered = _stronger(prompt, other.prompt), _stronger(answered, other.answered)
    if logs and not _says(answered):
        logged = messages_in(logs)
        answered = (
            answered if logged is None else _stronger(answered, SourcedMessages(messages=logged[0], source=logged[1]))
        )
    if (slot_values.span.events or logs) and not (_says(prompt) and _says(answered)):
        other = _from_events(slot_values, logs)
        prompt, answered = _stronger(prompt, other.prompt), _stronger(answered, other.answered)
    prompt, answered = _completed(slot_values, prompt, answered)
    if not _says(prompt):
        prompt = _stronger(prompt, _from_raw(slot_values, "input", "user", kind))
    if not _says(answered):
        answered = _with_reply(slot_values, _stronger(answered, _from_raw(slot_values, "output", "assistant", kind)))
    answered = _with_further_calls(slot_values, answered)
    if answered.messages and not _says(answered) and (calls_are_left_out or _ended_in_calls(slot_values, answered)):
        answered = replace(answered, messages=[{**message, "parts": []} for message in answered.messages])
    system = _system(slot_values) if slot_values.tells("system") else None
    if system:
        source = prompt.source or slot_values.sources.get("system", "")
        prompt = SourcedMessages(
            messages=with_system(system, prompt.messages), source=source, is_trajectory=prompt.is_trajectory
        )
    return Dialogue(prompt=prompt, answered=answered)


def _ended_in_calls(slot_values: SlotValues, answered: SourcedMessages) -> bool:
    return read_finish_reason(slot_values, answered.messages) == "tool_call"


def _completed(
    slot_values: SlotValues, prompt: SourcedMessages, answered: SourcedMessages
) -> tuple[SourcedMessages, SourcedMessages]:
    """Complete messages with content and ids that libraries record in other attributes, or encode in texts."""
    if slot_values.tells_any(items_as_text.SLOTS):
        change = with_items if slot_values.tells("texts_of_items") else with_blocks
        has_ended = change is with_blocks and read_finish_reason(slot_values, answered.messages) == "stop"
        prompt, answered = _changed(prompt, change), _changed(answered, with_last_blocks if has_ended else change)
    if slot_values.candidates("raw_dialogue"):
        prompt = _fuller(slot_values, prompt, "input", "user")
        answered = _fuller(slot_values, answered, "output", "assistant")
        prompt, answered = _without_items(slot_values, prompt, "input"), _without_items(slot_values, answered, "output")
        answered = _with_reply(slot_values, answered)
    if slot_values.dialect is not None and slot_values.dialect.name == _OPENLIT:
        prompt, answered = _with_ids(prompt), _with_call_ids(slot_values, answered)
    if slot_values.candidates("made_up_ids"):
        prompt, answered = _changed(prompt, without_made_up), _changed(answered, without_made_up)
    if slot_values.candidates("marked_ids"):
        answered = _changed(answered, without_marked)
    if slot_values.candidates("result_ids"):
        prompt = _changed(prompt, with_ids_of_results)
    return prompt, answered


def _with_further_calls(slot_values: SlotValues, answered: SourcedMessages) -> SourcedMessages:
    """Add the calls that an answer's messages lack: automatic ones, and those in other attributes."""
    if answered.messages and slot_values.tells("automatic_calls"):
        answered = replace(answered, messages=[*_automatic_calls(slot_values), *answered.messages])
    if answered.messages and slot_values.tells("calls_beside"):
        answered = replace(answered, messages=_with_calls_beside(slot_values, answered.messages))
    return answered


def _with_calls_beside(slot_values: SlotValues, messages: list[Message]) -> list[Message]:
    """Return an answer with its calls: LiteLLM leaves them out of messages that have words, MLflow out of streams."""
    if any(True for message in messages for _ in parts_by_type(message, "tool_call")):
        return messages
    calls: list[JsonValue] = []
    for _, place, _, _ in slot_values.candidates("calls_beside"):
        items = slot_values.group(place.key) if place.is_group else ()
        calls += [call for one in items if (call := as_dict(one).get("function_call"))]
    calls += calls_of_stream(pieces_of_stream(slot_values.span.events, _HAS_CALLS))
    if not calls:
        return messages
    parts = as_list(message_of({"role": "assistant", "tool_calls": calls}, "assistant")["parts"])
    return [*messages[:-1], {**messages[-1], "parts": [*as_list(messages[-1]["parts"]), *parts]}]


_HAS_CALLS = '"tool_calls": ['


def _automatic_calls(slot_values: SlotValues) -> list[Message]:
    """Return the calls that Google's client made before the answer, with their results if the response has them."""
    for _, place, _, _ in slot_values.candidates("automatic_calls"):
        calls = slot_values.group(place.key)
        for _, _, value, source in slot_values.candidates("output"):
            response = slot_values.opened(value, source) if isinstance(value, str) else value
            history = find_messages(as_dict(response).get(_HISTORY), "user")
            if history:
                return split_trajectory(history)[1]
        return [message_of({"role": "assistant", "tool_calls": calls}, "assistant")] if calls else []
    return []


_HISTORY = "automatic_function_calling_history"


def _opened_whole(outer: SourcedMessages) -> SourcedMessages:
    """Return the messages in the JSON text of an only message, as Traceloop's JavaScript sends OpenAI's responses."""
    parts = [part for message in outer.messages or () for part in as_list(message["parts"])]
    text = as_dict(parts[0]).get("content") if len(parts) == 1 else None
    inner = opened(text) if isinstance(text, str) and text[:2] == "[{" else None
    inside = find_messages(inner, "user") if isinstance(inner, list) else None
    return outer if inside is None else SourcedMessages(messages=inside, source=outer.source)


def _fuller(slot_values: SlotValues, sourced: SourcedMessages, slot: Slot, role: str) -> SourcedMessages:
    """Return the messages of the raw request or response if these contain all messages of the attributes, and more."""
    may_be_first = slot_values.kind != "llm"  # LangChain's chains record only the first message
    if not sourced.messages or not (may_be_first or lacks_something(sourced.messages)):
        return sourced
    for _, place, value, source in slot_values.candidates(slot):
        if place.path or place.is_group or not isinstance(value, str) or not looks_encoded(value):
            continue
        if may_be_first and value.count('"content"') <= len(sourced.messages):
            continue
        raw = _cached_messages(slot_values, value, slot_values.opened(value, source), role)
        if raw is not None and tells_more(raw, sourced.messages):
            return SourcedMessages(messages=raw, source=source)
    return sourced


def _with_ids(sourced: SourcedMessages) -> SourcedMessages:
    return _changed(sourced, with_ids)


def _with_call_ids(slot_values: SlotValues, sourced: SourcedMessages) -> SourcedMessages:
    ids = [one for _, _, value, _ in slot_values.candidates("call_ids") for one in (text_of(value) or "").split(", ")]
    return _changed(sourced, lambda messages: with_ids_of_calls(messages, ids))


def _without_items(slot_values: SlotValues, sourced: SourcedMessages, slot: Slot) -> SourcedMessages:
    """Replace item ids in messages by the call ids that the raw request or response has next to them (Agno)."""
    if sourced.messages is None or not have_items(sourced.messages):
        return sourced
    raw = (
        slot_values.opened(value, source)
        for _, place, value, source in slot_values.candidates(slot)
        if isinstance(value, str) and not place.path and not place.is_group and looks_encoded(value)
    )
    calls = dict(pair for value in raw for pair in calls_of_items(value))
    return _changed(sourced, lambda messages: with_calls_for_items(messages, calls))


def _with_reply(slot_values: SlotValues, sourced: SourcedMessages) -> SourcedMessages:
    """Add the thoughts and the text that only the model's own reply has."""
    messages = sourced.messages
    is_whole = messages is None or len(messages) != 1 or any(parts_by_type(messages[0], "reasoning"))
    for _, place, value, source in () if is_whole else slot_values.candidates("reply"):
        if isinstance(value, str) and not (place.path and f'"{place.path[0]}"' in value) and not may_think(value):
            continue
        reply: object = slot_values.member(place, value, source) if place.path else value
        if isinstance(reply, str):
            reply = slot_values.opened(reply, source) if looks_encoded(reply) else written_map(reply)
        changed = with_reply(messages or [], find_messages(reply, "assistant") or ())
        if changed != messages:
            return replace(sourced, messages=changed)
    return sourced


def _changed(sourced: SourcedMessages, change: Callable[[list[Message]], list[Message]]) -> SourcedMessages:
    return sourced if sourced.messages is None else replace(sourced, messages=change(sourced.messages))


def _says(sourced: SourcedMessages) -> bool:
    return sourced.messages is not None and have_words_or_more(sourced.messages)


def _stronger(sourced: SourcedMessages, other: SourcedMessages) -> SourcedMessages:
    return max(sourced, other, key=_strength)


def _strength(sourced: SourcedMessages) -> int:
    if sourced.messages is None:
        return 0
    return 3 if _says(sourced) else 2 if have_content(sourced.messages) else 1


def _from_rows(slot_values: SlotValues, slot: Slot, role: str) -> SourcedMessages:
    candidates = slot_values.candidates(slot)
    empty = _NOTHING
    for number, (_, place, value, source) in enumerate(candidates):
        if place.is_group:
            messages = find_messages([_unnested(item, role) for item in slot_values.group(place.key)], role)
        else:
            messages = _read(slot_values, value, source, role)
        if place.event:
            messages = [*(messages or []), *_more(slot_values, candidates[number + 1 :], source, role)] or None
        if messages is not None:
            sourced = SourcedMessages(messages=messages, source=source)
            if _says(sourced):
                return sourced
            empty = _stronger(empty, sourced)
    return empty


def _more(slot_values: SlotValues, others: list[Candidate], source: str, role: str) -> list[Message]:
    """Return the messages of further events of the same name: some libraries send one for each message."""
    further: list[Message] = []
    for _, _, value, other in others:
        if other == source:
            further += [message for message in _read(slot_values, value, other, role) or () if message not in further]
    return further


def _read(slot_values: SlotValues, value: object, source: str, role: str) -> list[Message] | None:
    if isinstance(value, str):
        if not value or value.isspace():
            return [{"role": role, "parts": [text_part(value)]}]
        slot_values.note_redacted(source, value)
        decoded = slot_values.opened(value, source)
        if isinstance(decoded, str) and decoded.lstrip()[:1] in ("{", "["):
            return None  # broken JSON: the raw text is shown
        return _remembered(slot_values, ("rows", role, value), lambda: messages_of(decoded, role))
    return messages_of(value, role)


def _unnested(item: JsonValue, role: str) -> JsonValue:
    """Return a numbered message, which OpenInference puts below `message`; a missing role is the expected one."""
    fields = as_dict(item)
    inner = fields.get("message")
    results = fields.get("function")
    if isinstance(results, list) and results:  # AutoGen
        return {"role": "tool", "content": [{**as_dict(opened(one)), "type": "tool_result"} for one in results]}
    message = inner if isinstance(inner, dict) else fields
    if not message:
        return None
    return message if isinstance(message.get("role"), str) else {**message, "role": role}


def _pieced_together(slot_values: SlotValues) -> SourcedMessages:
    """Join an answer whose text, thoughts and calls are separate attributes."""
    parts: list[JsonValue] = []
    sources: list[str] = []
    blanks: list[tuple[str, str]] = []
    thoughts = next((text_of(value) for value, _ in _pieces(slot_values, "answer_reasoning")), None)
    if thoughts:
        parts.append({"type": "reasoning", "content": thoughts})
    for value, source in _pieces(slot_values, "answer_text"):
        text = text_of(value)
        if text and not text.isspace():
            parts.append(text_part(text))
            sources.append(source)
            break
        if text is not None:
            blanks.append((text, source))
    for value, source in _pieces(slot_values, "answer_calls"):
        calls = slot_values.opened(value, source) if isinstance(value, str) else value
        maps = [call for call in (calls if isinstance(calls, list) else [calls]) if isinstance(call, dict)]
        if maps:
            parts += as_list(message_of({"tool_calls": list[JsonValue](maps)}, "assistant")["parts"])
            sources.append(source)
            break
    if not sources and blanks:
        parts.append(text_part(blanks[0][0]))
        sources.append(blanks[0][1])
    if not sources:
        return _NOTHING
    return SourcedMessages(messages=[{"role": "assistant", "parts": parts}], source=sources[0])


def _pieces(slot_values: SlotValues, slot: Slot) -> Iterator[tuple[object, str]]:
    for _, place, value, source in slot_values.candidates(slot):
        yield (slot_values.member(place, value, source) if place.path else value), source


def _from_trajectory(slot_values: SlotValues) -> Dialogue:
    for _, _, value, source in slot_values.candidates("trajectory"):
        decoded = slot_values.opened(value, source) if isinstance(value, str) else value
        if not isinstance(decoded, list):
            continue
        events = [as_dict(item) for item in decoded]
        if any(event.get("event.name") == _CHOICE for event in events):
            answers = [event for event in events if event.get("event.name") == _CHOICE]
            questions = [event for event in events if event.get("event.name") != _CHOICE]
            prompt = find_messages(list[JsonValue](questions), "user")
            answered = find_messages(list[JsonValue](answers), "assistant")
        else:
            prompt, answered = split_trajectory(find_messages(decoded, "user") or [])
        if prompt or answered:
            return Dialogue(
                prompt=SourcedMessages(messages=prompt or None, source=source, is_trajectory=True),
                answered=SourcedMessages(messages=answered or None, source=source, is_trajectory=True),
            )
    return NO_DIALOGUE


def _from_events(slot_values: SlotValues, logs: Sequence[LogRecord]) -> Dialogue:
    """Return the messages of OpenTelemetry's older events, one each, on the span or in log records."""
    prompt: list[Message] = []
    answered: list[Message] = []
    prompt_source = answered_source = ""
    for name, fields, origin in _message_events(slot_values, logs):
        message = _event_message(name, fields)
        if message is None:
            continue
        if name == _USER:
            _take_back(message, prompt)
        if name == _CHOICE:
            answered.append(message)
            answered_source = f"{origin} {name}"
        else:
            prompt.append(message)
            if message["role"] == "user" or not prompt_source:
                prompt_source = f"{origin} {name}"
    return Dialogue(
        prompt=SourcedMessages(messages=prompt or None, source=prompt_source),
        answered=SourcedMessages(messages=answered or None, source=answered_source),
    )


def _take_back(message: Message, before: list[Message]) -> None:
    """Drop the tool messages at the end of `before` whose results `message` repeats.

    Botocore sends each result in a tool message, and then all results in a user message; only the latter marks
    failures.
    """
    ids = {part["id"] for part in parts_by_type(message, "tool_call_response") if part.get("id") is not None}
    while ids and before and before[-1]["role"] == "tool":
        results = [as_dict(part) for part in as_list(before[-1]["parts"])]
        if not all(part.get("id") in ids for part in results):
            break
        before.pop()


def _message_events(
    slot_values: SlotValues, logs: Sequence[LogRecord]
) -> Iterator[tuple[str, Mapping[str, object], str]]:
    for event in slot_values.span.events:
        if event.name in EVENT_ROLES:
            yield event.name, event.attributes, "event"
    for log in sorted(logs, key=lambda log: log.time_ns):
        if log.event_name in EVENT_ROLES:
            body = log.body
            if isinstance(body, dict):
                yield log.event_name, body, "log"
            elif body is not None:
                yield log.event_name, {_EVENT_CONTENT: body}, "log"
            else:
                yield log.event_name, log.attributes, "log"


def _event_message(name: str, fields: Mapping[str, object]) -> Message | None:
    role = EVENT_ROLES[name]
    whole = fields.get(_EVENT_CONTENT)
    if isinstance(whole, str) and looks_encoded(whole):
        try:
            decoded = decode(whole)
        except NotJson:
            decoded = whole
        fields = decoded if isinstance(decoded, dict) else {"content": decoded}
    elif whole is not None:
        fields = {"content": whole}
    message = fields.get("message")
    if isinstance(message, str):  # Strands
        fields = {"content": message}
    elif isinstance(message, dict):
        fields = message
    body = as_dict(clean(fields))
    if not {"content", "tool_calls", "parts", "function_call", "contents"} & body.keys():
        return None
    return message_of(body if isinstance(body.get("role"), str) else {**body, "role": role}, role)


def _from_raw(slot_values: SlotValues, slot: Slot, role: str, kind: SpanType) -> SourcedMessages:
    """Return the messages within the vendor's request or response; a model's plain text is a message itself.

    The input and output of a chain may be any JSON: there, only a map with a role is a message.
    """
    is_model, blank = kind == "llm", _NOTHING
    own_role = role if is_model or kind in ("agent", "embedding") else ""
    for _, place, value, source in slot_values.candidates(slot):
        if place.is_group and not place.path:
            continue
        item: object = slot_values.member(place, value, source) if place.path else value
        text = item if isinstance(item, str) else None
        if text is not None and looks_encoded(text):
            item = slot_values.opened(text, source)
        if isinstance(item, list | dict):
            messages = (
                find_messages(item, own_role) if text is None else _cached_messages(slot_values, text, item, own_role)
            )
        elif isinstance(item, str) and is_model and not item.strip():
            blank = _stronger(blank, SourcedMessages(messages=_read(slot_values, item, source, role), source=source))
            continue
        elif isinstance(item, str) and is_model and item.lstrip()[0] not in "[{":
            messages = messages_of(item, role)
        else:
            messages = None
        if messages is not None:
            return SourcedMessages(messages=messages, source=source)
    return blank


def _cached_messages(slot_values: SlotValues, text: str, item: JsonValue, role: str) -> list[Message] | None:
    return _remembered(slot_values, ("raw", role, text), lambda: find_messages(item, role))


def _remembered(
    slot_values: SlotValues, key: tuple[str, str, str], find: Callable[[], list[Message] | None]
) -> list[Message] | None:
    known = slot_values.memo.messages
    if key not in known:
        known[key] = find()
    return known[key]


def _system(slot_values: SlotValues) -> list[JsonValue]:
    parts: list[JsonValue] = []
    for _, place, value, source in slot_values.candidates("system"):
        decoded = slot_values.opened(value, source) if isinstance(value, str) and not place.path else value
        if place.path:
            decoded = slot_values.member(place, value, source)
        if isinstance(decoded, dict) and "parts" in decoded:
            decoded = decoded["parts"]
        parts += [part for part in parts_of(decoded) if part not in parts]
        if parts and not place.event:
            break
    if parts:
        slot_values.sources["system"] = slot_values.candidates("system")[0][3]
    return parts
