"""Precedence of several sources of a field: our own keys, an operator's, the dialects that a span mixes."""

from typing import Any

import pytest

from collector.conventions.own_keys import FIELDS, OwnKeys
from tests.conventions.making import read, text

SEED_INPUT = ["dokimos.input", "input.value", "gen_ai.prompt", "llm.input", "input", "prompt"]
SEED_OUTPUT = ["dokimos.output", "output.value", "gen_ai.completion", "llm.output", "output", "completion"]


@pytest.mark.parametrize("keys, field", [(SEED_INPUT, "input"), (SEED_OUTPUT, "output")])
def test_the_first_key_of_the_seeds_lists_wins(keys: list[str], field: str) -> None:
    """Of the seeds' keys the earlier one wins, and a blank one counts as missing."""
    for number, key in enumerate(keys):
        attributes: dict[str, Any] = {other: other for other in keys[number:]} | dict.fromkeys(keys[:number], " \n")
        reading = read(attributes)
        assert getattr(reading, field) == key
        assert reading.sources[field] == key


def test_our_own_names_beat_every_dialect() -> None:
    """What `dokimos.*` says is believed, also against messages; the messages stay."""
    reading = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [text("user", "theirs")],
            "gen_ai.output.messages": [text("assistant", "theirs")],
            "dokimos.input": "ours",
            "dokimos.output": "ours too",
            "dokimos.model": "m",
            "gen_ai.response.model": "n",
        }
    )
    assert (reading.input, reading.output, reading.model) == ("ours", "ours too", "m")
    assert reading.input_messages == (text("user", "theirs"),)
    assert reading.dialect == "otel_genai"


@pytest.mark.parametrize(
    "attributes, fields",
    [
        (
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "gen_ai.usage.input_tokens": 5,
                "ai.usage.promptTokens": 6,
                "ai.usage.completionTokens": 7,
            },
            {"dialect": "vercel", "input_tokens": 5, "output_tokens": 7},
        ),
        (
            {
                "openinference.span.kind": "LLM",
                "input.value": "raw",
                "gen_ai.input.messages": [text("user", "q")],
                "llm.token_count.prompt": 3,
            },
            {"dialect": "openinference", "input": "q", "input_tokens": 3},
        ),
        (
            {
                "langfuse.observation.type": "agent",
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m",
                "langfuse.observation.input": "q",
            },
            {"dialect": "langfuse", "span_type": "agent", "model": "m", "input": "q"},
        ),
        (
            {"langsmith.span.kind": "retriever", "gen_ai.operation.name": "embeddings", "gen_ai.prompt": "q"},
            {"dialect": "langsmith", "span_type": "retriever", "input": "q"},
        ),
        ({"langsmith.span.kind": "tool", "langsmith.trace.name": "f"}, {"span_type": "tool", "tool_name": "f"}),
        (
            {"langsmith.span.kind": "tool", "langsmith.trace.name": "my run", "gen_ai.serialized.name": "f"},
            {"span_type": "tool", "tool_name": "f"},
        ),
        ({"langsmith.span.kind": "llm", "langsmith.trace.name": "f"}, {"span_type": "llm", "tool_name": None}),
        (
            {"gen_ai.operation.name": "chat", "gen_ai.tool.name": "f", "gen_ai.tool.call.id": "c"},
            {"span_type": "llm", "tool_name": None, "tool_call_id": None},
        ),
        ({"gen_ai.operation.name": "framework", "spring.ai.kind": "tool_call"}, {"span_type": "tool"}),
        ({"gen_ai.operation.name": "agent_step"}, {"span_type": "chain"}),
        ({"gen_ai.operation.name": "of the future"}, {"span_type": "other", "dialect": "otel_genai"}),
        ({"gen_ai.request.model": "asked", "ai.response.model": "answered"}, {"model": "answered"}),
        ({"gen_ai.usage.input_tokens": "NaN", "gen_ai.usage.prompt_tokens": "19"}, {"input_tokens": 19}),
        ({"gen_ai.input.messages": "[]", "input.value": "q", "gen_ai.operation.name": "chat"}, {"input": "q"}),
        ({"session.id": "a", "gen_ai.conversation.id": "b", "langfuse.session.id": "c"}, {"session_id": "c"}),
        ({"traceloop.association.properties.session_id": "s", "user.id": "u"}, {"session_id": "s", "user_id": "u"}),
        ({"input_tokens": 5, "model": "m"}, {"input_tokens": None, "model": None}),
    ],
)
def test_a_span_with_two_dialects_takes_each_field_where_it_is(attributes: Any, fields: dict[str, Any]) -> None:
    """Each field has its first source that holds something; bare keys count for their own dialect only."""
    reading = read(attributes)
    assert {name: getattr(reading, name) for name in fields} == fields


