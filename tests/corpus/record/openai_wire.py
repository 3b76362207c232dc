"""The wire of OpenAI: chat completions, responses and embeddings, whole and streamed."""

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

from tests.corpus.record.script import CHAT_MODEL_DATED, EMBEDDING_TOKENS, VECTOR, Answer, Tokens

Json = dict[str, Any]
Event = tuple[str, Json | str]
CREATED = 1_700_000_000


def text_of(content: object) -> str:
    """Return the text of a message's content, which is text or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part.get("text", "") for part in parts if isinstance(part, dict))


def chat_question(request: Json) -> tuple[str, int]:
    """Return the last question of a chat, and how many times the model has answered it with tool calls."""
    question, turn = "", 0
    for message in request["messages"]:
        if message["role"] == "user":
            question, turn = text_of(message["content"]), 0
        elif message.get("tool_calls"):
            turn += 1
    return question, turn


def responses_question(request: Json) -> tuple[str, int]:
    """Return the last question of a request to the responses API, and how many times the tools have answered."""
    items = request["input"]
    if isinstance(items, str):
        return items, 0
    question, turn = "", 0
    for item in items:
        if item.get("role") == "user":
            question, turn = text_of(item["content"]), 0
        elif item.get("type") == "function_call_output":
            turn = 1
    return question, turn


def chat(_: Json, answer: Answer) -> Json:
    """Return a whole chat completion."""
    message: Json = {"role": "assistant", "content": answer.text or None, "refusal": answer.refusal or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = _chat_calls(answer)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return _chat_head("chat.completion", answer) | {"choices": [choice], "usage": _chat_usage(answer.tokens)}


def chat_stream(request: Json, answer: Answer) -> Iterator[Event]:
    """Yield the completion as a stream of chunks."""
    head = _chat_head("chat.completion.chunk", answer)

    def chunk(delta: Json, finish: str | None = None) -> Event:
        return "", head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": "" if answer.text else None})
    if answer.reasoning:
        yield chunk({"reasoning_content": answer.reasoning})
    if answer.refusal:
        yield chunk({"refusal": answer.refusal})
    for word in _pieces(answer.text):
        yield chunk({"content": word})
    for index, call in enumerate(_chat_calls(answer)):
        arguments = call["function"]["arguments"]
        start = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": start}]})
        for piece in (arguments[:6], arguments[6:]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _finish(answer))
    if request.get("stream_options", {}).get("include_usage"):
        yield "", head | {"choices": [], "usage": _chat_usage(answer.tokens)}
    yield "", "[DONE]"


def response(request: Json, answer: Answer) -> Json:
    """Return a whole answer of the responses API."""
    tokens = answer.tokens
    return _response_head(request, answer) | {
        "status": "incomplete" if answer.is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if answer.is_cut else None,
        "output": _output_items(answer),
        "usage": {
            "input_tokens": tokens.input,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": tokens.input + tokens.output,
        },
    }


def response_stream(request: Json, answer: Answer) -> Iterator[Event]:
    """Yield the answer as a stream of events."""
    for number, event in enumerate(_response_events(request, answer)):
        yield event["type"], event | {"sequence_number": number}


def embeddings(request: Json) -> Json:
    """Return the same vector for each text."""
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    packed = base64.b64encode(struct.pack("<3f", *VECTOR)).decode()
    vector = packed if request.get("encoding_format") == "base64" else list(VECTOR)
    data = [{"object": "embedding", "index": index, "embedding": vector} for index in range(len(texts))]
    usage = {"prompt_tokens": EMBEDDING_TOKENS, "total_tokens": EMBEDDING_TOKENS}
    return {"object": "list", "data": data, "model": request["model"], "usage": usage}


def _chat_head(kind: str, answer: Answer) -> Json:
    return {
        "id": f"chatcmpl-{_number(answer)}",
        "object": kind,
        "created": CREATED,
        "model": answer.model or CHAT_MODEL_DATED,
        "service_tier": "default",
        "system_fingerprint": "fp_corpus",
    }


def _chat_calls(answer: Answer) -> list[Json]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in answer.calls
    ]


def _finish(answer: Answer) -> str:
    return "length" if answer.is_cut else "tool_calls" if answer.calls else "stop"


def _chat_usage(tokens: Tokens) -> Json:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning, "audio_tokens": 0},
    }


def _number(answer: Answer) -> int:
    # Unique for each answer: instrumentations take equal ids for one answer.
    return answer.tokens.input * 1000 + answer.tokens.output


def _pieces(text: str) -> list[str]:
    return [word + " " for word in text.split(" ")[:-1]] + text.split(" ")[-1:] if text else []


def _response_head(request: Json, answer: Answer) -> Json:
    return {
        "id": f"resp_{_number(answer)}",
        "object": "response",
        "created_at": CREATED,
        "model": answer.model or CHAT_MODEL_DATED,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "max_output_tokens": None,
        "metadata": {},
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": request.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
    }


def _output_items(answer: Answer) -> list[Json]:
    items: list[Json] = []
    if answer.reasoning:
        summary = {"type": "summary_text", "text": answer.reasoning}
        items.append({"type": "reasoning", "id": f"rs_{_number(answer)}", "summary": [summary]})
    if answer.text or answer.refusal:
        part: Json = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        if answer.refusal:
            part = {"type": "refusal", "refusal": answer.refusal}
        message = {"type": "message", "id": f"msg_{_number(answer)}", "role": "assistant", "status": "completed"}
        items.append(message | {"content": [part]})
    return items + [
        {
            "type": "function_call",
            "id": f"fc_{call.id}",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
        for call in answer.calls
    ]


def _response_events(request: Json, answer: Answer) -> Iterator[Json]:
    yield {"type": "response.created", "response": _response_head(request, answer)}
    for index, item in enumerate(_output_items(answer)):
        where = {"output_index": index, "item_id": item["id"]}
        match item["type"]:
            case "message":
                yield {"type": "response.output_item.added", "output_index": index, "item": item | {"content": []}}
                yield from _part_events(where | {"content_index": 0}, item["content"][0])
            case "reasoning":
                yield {"type": "response.output_item.added", "output_index": index, "item": item | {"summary": []}}
                at, part = where | {"summary_index": 0}, item["summary"][0]
                yield at | {"type": "response.reasoning_summary_part.added", "part": part | {"text": ""}}
                yield at | {"type": "response.reasoning_summary_text.delta", "delta": part["text"]}
                yield at | {"type": "response.reasoning_summary_text.done", "text": part["text"]}
                yield at | {"type": "response.reasoning_summary_part.done", "part": part}
            case _:
                yield {"type": "response.output_item.added", "output_index": index, "item": item | {"arguments": ""}}
                yield where | {"type": "response.function_call_arguments.delta", "delta": item["arguments"]}
                done = {"name": item["name"], "arguments": item["arguments"]}
                yield where | {"type": "response.function_call_arguments.done"} | done
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    end = "incomplete" if answer.is_cut else "completed"
    yield {"type": f"response.{end}", "response": response(request, answer)}


def _part_events(at: Json, part: Json) -> Iterator[Json]:
    kind = "refusal" if part["type"] == "refusal" else "text"
    text = part[kind]
    name = "response.refusal" if kind == "refusal" else "response.output_text"
    more: Json = {} if kind == "refusal" else {"logprobs": []}
    yield at | {"type": "response.content_part.added", "part": part | {kind: ""}}
    for piece in _pieces(text):
        yield at | {"type": f"{name}.delta", "delta": piece} | more
    yield at | {"type": f"{name}.done", kind: text} | more
    yield at | {"type": "response.content_part.done", "part": part}
