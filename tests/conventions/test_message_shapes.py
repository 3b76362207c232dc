"""Every vendor's messages have one normal form."""

import json
from typing import Any

import pytest

from collector.conventions.messages import find_messages, messages_of
from collector.conventions.parts import text_part
from collector.evaluation.trace_case import case_of_trace
from tests.conventions.making import a_span, call, read, read_all, response, text

OSLO: Any = {"city": "Oslo"}
CALL = call("f", {"city": "Oslo"}, "c1")
PICTURE = {"type": "uri", "modality": "image", "uri": "https://example.com/cat.png"}
RESULT = response({"celsius": 7}, "c1")


@pytest.mark.parametrize(
    "message, expected",
    [
        ({"role": "user", "content": "q"}, text("user", "q")),
        ({"role": "user", "content": [{"type": "text", "text": "q"}]}, text("user", "q")),
        ({"role": "user", "content": [{"type": "input_text", "text": "q"}]}, text("user", "q")),
        ({"role": "User", "parts": [{"text": "q"}]}, text("user", "q")),
        ({"role": "user", "parts": ["q"]}, text("user", "q")),
        ({"parts": [{"type": "text", "content": "q"}]}, text("user", "q")),
        ({"role": "human", "content": "q"}, text("user", "q")),
        ({"role": "model", "parts": [{"text": "a"}]}, text("assistant", "a")),
        ({"role": "developer", "content": "s"}, text("system", "s")),
        ({"role": 5, "content": "q"}, text("user", "q")),
        ({"role": "critic", "content": "c"}, text("critic", "c")),
        ({"type": "human", "data": {"content": "q", "type": "human"}}, text("user", "q")),
        ({"lc": 1, "id": ["langchain", "HumanMessage"], "kwargs": {"content": "q"}}, text("user", "q")),
        ({"role": "assistant", "content": None, "refusal": "no"}, text("assistant", "no")),
        (
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"city": "Oslo"}'}}
                ],
            },
            CALL,
        ),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": OSLO}]}, CALL),
        ({"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "f", "input": OSLO}}]}, CALL),
        (
            {
                "role": "assistant",
                "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": '{"city": "Oslo"}'}],
            },
            CALL,
        ),
        ({"role": "model", "parts": [{"function_call": {"id": "c1", "name": "f", "args": OSLO}, "text": None}]}, CALL),
        ({"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "f", "args": OSLO}}]}, CALL),
        ({"type": "function_call", "call_id": "c1", "id": "fc_1", "name": "f", "arguments": '{"city": "Oslo"}'}, CALL),
        (
            {"type": "ai", "content": "", "tool_calls": [{"name": "f", "args": OSLO, "id": "c1", "type": "tool_call"}]},
            CALL,
        ),
        (
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{'city': 'Oslo'}"}},
            call("f", {"city": "Oslo"}),
        ),
        ({"role": "tool-call", "content": "q"}, text("assistant", "q")),
        ({"role": "tool", "tool_call_id": "c1", "content": '{"celsius": 7}'}, RESULT),
        (
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": '{"celsius": 7}'}]},
            RESULT,
        ),
        (
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"json": {"celsius": 7}}]}}]},
            RESULT,
        ),
        (
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "c1",
                        "toolName": "f",
                        "output": {"type": "json", "value": {"celsius": 7}},
                    }
                ],
            },
            RESULT,
        ),
        (
            {"role": "user", "parts": [{"function_response": {"id": "c1", "name": "f", "response": {"celsius": 7}}}]},
            RESULT,
        ),
        ({"type": "function_call_output", "call_id": "c1", "output": '{"celsius": 7}'}, RESULT),
        ({"type": "tool", "content": '{"celsius": 7}', "tool_call_id": "c1", "status": "success"}, RESULT),
        ({"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "result": {"celsius": 7}}]}, RESULT),
    ],
)
def test_messages_are_read_by_their_shape(message: Any, expected: Any) -> None:
    """OpenAI, Anthropic, Bedrock, Gemini, Vercel and LangChain say the same in other words."""
    for shape in (message, [message], {"messages": [message]}, [[message]]):
        read: Any = messages_of(shape, "user")
        assert len(read) == 1
        assert read[0]["role"] == expected["role"]
        assert [_without_name(part) for part in read[0]["parts"]] == expected["parts"]


