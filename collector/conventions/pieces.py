"""Messages in the normal form: pieces are joined, and ids, calls and thoughts recorded elsewhere are added."""

from collections.abc import Iterable, Iterator, Sequence

from collector.conventions.parts import Part, part_of, response_part, text_part
from collector.conventions.values import as_dict, as_list, opened
from storage.records import JsonValue, Message, SpanEvent


def in_parts(blocks: list[JsonValue], role: str, call_id: JsonValue = None) -> Message:
    """Return a message whose content is a list of blocks; the texts of a tool's message become its result.

    LiteLLM records the id of a result (`call_id`) on the message, and not in its parts.
    """
    parts: list[JsonValue] = [part for block in blocks for part in part_of(block)]
    if role == "tool" and parts and all(isinstance(part, dict) and part.get("type") == "text" for part in parts):
        text = "\n".join(str(as_dict(part).get("content") or "") for part in parts)
        return {"role": role, "parts": [response_part(call_id if isinstance(call_id, str) else None, text)]}
    if role == "tool":
        results = _texts_of_results(blocks)
        parts = [part for part in parts if not (results and _has_text_of(part, results))]
    return {"role": role, "parts": parts}


def _texts_of_results(blocks: list[JsonValue]) -> set[str]:
    results = [as_dict(block) for block in blocks if as_dict(block).get("type") == "tool_call_response"]
    values = [text for result in results for text in as_list(result.get("response", result.get("result")))]
    return {text for one in values for text in (one, as_dict(one).get("text")) if isinstance(text, str)}


def _has_text_of(part: JsonValue, texts: set[str]) -> bool:
    words = part.get("content") if isinstance(part, dict) and part.get("type") == "text" else None
    return isinstance(words, str) and words in texts


def once(parts: list[JsonValue]) -> list[JsonValue]:
    """Return parts without repeated calls: those with the same name and id or, without an id, the same arguments."""
    kept: list[JsonValue] = []
    calls: set[tuple[str, str]] = set()
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "tool_call":
            identity = part.get("id")
            call = repr(part.get("name")), repr(part.get("arguments") if identity is None else identity)
            if call in calls:
                continue
            calls.add(call)
        kept.append(part)
    return kept


class Joined:
    """Messages added one by one: those of one answer are merged."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._grown: list[JsonValue] | None = None  # parts of the last message, once it was merged
        self._has_call: bool | None = None  # the last message has a call; None: not computed

    def add(self, message: Message, *, is_open: bool, are_items: bool) -> None:
        """Add a message, or append it to the previous one if that is open, or if both are pieces of one answer."""
        if is_open and self.messages and is_text_alone(self.messages[-1]) and is_text_alone(message):
            self.add_whole(continued(self.messages.pop(), message))
        elif self.messages and self._is_one_answer(message, are_items=are_items):
            self._grow(as_list(message["parts"]))
        else:
            self.add_whole(message)

    def add_whole(self, *messages: Message) -> None:
        """Add messages that are not pieces of others."""
        self.messages += messages
        self._grown = self._has_call = None

    def _is_one_answer(self, message: Message, *, are_items: bool) -> bool:
        """Return whether a message continues the last one: a model makes no new calls before it has the results."""
        if message["role"] != "assistant" or self.messages[-1]["role"] != "assistant":
            return False
        if self._has_call is None:
            self._has_call = _has_call(self.messages[-1])
        if not (are_items or self._has_call):
            return False
        has_call = _has_call(message)
        is_one = are_items or has_call
        self._has_call = self._has_call or has_call
        return is_one

    def _grow(self, parts: list[JsonValue]) -> None:
        """Add parts in place: to copy those before them each time would cost the square of their number."""
        if self._grown is None:
            last = self.messages[-1]
            self._grown = _without_needless_blanks([*as_list(last["parts"]), *parts])
            self.messages[-1] = {**last, "parts": self._grown}
            return
        more = [part for part in parts if not _is_empty(part)]
        if not self._grown or (more and _is_empty(self._grown[0])):  # so far it had at most an empty text
            self._grown[:] = more or parts[:1]
        else:
            self._grown += more


def _has_call(message: Message) -> bool:
    return next(parts_by_type(message, "tool_call"), None) is not None


def is_text_alone(message: Message) -> bool:
    """Return True for a message of a model that is only text."""
    parts = as_list(message["parts"])
    return message["role"] == "assistant" and all(
        isinstance(part, dict) and part.get("type") == "text" for part in parts
    )


def continued(before: Message, message: Message) -> Message:
    """Merge two pieces of a streamed message; other fields come from the later one, such as ADK's finish reason.

    A last piece with the whole text replaces the others.
    """
    before_text, more = (
        "".join(str(as_dict(part).get("content") or "") for part in as_list(one["parts"])) for one in (before, message)
    )
    return {**message, "parts": [text_part(more if more == before_text else before_text + more)]}


_PIECES, _PIECE = "mlflow.chunk.item.", "mlflow.chunk.value"


def pieces_of_stream(events: Iterable[SpanEvent], holding: str) -> Iterator[JsonValue]:
    """Yield the chunks that contain `holding` from a stream of chat completions, which MLflow records as events."""
    for event in events:
        piece = event.attributes.get(_PIECE) if event.name.startswith(_PIECES) else None
        if isinstance(piece, str) and holding in piece:
            yield opened(piece)


def calls_of_stream(pieces: Iterable[JsonValue]) -> list[JsonValue]:
    """Join tool calls from chunks: a call's first chunk has its id and name, and each has a piece of its arguments."""
    calls: dict[str, dict[str, JsonValue]] = {}
    for piece in pieces:
        for choice in as_list(as_dict(piece).get("choices")):
            for delta in as_list(as_dict(as_dict(choice).get("delta")).get("tool_calls")):
                more = as_dict(delta)
                function = as_dict(more.get("function"))
                call = calls.setdefault(str(more.get("index")), {"arguments": ""})
                call |= {key: value for key, value in (("id", more.get("id")), ("name", function.get("name"))) if value}
                call["arguments"] = f"{call['arguments']}{function.get('arguments') or ''}"
    return list(calls.values())


