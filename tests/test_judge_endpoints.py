"""Endpoints of judges that answer with text and no verdict, in the shapes of providers and gateways."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from evaluators.chat.client import ChatModel, Unanswered
from evaluators.chat.connection import ModelConnection
from evaluators.chat.judge import ChatJudge
from evaluators.chat.wire import Protocol
from evaluators.judging import PromptMessage, UnusableAnswer
from storage.records import JsonValue
from tests.model_server import ModelServer, Sends, a_model

WANTED: dict[str, JsonValue] = {"score": {"type": "number"}}
VERDICT = '{"score": 0.9}'


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """A server for all tests of this module, each of which sets its script."""
    with a_model(VERDICT) as started:
        yield started


def judge(server: ModelServer, protocol: Protocol = "CHAT_COMPLETIONS", **settings: Any) -> str:
    """Ask a judge once; return "verdict", or the kind of its failure."""
    connection = ModelConnection(base_url=server.base_url, model="m", protocol=protocol, attempts=1, **settings)

    async def run() -> str:
        async with ChatModel(connection) as model:
            try:
                await ChatJudge(model)([PromptMessage(role="user", content="Judge.")], WANTED)
            except (Unanswered, UnusableAnswer) as failure:
                return str(failure.kind)
        return "verdict"

    server.asked.clear()
    return asyncio.run(run())


def judged(server: ModelServer, document: object, protocol: Protocol = "CHAT_COMPLETIONS") -> str:
    """Judge with an endpoint that answers each request with this document and status 200."""
    server.script = lambda _: Sends(json.dumps(document).encode())
    return judge(server, protocol)


def item(**message: object) -> dict[str, Any]:
    """Return an item of Responses with the verdict."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": VERDICT}], **message}


REFUSAL = {"type": "refusal", "refusal": "no"}


@pytest.mark.parametrize(
    "choice,message,outcome",
    [
        ({}, {}, "verdict"),
        ({"finish_reason": None, "native_finish_reason": "STOP"}, {}, "verdict"),
        ({"finish_reason": "FINISH_REASON_STOP"}, {"tool_calls": [], "function_call": None}, "verdict"),
        ({"native_finish_reason": "MAX_TOKENS"}, {}, "truncated"),
        ({"native_finish_reason": "SAFETY"}, {}, "declined"),
        ({"finish_reason": "a word of tomorrow"}, {}, "truncated"),
        ({"finish_details": {"type": "max_tokens"}}, {}, "truncated"),
        ({"content_filter_results": {"hate": {"filtered": True}}}, {}, "declined"),
        ({"content_filter_results": {"hate": {"filtered": False}}}, {}, "verdict"),
        ({}, {"function_call": {"name": "f", "arguments": "{}"}}, "truncated"),
        ({}, {"tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "f"}}]}, "truncated"),
        ({}, {"content": [REFUSAL, {"type": "text", "text": VERDICT}]}, "declined"),
        ({}, {"content": [{"type": "text", "text": VERDICT}]}, "verdict"),
        ({}, {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": VERDICT}]}]}, "bad_reply"),
        ({}, {"refusal": "no"}, "declined"),
        ({}, {"role": "user"}, "bad_reply"),
    ],
)
def test_a_chat_completion_is_a_verdict_only_if_all_of_it_says_so(
    server: ModelServer, choice: Mapping[str, object], message: Mapping[str, object], outcome: str
) -> None:
    """Each member that tells why a reply ended, or that it refuses or calls a tool, outweighs the text."""
    reply = {"message": {"role": "assistant", "content": VERDICT, **message}, "finish_reason": "stop", **choice}
    assert judged(server, {"choices": [reply]}) == outcome


@pytest.mark.parametrize(
    "document,outcome",
    [
        ({"status": "completed", "incomplete_details": None, "error": None, "output": [item()]}, "verdict"),
        ({"output": [item(status="completed", phase="final_answer")]}, "verdict"),
        ({"status": "incomplete", "incomplete_details": {"reason": "stop"}, "output": [item()]}, "truncated"),
        ({"incomplete_details": {"reason": None}, "output": [item()]}, "truncated"),
        ({"incomplete_details": {"reason": "content_filter"}, "output": [item()]}, "declined"),
        ({"status": "failed", "output": [item()]}, "truncated"),
        ({"output": [item(status="incomplete")]}, "truncated"),
        ({"output": [item(phase="commentary")]}, "bad_reply"),
        ({"output": [item(phase="commentary"), item(phase="final_answer")]}, "verdict"),
        ({"output": [item(role="user")]}, "bad_reply"),
        ({"output": [item(), {"type": "mcp_approval_request"}]}, "truncated"),
        ({"output": [item(), {"type": "custom_tool_call", "name": "f"}]}, "truncated"),
        ({"output": [{"type": "web_search_call", "status": "completed"}, item()]}, "verdict"),
        ({"output": [REFUSAL, item()]}, "declined"),
        ({"output": [item(content=[{"type": "output_text", "text": VERDICT}, REFUSAL])]}, "declined"),
        ({"output": [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": VERDICT}]}]}, "bad_reply"),
    ],
)
def test_a_response_is_a_verdict_only_if_all_of_it_says_so(
    server: ModelServer, document: Mapping[str, object], outcome: str
) -> None:
    """The statuses of a response and its items, phases and items of other types outweigh the text."""
    assert judged(server, document, "RESPONSES") == outcome


@pytest.mark.parametrize(
    "document,outcome",
    [
        ({"stop_reason": "end_turn", "stop_details": None}, "verdict"),
        ({"stop_reason": None}, "verdict"),
        ({"stop_reason": "refusal"}, "declined"),
        ({"stop_reason": "end_turn", "stop_details": {"type": "refusal"}}, "declined"),
        ({"content": [{"type": "text", "text": VERDICT}, REFUSAL]}, "declined"),
        ({"stop_reason": "max_tokens"}, "truncated"),
        ({"stop_reason": "pause_turn"}, "truncated"),
        ({"stop_reason": "model_context_window_exceeded"}, "truncated"),
        ({"stop_reason": "tool_use"}, "truncated"),
        ({"role": "user"}, "bad_reply"),
    ],
)
def test_a_message_is_a_verdict_only_if_all_of_it_says_so(
    server: ModelServer, document: Mapping[str, object], outcome: str
) -> None:
    """What Anthropic's protocol says of the end of a message outweighs the text."""
    reply = {"type": "message", "content": [{"type": "text", "text": VERDICT}], **document}
    assert judged(server, reply, "ANTHROPIC") == outcome