def _without_name(part: Any) -> Any:
    # Only some vendors send the name of the tool with a result.
    return {key: value for key, value in part.items() if key != "name" or part.get("type") == "tool_call"}


@pytest.mark.parametrize(
    "part, expected",
    [
        ({"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}, PICTURE),
        ({"type": "image_url", "image_url": "https://example.com/cat.png"}, PICTURE),
        ({"type": "input_image", "image_url": "https://example.com/cat.png"}, PICTURE),
        ({"type": "image", "image": "https://example.com/cat.png"}, PICTURE),
        ({"type": "image", "source": {"type": "url", "url": "https://example.com/cat.png"}}, PICTURE),
        ({"type": "image-url", "url": "https://example.com/cat.png"}, PICTURE),
        ({"kind": "image-url", "url": "https://example.com/cat.png"}, PICTURE),
        ({"file_data": {"file_uri": "https://example.com/cat.png", "mime_type": "image/png"}}, PICTURE),
        ({"message_content": {"type": "image", "image": {"image": {"url": "https://example.com/cat.png"}}}}, PICTURE),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
        ),
        (
            {"inline_data": {"mime_type": "audio/wav", "data": "AAAA"}},
            {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "AAAA"},
        ),
        (
            {"type": "binary", "media_type": "application/pdf", "content": "AAAA"},
            {"type": "blob", "modality": "application", "mime_type": "application/pdf", "content": "AAAA"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "blob", "modality": "audio", "mime_type": None, "content": "AAAA"},
        ),
        ({"type": "file", "file": {"file_id": "file-1"}}, {"type": "file", "modality": None, "file_id": "file-1"}),
        (
            {"type": "uri", "modality": "image", "uri": "https://example.com/cat.png", "mime_type": None},
            PICTURE | {"mime_type": None},
        ),
        ({"type": "thinking", "thinking": "hm"}, {"type": "reasoning", "content": "hm"}),
        (
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "reasoning", "content": "hm"},
        ),
        ({"text": "hm", "thought": True}, {"type": "reasoning", "content": "hm"}),
        ({"type": "server_tool_use", "id": "s", "name": "web"}, {"type": "server_tool_use", "id": "s", "name": "web"}),
        ({"type": "hologram", "beam": [1]}, {"type": "hologram", "beam": [1]}),
        ({"cachePoint": {"type": "default"}}, {"cachePoint": {"type": "default"}}),
    ],
)
def test_parts_of_every_vendor_are_read_and_unknown_ones_kept(part: Any, expected: Any) -> None:
    """Pictures by address and by bytes, thoughts and files have the normal form; unknown parts stay as they are."""
    messages = find_messages([{"role": "user", "content": ["q", part]}], "user")
    assert messages == [{"role": "user", "parts": [{"type": "text", "content": "q"}, expected]}]


@pytest.mark.parametrize(
    "container",
    [
        {"model": "m", "messages": [{"role": "user", "content": "q"}]},
        {"model": "m", "input": "q"},
        {"model": "m", "input": [{"role": "user", "content": "q"}]},
        {"prompt": "q"},
        {"contents": [{"role": "user", "parts": [{"text": "q"}]}]},
        {"messages": [["user", "q"]]},
        {"inputs": {"messages": [["human", "q"]]}, "tags": []},
        [{"graph": None, "update": {"messages": [{"type": "human", "content": "q"}]}}],
        {"choices": [{"index": 0, "message": {"role": "user", "content": "q"}}]},
        {"generations": [[{"text": "q", "message": {"type": "human", "content": "q"}}]]},
    ],
)
def test_messages_are_found_in_requests_and_answers(container: Any) -> None:
    """Whatever an API wraps around its messages, they are found."""
    assert find_messages(container, "user") == [text("user", "q")]


def test_instructions_beside_the_messages_come_first() -> None:
    """Anthropic, OpenAI's responses, Gemini and Vercel keep the system prompt apart; here it is a message."""
    prompt: Any = {"messages": [{"role": "user", "content": "q"}]}
    contents: Any = {"contents": [{"role": "user", "parts": [{"text": "q"}]}]}
    for request in (
        prompt | {"system": "s"},
        prompt | {"system": [{"type": "text", "text": "s"}]},
        {"model": "m", "input": "q", "instructions": "s"},
        contents | {"config": {"system_instruction": "s"}},
        contents | {"system_instruction": {"parts": [{"text": "s"}]}},
        {"system": "s", "prompt": "q"},
    ):
        assert find_messages(request, "user") == [text("system", "s"), text("user", "q")]