def with_ids(messages: list[Message]) -> list[Message]:
    """Give results without id and name the ids of the calls before them, in order, unless there are more results."""
    calls: list[JsonValue] = []
    changed = list(messages)
    for at, message in enumerate(messages):
        call_ids = [as_dict(part).get("id") for part in parts_by_type(message, "tool_call")]
        if call_ids:
            calls = list(call_ids)
        elif message["role"] == "tool" and calls:
            results = list(parts_by_type(message, "tool_call_response"))
            if all(result.get("id") is None and result.get("name") is None for result in results) and len(
                results
            ) <= len(calls):
                parts = [{**result, "id": calls.pop(0)} for result in results]
                changed[at] = {**message, "parts": list[JsonValue](parts)}
    return changed


def with_reply(messages: list[Message], reply: Sequence[Message]) -> list[Message]:
    """Add the thoughts of the model's own reply to an answer of one message.

    If the answer has no text, add the reply's text, too. A text that is a thought in the reply is replaced by that.
    """
    sent = [message for message in reply if message["role"] == "assistant"]
    if len(sent) != 1:
        return messages
    parts = as_list(messages[0]["parts"])
    thoughts = [part for part in parts_by_type(sent[0], "reasoning") if part.get("content")]
    texts = [part["content"] for part in thoughts]
    kept = [part for part in parts if not (texts and as_dict(part).get("content") in texts)]
    words = [part for part in parts_by_type(sent[0], "text") if not is_blank_text(part)]
    if any(as_dict(part).get("type") == "text" and not is_blank_text(part) for part in kept):
        words = []
    return [{**messages[0], "parts": [*thoughts, *words, *kept]}] if thoughts or words else messages


def lacks_something(messages: Sequence[Message]) -> bool:
    """Return True if messages lack content, or calls and results lack an id."""
    for message in messages:
        if not message["parts"]:
            return True
        for part in as_list(message["parts"]):
            if isinstance(part, dict) and part.get("id") is None and part.get("type") in _JOINED:
                return True
    return False


def tells_more(raw: Sequence[Message], messages: Sequence[Message]) -> bool:
    """Return True if `raw` has the calls and at least as many parts and ids as `messages`, and more parts or ids.

    If `messages` have no calls, `raw` may have any.
    """
    theirs, ours = _outline(raw), _outline(messages)
    return (
        (theirs[0] == ours[0] or not ours[0])
        and theirs[1] >= ours[1]
        and theirs[2] >= ours[2]
        and theirs[1:] != ours[1:]
    )


def _outline(messages: Sequence[Message]) -> tuple[list[JsonValue], int, int]:
    parts = [part for message in messages for part in as_list(message["parts"]) if isinstance(part, dict)]
    calls = [part.get("name") for part in parts if part.get("type") == "tool_call"]
    joined = [part for part in parts if part.get("type") in _JOINED and part.get("id") is not None]
    return calls, len(parts), len(joined)


_JOINED = ("tool_call", "tool_call_response")


def words_of(message: Message) -> str:
    """Return the text of a message: the text after its last tool result if there is any, else all of its text."""
    parts = as_list(message["parts"])
    if len(parts) == 1:
        only = parts[0]
        words = only.get("content") if isinstance(only, dict) and only.get("type") == "text" else None
        return words if isinstance(words, str) else ""
    everything: list[str] = []
    since_tool: list[str] = []
    for part in parts:
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        content = part.get("content")
        if kind == "text" and isinstance(content, str):
            everything.append(content)
            since_tool.append(content)
        elif kind == "tool_call_response":
            since_tool = []
    return "\n".join(since_tool or everything)


def have_words_or_more(messages: Sequence[Message]) -> bool:
    """Return True if a message has anything but blank text."""
    for message in messages:  # loops, here and below: generators take twice as long
        for part in as_list(message["parts"]):
            if not is_blank_text(part):
                return True
    return False


def is_blank_text(part: JsonValue) -> bool:
    """Return whether a part is a text that was recorded and is blank."""
    if not isinstance(part, dict) or part.get("type") != "text":
        return False
    content = part.get("content")
    return isinstance(content, str) and (not content or content.isspace())


def _without_needless_blanks(parts: list[JsonValue]) -> list[JsonValue]:
    return [part for part in parts if not _is_empty(part)] or parts[:1]


def _is_empty(part: JsonValue) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and part.get("content") == ""


def have_content(messages: Sequence[Message]) -> bool:
    """Return whether any part has more than kind, id and name, which some libraries send with capture off too."""
    for message in messages:
        for part in as_list(message["parts"]):
            if not isinstance(part, dict) or _says_more(part):
                return True
    return False


def _says_more(part: Part) -> bool:
    return "response" in part or any(value is not None for key, value in part.items() if key not in _LABELS)


_LABELS = frozenset({"type", "kind", "id", "name", "modality", "mime_type", "media_type", "is_error", "finish_reason"})
"""Members of parts that are not content."""


def parts_by_type(message: Message, kind: str) -> Iterator[Part]:
    """Yield the parts of a message of one type."""
    for part in as_list(message["parts"]):
        if isinstance(part, dict) and part.get("type") == kind:
            yield part
