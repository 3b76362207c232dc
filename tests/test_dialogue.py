"""Conversations as requests to models, and the tool calls in their answers."""

import base64
import json
from typing import Any

import pytest

from evaluators.chat.connection import ModelConnection
from evaluators.chat.dialogue import ChatDialogue, NotSendable, dialogue_request
from evaluators.chat.images import MOST_SENT, TOKENS_OF_PICTURE
from evaluators.chat.request import body_of, most_of_body, with_parameters
from evaluators.chat.wire import WIRES, Protocol
from storage.records import JsonValue, Message, OfferedTool
from tests.picture_bytes import a_png

PROTOCOLS: tuple[Protocol, ...] = ("CHAT_COMPLETIONS", "RESPONSES", "ANTHROPIC")
WEATHER = OfferedTool(name="weather", description="Tells it", parameters={"type": "object", "properties": {}})
CALL: dict[str, JsonValue] = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}
TALK: list[Message] = [
    {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
    {"role": "user", "parts": [{"type": "text", "content": "Is it cold?"}]},
    {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, CALL]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"celsius": -3}}]},
    {"role": "user", "parts": [{"type": "text", "content": "Well?"}]},
]
PNG = base64.b64encode(a_png() + b"\0" * (-len(a_png()) % 3)).decode()  # more can follow it
FUNCTION = {"name": "weather", "description": "Tells it", "parameters": {"type": "object", "properties": {}}}
ARGUMENTS, RESULT = '{"city": "Oslo"}', '{"celsius": -3}'


def request_of(protocol: Protocol, messages: list[Message] | None = None, **more: Any) -> dict[str, Any]:
    """Return the body for a conversation."""
    dialogue = ChatDialogue(**{"messages": TALK if messages is None else messages, "tools": [WEATHER], **more})
    return dialogue_request(protocol, "m-1", dialogue)


def test_chat_completions_are_asked_with_calls_beside_their_results() -> None:
    """Calls stand in the message of the assistant, each result is a message of the tool, thoughts are left out."""
    assert request_of("CHAT_COMPLETIONS", top_p=0.5) == {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Is it cold?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": RESULT},
            {"role": "user", "content": "Well?"},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
        "top_p": 0.5,
    }


def test_responses_are_asked_with_items() -> None:
    """What the system says first is the instructions, calls and results are items, and nothing is stored."""
    assert request_of("RESPONSES") == {
        "model": "m-1",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Is it cold?"}]},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": ARGUMENTS},
            {"type": "function_call_output", "call_id": "c1", "output": RESULT},
            {"role": "user", "content": [{"type": "input_text", "text": "Well?"}]},
        ],
        "tools": [{"type": "function", **FUNCTION}],
        "store": False,
    }


def test_anthropic_is_asked_with_turns_that_change() -> None:
    """Results and what the user says after them are one turn, and the system stands apart."""
    assert request_of("ANTHROPIC") == {
        "model": "m-1",
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Is it cold?"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": RESULT},
                    {"type": "text", "text": "Well?"},
                ],
            },
        ],
        "tools": [{"name": "weather", "description": "Tells it", "input_schema": FUNCTION["parameters"]}],
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_calls_without_ids_are_paired_in_their_order(protocol: Protocol) -> None:
    """A result without an id belongs to the first call that has none yet."""
    calls: list[JsonValue] = [{"type": "tool_call", "name": name, "arguments": "{}"} for name in ("a", "b")]
    results: list[JsonValue] = [{"type": "tool_call_response", "response": text} for text in ("of a", "of b")]
    talk: list[Message] = [
        {"role": "user", "parts": [{"type": "text", "content": "Go"}]},
        {"role": "assistant", "parts": calls},
        {"role": "tool", "parts": results},
    ]
    text = json.dumps(request_of(protocol, talk))
    assert [text.count(f'"{each}"') for each in ("call_1", "call_2", "of a", "of b")] == [2, 2, 1, 1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", ["blob", "uri", "file", "audio"])
def test_what_is_no_picture_as_data_is_refused(protocol: Protocol, kind: str) -> None:
    """An invalid image, a file or any other part has to be removed, and the message says so."""
    parts: list[Any] = [{"type": "text", "content": "Look"}, {"type": kind, "mime_type": "image/png", "content": "AA"}]
    with pytest.raises(NotSendable, match=f"{kind}.*take it out"):
        request_of(protocol, [{"role": "user", "parts": parts}])


IN_WORDS: dict[Protocol, list[dict[str, Any]]] = {
    "CHAT_COMPLETIONS": [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "text", "text": "here"},
    ],
    "RESPONSES": [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "input_text", "text": "here"},
    ],
    "ANTHROPIC": [
        {"type": "text", "text": "Look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "text", "text": "here"},
    ],
}