def test_one_answer_told_in_pieces_is_one_message() -> None:
    """Items of the Responses API, and calls listed one by one before any result, are one answer."""
    calls = [{"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"} for n in (1, 2)]
    expected = [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": f"c{n}", "name": "f", "arguments": {}} for n in (1, 2)],
        }
    ]
    assert find_messages({"output": calls}, "assistant") == expected
    apart: list[Any] = [{"role": "assistant", "parts": [part]} for part in expected[0]["parts"]]
    assert find_messages(apart, "assistant") == expected


def test_a_call_told_twice_in_one_message_is_one() -> None:
    """Content blocks and `tool_calls` may both hold it."""
    message: Any = {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "c1", "name": "f", "input": OSLO},
        ],
        "tool_calls": [{"id": "c1", "name": "f", "args": OSLO}, {"id": "c2", "name": "f", "args": OSLO}],
    }
    [message_read] = find_messages(message, "assistant") or []
    parts: Any = message_read["parts"]
    assert [part.get("id", "text") for part in parts] == ["text", "c1", "c2"]


def test_the_input_of_a_streamed_call_is_read_from_its_pieces() -> None:
    """LangChain keeps the block of Anthropic's stream with an empty input, and with the JSON beside it."""
    block = {"type": "tool_use", "id": "c1", "name": "f", "input": {}, "partial_json": json.dumps(OSLO), "index": 0}
    beside = [{"name": "f", "args": OSLO, "id": "c1", "type": "tool_call"}]
    attributes: dict[str, Any] = {"role": "assistant", "content": [block]}
    for message in (attributes, {**attributes, "tool_calls": beside}):
        assert find_messages(message, "assistant") == [call("f", OSLO, "c1")]


