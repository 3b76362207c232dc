"""The protocols of the model server: requests into one form, and answers for Google's and Bedrock's."""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.corpus.record.openai_wire import text_of
from tests.corpus.record.script import Answer
from tests.programs.world import Entry, Request

Json = dict[str, Any]


def chat(body: Json) -> Request:
    """Read a request of OpenAI's chat completions."""
    entries = []
    for message in body["messages"]:
        role = "system" if message["role"] == "developer" else message["role"]
        calls = [call["id"] for call in message.get("tool_calls") or []]
        results = {message["tool_call_id"]: text_of(message.get("content"))} if role == "tool" else {}
        text = "" if role == "tool" else text_of(message.get("content"))
        entries.append(Entry(role=role, text=text, calls=calls, results=results))
    tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    return Request(model=body["model"], entries=entries, tools=tools, id_prefix="call")


def responses(body: Json, earlier: Mapping[str, list[Json]]) -> Request:
    """Read a request of OpenAI's responses; of those earlier by id, it may continue one."""
    entries = [Entry(role="system", text=body["instructions"])] if body.get("instructions") else []
    turn: list[Json] = []  # of the model: reasoning, a message and calls are one answer
    items = [*earlier.get(body.get("previous_response_id") or "", []), *response_items(body)]
    for item in [*items, {"type": "end"}]:
        is_models = item.get("role") == "assistant" or item.get("type") in ("function_call", "reasoning")
        if is_models:
            turn.append(item)
            continue
        if turn:
            calls = [part["call_id"] for part in turn if part.get("type") == "function_call"]
            text = "".join(text_of(part.get("content")) for part in turn)
            entries.append(Entry(role="assistant", text=text, calls=calls))
            turn = []
        if item.get("type") == "function_call_output":
            entries.append(Entry(role="tool", results={item["call_id"]: text_of(item["output"])}))
        elif "role" in item:
            role = "system" if item["role"] == "developer" else item["role"]
            entries.append(Entry(role=role, text=text_of(item.get("content"))))
    tools = [tool["name"] for tool in body.get("tools") or [] if "name" in tool]
    return Request(model=body["model"], entries=entries, tools=tools, id_prefix="call")


def response_items(body: Json) -> list[Json]:
    """Return the items of a request of OpenAI's responses."""
    items = body["input"]
    return [{"role": "user", "content": items}] if isinstance(items, str) else items


def anthropic(body: Json) -> Request:
    """Read a request of Anthropic's messages."""
    entries = [Entry(role="system", text=text_of(body["system"]))] if body.get("system") else []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        results = {
            block["tool_use_id"]: text_of(block.get("content")) for block in blocks if block["type"] == "tool_result"
        }
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        entries.append(Entry(role=message["role"], text=text, calls=calls, results=results))
    tools = [tool["name"] for tool in body.get("tools") or []]
    return Request(model=body["model"], entries=entries, tools=tools, id_prefix="toolu")


def google(body: Json, model: str) -> Request:
    """Read a request of Google's generateContent."""
    system = body.get("systemInstruction") or {}
    entries = [Entry(role="system", text=text_of(system["parts"]))] if system else []
    for content in body["contents"]:
        parts = content["parts"]
        role = "assistant" if content.get("role") == "model" else "user"
        calls = [part["functionCall"].get("id") or "" for part in parts if "functionCall" in part]
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        results = {response.get("id") or "": response.get("response") for response in responses}
        text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
        entries.append(Entry(role=role, text=text, calls=calls, results=results))
    declared = [tool.get("functionDeclarations") or [] for tool in body.get("tools") or []]
    return Request(
        model=model, entries=entries, tools=[one["name"] for some in declared for one in some], id_prefix="fn"
    )


def google_answer(number: int, answer: Answer) -> Json:
    """Return a whole answer of Google's; its stream is one chunk of the same."""
    parts: list[Json] = [{"text": answer.reasoning, "thought": True}] if answer.reasoning else []
    if answer.text or answer.refusal:
        parts.append({"text": answer.text or answer.refusal})
    parts += [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}, "thoughtSignature": "c2ln"}
        for call in answer.calls
    ]
    finish = "MAX_TOKENS" if answer.is_cut else "SAFETY" if answer.refusal else "STOP"
    tokens = answer.tokens
    usage = {
        "promptTokenCount": tokens.input,
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "totalTokenCount": tokens.input + tokens.output,
        "cachedContentTokenCount": tokens.cached,
    }
    if tokens.reasoning:
        usage["thoughtsTokenCount"] = tokens.reasoning
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": finish, "index": 0}
    head = {"modelVersion": answer.model, "responseId": f"gresp-{number}"}
    return head | {"candidates": [candidate], "usageMetadata": usage}