def showing(part: dict[str, Any], role: str = "user", times: int = 1) -> list[Message]:
    """Build a conversation in which a message shows a picture between two words."""
    words: list[Any] = [{"type": "text", "content": word} for word in ("Look", "here")]
    user: list[Message] = [{"role": "user", "parts": [{"type": "text", "content": "Go"}]}]
    return [*user, {"role": role, "parts": [words[0], *[part] * times, words[1]]}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "part",
    [
        {"type": "blob", "mime_type": "text/html", "content": PNG},
        {"type": "uri", "modality": "image", "uri": f"data:image/svg+xml;base64,{PNG}"},
    ],
)
def test_a_picture_of_a_user_is_sent_as_data(protocol: Protocol, part: dict[str, Any]) -> None:
    """The image keeps its place between the texts, with the type that its bytes have."""
    request = request_of(protocol, showing(part))
    messages = request.get("messages") or request["input"]
    assert messages[-1]["content"][-3:] == IN_WORDS[protocol]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_picture_is_set_aside_for_by_what_models_make_of_it(protocol: Protocol) -> None:
    """Its bytes count for nothing, and each for more tokens than a model is known to take."""
    connection = ModelConnection(base_url="http://x/v1", model="m-1", protocol=protocol, max_output_tokens=300)
    parts = [{"type": "blob", "content": text} for text in (PNG, PNG + "A" * 40_000)]
    sizes = []
    for part in parts:
        dialogue = ChatDialogue(messages=showing(part), tools=())
        body = body_of(dialogue_request(protocol, "m-1", dialogue))
        sizes.append(most_of_body(body, connection, dialogue.pictures).input_tokens)
    assert sizes[0] == sizes[1]
    assert TOKENS_OF_PICTURE < sizes[0] < TOKENS_OF_PICTURE + 600


@pytest.mark.parametrize(
    "talk, why",
    [
        (showing({"type": "blob", "content": PNG}, role="assistant"), "only in messages of users"),
        (showing({"type": "uri", "uri": "https://evil.example/a.png"}), "'uri' cannot be sent.*as data"),
        (showing({"type": "blob", "content": PNG}, times=MOST_SENT + 1), f"more than {MOST_SENT} pictures"),
        (showing({"type": "blob", "content": PNG + "A" * 5_100_000}), "more than 3,750,000 bytes"),
        (showing({"type": "blob", "content": PNG + "A" * 4_000_000}, times=3), "the pictures have"),
    ],
    ids=["whose", "where", "how many", "how large", "how large in all"],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pictures_that_are_not_sent_are_told(protocol: Protocol, talk: list[Message], why: str) -> None:
    """In a message of another role, by an address, too many or too large: nothing is sent, and the message says why."""
    with pytest.raises(NotSendable, match=why):
        request_of(protocol, talk)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_somebody_has_to_ask(protocol: Protocol) -> None:
    """A system's message alone is not a conversation."""
    with pytest.raises(NotSendable, match="a message of a user"):
        request_of(protocol, TALK[:1])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_half_of_a_pair_is_sent_as_what_utf_8_can_carry(protocol: Protocol) -> None:
    """Whatever JSON can contain, the request can be encoded, and a whole surrogate pair is unchanged."""
    talk: list[Message] = [{"role": "user", "parts": [{"type": "text", "content": "\ud83d and \ud83d\ude00"}]}]
    sent = json.dumps(request_of(protocol, talk), ensure_ascii=False).encode()
    assert "😀" in sent.decode()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_set_aside_bounds_what_is_sent(protocol: Protocol) -> None:
    """A token in for each byte of the body, and as many out as the answer may have, which the body says."""
    connection = ModelConnection(
        base_url="http://x/v1", model="m-1", protocol=protocol, max_output_tokens=300, temperature=0.3
    )
    request = with_parameters(request_of(protocol), connection)
    most = most_of_body(body_of(request), connection)
    assert most.input_tokens >= len(json.dumps(request, separators=(",", ":"), ensure_ascii=False).encode())
    assert (request[WIRES[protocol].most_tokens], most.output_tokens, request["temperature"]) == (300, 300, 0.3)


ANSWERS: dict[Protocol, dict[str, Any]] = {
    "CHAT_COMPLETIONS": {
        "choices": [
            {
                "message": {
                    "content": None,
                    "tool_calls": [{"id": "c9", "function": {"name": "weather", "arguments": ARGUMENTS}}],
                }
            }
        ]
    },
    "RESPONSES": {
        "output": [{"type": "function_call", "call_id": "c9", "name": "weather", "arguments": ARGUMENTS}],
        "status": "completed",
    },
    "ANTHROPIC": {
        "content": [{"type": "tool_use", "id": "c9", "name": "weather", "input": {"city": "Oslo"}}],
        "stop_reason": "tool_use",
    },
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_tells_its_calls(protocol: Protocol) -> None:
    """A model that calls a tool says nothing else, and its call is in the normal form."""
    reply = WIRES[protocol].answer(ANSWERS[protocol])
    assert (reply.text, reply.calls) == ("", (CALL | {"id": "c9"},))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rubbish", [None, 7, "x", [None], [{}], {"id": 1}])
def test_calls_that_are_none_break_nothing(protocol: Protocol, rubbish: Any) -> None:
    """Whatever stands where calls do, the answer is read."""
    answer = json.loads(json.dumps(ANSWERS[protocol]))
    if protocol == "CHAT_COMPLETIONS":
        answer["choices"][0]["message"]["tool_calls"] = rubbish
    elif protocol == "RESPONSES":
        answer["output"] = rubbish if isinstance(rubbish, list) else [rubbish]
    else:
        answer["content"] = rubbish if isinstance(rubbish, list) else [rubbish]
    assert WIRES[protocol].answer(answer).calls == ()
