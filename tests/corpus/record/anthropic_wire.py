"""The wire of Anthropic: messages, whole and streamed."""

import json
from collections.abc import Iterator
from typing import Any

from tests.corpus.record.script import CLAUDE_MODEL_DATED, Answer

Json = dict[str, Any]
Event = tuple[str, Json | str]


def question(request: Json) -> tuple[str, int]:
    """Return the last question, and how many times the tools have answered it."""
    text, turn = "", 0
    for entry in request["messages"]:
        content = (
            entry["content"] if isinstance(entry["content"], list) else [{"type": "text", "text": entry["content"]}]
        )
        if any(block["type"] == "tool_result" for block in content):
            turn += 1
        elif entry["role"] == "user":
            text, turn = "".join(block.get("text", "") for block in content), 0
    return text, turn


def message(_: Json, answer: Answer) -> Json:
    """Return a whole answer."""
    return _head(answer) | {"content": _blocks(answer), "stop_reason": _stop(answer), "usage": _usage(answer)}


def message_stream(_: Json, answer: Answer) -> Iterator[Event]:
    """Yield the answer as a stream of events."""
    usage = _usage(answer)
    yield _event("message_start", message=_head(answer) | {"content": [], "usage": usage | {"output_tokens": 1}})
    for index, block in enumerate(_blocks(answer)):
        if block["type"] == "text":
            start: Json = {"type": "text", "text": ""}
            deltas: list[Json] = [
                {"type": "text_delta", "text": block["text"][:5]},
                {"type": "text_delta", "text": block["text"][5:]},
            ]
        elif block["type"] == "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        else:
            start = block | {"input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield _event("content_block_start", index=index, content_block=start)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    stop = {"stop_reason": _stop(answer), "stop_sequence": None}
    yield _event("message_delta", delta=stop, usage={"output_tokens": usage["output_tokens"]})
    yield _event("message_stop")


def _event(kind: str, **fields: object) -> Event:
    return kind, {"type": kind, **fields}


def _head(answer: Answer) -> Json:
    return {
        "id": f"msg_{answer.tokens.input}",
        "type": "message",
        "role": "assistant",
        "model": answer.model or CLAUDE_MODEL_DATED,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _blocks(answer: Answer) -> list[Json]:
    text = answer.text or answer.refusal
    blocks: list[Json] = []
    if answer.reasoning:
        blocks.append({"type": "thinking", "thinking": answer.reasoning, "signature": "c2lnbmVk"})
    if text:
        blocks.append({"type": "text", "text": text})
    return blocks + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in answer.calls
    ]


def _stop(answer: Answer) -> str:
    if answer.refusal:
        return "refusal"
    return "max_tokens" if answer.is_cut else "tool_use" if answer.calls else "end_turn"


def _usage(answer: Answer) -> Json:
    """Return the usage: Anthropic counts cached tokens beside the input, not in it."""
    return {
        "input_tokens": answer.tokens.input - answer.tokens.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.tokens.cached,
        "output_tokens": answer.tokens.output,
    }