@pytest.mark.parametrize("as_text", [True, False])
def test_genai_messages_give_what_was_asked_and_answered(as_text: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Of OTel GenAI messages, as JSON text or structured, the last words of user and model are read."""
    prompt: Any = [text("system", "Be kind."), text("user", "Hi"), text("user", "Where is it?"), CALL, RESULT]
    answered: Any = [text("assistant", "On its way.")]
    reading = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(prompt) if as_text else prompt,
            "gen_ai.output.messages": json.dumps(answered) if as_text else answered,
        }
    )
    assert (reading.input, reading.output) == ("Where is it?", "On its way.")
    assert reading.input_messages == tuple(prompt)
    assert reading.output_messages == tuple(answered)


def test_the_final_answer_follows_the_last_tool_result() -> None:
    """If one message holds a whole trajectory, text before the last result is the answer only without later text."""
    before: Any = {"type": "text", "content": "Let me look."}
    after: Any = {"type": "text", "content": "It is sunny."}
    requested, returned = CALL["parts"][0], RESULT["parts"][0]
    for parts, expected in (
        ([before, requested, returned, after], "It is sunny."),
        ([after, requested, returned], "It is sunny."),
        ([before, {"type": "reasoning", "content": "hm"}, after], "Let me look.\nIt is sunny."),
    ):
        messages: Any = [{"role": "assistant", "parts": parts}]
        assert read({"gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": messages}).output == expected


def test_what_the_user_says_last_is_no_answer() -> None:
    """A prompt that a chain renders ends with the user's words, and is shown unchanged."""
    rendered = json.dumps({"messages": [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Hi"}]})
    reading = read({"openinference.span.kind": "PROMPT", "output.value": rendered})
    assert (reading.span_type, reading.output) == ("chain", rendered)


def test_the_json_of_a_chain_stays_unless_it_names_roles() -> None:
    """A chain may be given any JSON: a field named content or prompt does not make it a message."""
    for value in ('{"content": "a", "score": 1}', '{"prompt": "p", "n": 3}', '{"text": "t", "finish_reason": "stop"}'):
        reading = read({"openinference.span.kind": "CHAIN", "input.value": value, "output.value": value})
        assert (reading.input, reading.output, reading.input_messages) == (value, value, None)
        assert reading.output_messages is None


@pytest.mark.parametrize(
    "parts, expected",
    [
        ([{"type": "text", "content": " \n"}], " \n"),
        ([{"type": "reasoning", "content": "A fine plan."}], ""),
        ([{"type": "reasoning", "content": "A fine plan."}, {"type": "text", "content": " "}], " "),
    ],
)
def test_an_answer_without_words_is_its_text(parts: Any, expected: str) -> None:
    """White space is judged as it is, and thoughts alone as a blank answer, instead of the JSON of their messages."""
    answered: Any = [{"role": "assistant", "parts": parts}]
    span = a_span({"gen_ai.operation.name": "chat", "gen_ai.output.messages": answered})
    case = case_of_trace(read_all(span), [span])
    assert case.actual_outputs["output"] == expected
    for reading in (read({"openinference.span.kind": "LLM", "output.value": json.dumps(answered)}), read_all(span)):
        assert reading.output == expected


def test_words_beside_an_answer_without_words_are_the_output() -> None:
    """A span with a textual output is shown by it, and reasoning with a call is not an answer."""
    thoughts: Any = [{"role": "assistant", "parts": [{"type": "reasoning", "content": "A plan."}]}]
    attributes = {"openinference.span.kind": "LLM", "gen_ai.output.messages": thoughts, "output.value": "It is sunny."}
    assert read(attributes).output == "It is sunny."
    thoughts[0]["parts"].append(CALL["parts"][0])
    assert "arguments" in (read({"gen_ai.operation.name": "chat", "gen_ai.output.messages": thoughts}).output or "")


THOUGHT = "I think."


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": THOUGHT, "signature": "x"},  # Anthropic, LangChain
        {"type": "reasoning", "reasoning": THOUGHT},  # LangChain 1
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": THOUGHT}]},
        {"type": "reasoning", "content": [], "summary": [{"type": "summary_text", "text": THOUGHT}]},
        {"type": "reasoning", "content": json.dumps([{"type": "summary_text", "text": THOUGHT}])},  # OpenLLMetry
        {"type": "reasoningContent", "content": {"reasoningText": {"text": THOUGHT, "signature": "x"}}},  # Strands
        {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": "x"}}},  # Bedrock
        {"type": "reasoning_content", "reasoning_content": {"text": THOUGHT}},  # LangChain over Bedrock
        {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]},  # Mistral
        {"type": "reasoning", "details": [{"type": "text", "text": THOUGHT}]},  # Vercel 4
        {"type": "text_reasoning", "text": THOUGHT},  # Microsoft's agent framework
        {"block_type": "thinking", "content": THOUGHT},  # LlamaIndex
        {"content_type": "reasoning", "text": THOUGHT},  # Semantic Kernel
        {"reasoning": {"reasoning_text": THOUGHT, "extra": {}}},  # Haystack
    ],
    ids=str,
)
def test_thoughts_are_read_of_every_block(block: dict[str, Any]) -> None:
    """Thoughts are reasoning, and neither words of the answer nor kept as the block that wrapped them."""
    message = {"role": "assistant", "content": [block, {"type": "text", "text": "Done."}]}
    for content in (message, {**message, "content": json.dumps(message["content"])}):
        assert messages_of([content], "assistant") == [
            {"role": "assistant", "parts": [{"type": "reasoning", "content": THOUGHT}, text_part("Done.")]}
        ]


@pytest.mark.parametrize(
    "beside",
    [
        {"reasoning_content": THOUGHT},  # DeepSeek
        {"reasoning": THOUGHT},  # OpenRouter
        {"reasoning": THOUGHT, "reasoning_details": [{"type": "reasoning.text", "text": THOUGHT}]},
        {"thinking": THOUGHT},  # Ollama
        {"thinking_blocks": [{"type": "thinking", "thinking": THOUGHT, "signature": "x"}]},  # LiteLLM
        {"type": "ai", "additional_kwargs": {"reasoning_content": THOUGHT}},
        {"type": "ai", "additional_kwargs": {"reasoning": {"summary": [{"type": "summary_text", "text": THOUGHT}]}}},
    ],
)
def test_thoughts_beside_the_content_are_read_once(beside: dict[str, Any]) -> None:
    """A message with its reasoning in a separate key, or in two, has it once, before the text."""
    message = {"role": "assistant", "content": "Done.", **beside}
    assert messages_of([message], "assistant") == [
        {"role": "assistant", "parts": [{"type": "reasoning", "content": THOUGHT}, text_part("Done.")]}
    ]