def test_an_operators_keys_come_after_ours_and_before_all_others() -> None:
    """Keys of the project, then those of every project, then the dialects; each in the form of its field."""
    own = OwnKeys(
        {
            "*": {"input": ["my.prompt"], "session_id": ["my.session"], "input_tokens": ["my.tokens"]},
            "shop": {"input": ["shop.prompt", "shop.other"], "tool_arguments": ["my.args"]},
        }
    )
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.call.arguments": '{"theirs": 1}',
        "my.args": "{'mine': 1}",
        "my.tokens": "5",
        "my.session": "s",
        "input.value": "theirs",
        "my.prompt": "everybody's",
        "shop.other": "the shop's second",
        "shop.prompt": "the shop's",
        "dokimos.input": "ours",
    }
    for key in ("dokimos.input", "shop.prompt", "shop.other", "my.prompt", "input.value"):
        reading = read(attributes, own=own)
        assert (reading.input, reading.sources["input"]) == (attributes.pop(key), key)
    reading = read(attributes, own=own)
    assert (reading.tool_arguments, reading.input_tokens, reading.session_id) == ({"mine": 1}, 5, "s")
    other = read({"shop.prompt": "not here", "my.prompt": "everybody's"}, own=own, project="web")
    assert other.input == "everybody's"


def test_own_keys_can_name_messages() -> None:
    """A field that is read by its shape is read so from an own key, too."""
    own = OwnKeys({"*": {"input_messages": ["my.messages"], "output_messages": ["my.answer"]}})
    answer = {"choices": [{"message": {"role": "assistant", "content": "a"}}]}
    reading = read(
        {"gen_ai.operation.name": "chat", "my.messages": [{"role": "user", "content": "q"}], "my.answer": answer},
        own=own,
    )
    assert (reading.input, reading.output, reading.input_messages) == ("q", "a", (text("user", "q"),))


@pytest.mark.parametrize(
    "projects, message",
    [
        ({"shop": {"sesion_id": ["a"]}}, "project 'shop': 'sesion_id' is not a field; there are input, output,"),
        ({"*": {"input": "my.prompt"}}, "'input' needs a list of attribute keys"),
        ({"*": {"input": [""]}}, "'input' needs a list of attribute keys"),
    ],
)
def test_own_keys_for_what_is_no_field_are_refused(projects: Any, message: str) -> None:
    """The message names the project, the wrong name, and what there is."""
    with pytest.raises(ValueError, match=message):
        OwnKeys(projects)


def test_every_field_can_be_given_an_own_key() -> None:
    """Each field that the table of own keys names is read under that key."""
    values: dict[str, Any] = {
        "input_messages": [text("user", "q")],
        "output_messages": [text("assistant", "a")],
        "tool_arguments": {"a": 1},
        "tool_result": {"b": 2},
        "tool_definitions": [{"name": "f"}],
        "cost_usd": 0.5,
    } | dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"), 3)
    for field in FIELDS:
        kind = "execute_tool" if field.startswith("tool_") and field != "tool_definitions" else "chat"
        own = OwnKeys({"*": {field: ["my.key"]}})
        reading = read({"gen_ai.operation.name": kind, "my.key": values.get(field, "x")}, own=own, status_code=2)
        assert reading.sources[field] == "my.key"