def bedrock(body: Json, model: str) -> Request:
    """Read a request of Bedrock's converse."""
    system = [Entry(role="system", text=text_of(body["system"]))] if body.get("system") else []
    entries = []
    for message in body["messages"]:
        blocks = message["content"]
        calls = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
        tool_results = [block["toolResult"] for block in blocks if "toolResult" in block]
        results = {result["toolUseId"]: text_of(result["content"]) for result in tool_results}
        text = "".join(block.get("text", "") for block in blocks)
        entries.append(Entry(role=message["role"], text=text, calls=calls, results=results))
    tools = [tool["toolSpec"]["name"] for tool in (body.get("toolConfig") or {}).get("tools", []) if "toolSpec" in tool]
    return Request(model=model, entries=[*system, *entries], tools=tools, id_prefix="tooluse")


def bedrock_answer(answer: Answer) -> Json:
    """Return a whole answer of Bedrock's converse."""
    content: list[Json] = []
    if answer.reasoning:
        content.append({"reasoningContent": {"reasoningText": {"text": answer.reasoning, "signature": "c2ln"}}})
    if answer.text or answer.refusal:
        content.append({"text": answer.text or answer.refusal})
    content += [
        {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}} for call in answer.calls
    ]
    stop = "max_tokens" if answer.is_cut else "tool_use" if answer.calls else "end_turn"
    tokens = answer.tokens
    usage = {
        "inputTokens": tokens.input - tokens.cached,
        "outputTokens": tokens.output,
        "totalTokens": tokens.input + tokens.output,
        "cacheReadInputTokens": tokens.cached,
    }
    message = {"role": "assistant", "content": content}
    return {"output": {"message": message}, "stopReason": stop, "usage": usage, "metrics": {"latencyMs": 1}}


def bedrock_events(answer: Answer) -> Iterator[tuple[str, Json]]:
    """Yield the events of Bedrock's converse_stream: texts in two pieces, the input of a tool in two as well."""
    whole = bedrock_answer(answer)
    yield "messageStart", {"role": "assistant"}
    deltas: list[Json]
    for index, block in enumerate(whole["output"]["message"]["content"]):
        at: Json = {"contentBlockIndex": index}
        if call := block.get("toolUse"):
            start = {name: call[name] for name in ("toolUseId", "name")}
            yield "contentBlockStart", {"start": {"toolUse": start}} | at
            deltas = [{"toolUse": {"input": piece}} for piece in _halves(json.dumps(call["input"]))]
        elif thought := block.get("reasoningContent"):
            text = thought["reasoningText"]
            deltas = [{"reasoningContent": {"text": piece}} for piece in _halves(text["text"])]
            deltas.append({"reasoningContent": {"signature": text["signature"]}})
        else:
            deltas = [{"text": piece} for piece in _halves(block["text"])]
        for delta in deltas:
            yield "contentBlockDelta", {"delta": delta} | at
        yield "contentBlockStop", at
    yield "messageStop", {"stopReason": whole["stopReason"]}
    yield "metadata", {name: whole[name] for name in ("usage", "metrics")}


def event_stream(events: Iterable[tuple[str, Json]]) -> bytes:
    """Encode events as AWS does: lengths, headers and a payload, with a checksum after the lengths and at the end."""
    frames = []
    for name, payload in events:
        headers = {":message-type": "event", ":event-type": name, ":content-type": "application/json"}
        head = b"".join(
            struct.pack(">B", len(key)) + key.encode() + struct.pack(">BH", _IS_TEXT, len(value)) + value.encode()
            for key, value in headers.items()
        )
        body = json.dumps(payload).encode()
        prelude = struct.pack(">II", len(head) + len(body) + 16, len(head))
        frame = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + body
        frames.append(frame + struct.pack(">I", zlib.crc32(frame)))
    return b"".join(frames)


_IS_TEXT = 7  # the type of a header's value


def _halves(text: str) -> tuple[str, str]:
    middle = len(text) // 2
    return text[:middle], text[middle:]
