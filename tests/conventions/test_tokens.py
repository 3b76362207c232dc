"""Counts of tokens: every library's names for them, and what one leaves out is added."""

import json
from typing import Any

import pytest

from storage.records import SpanReading
from tests.conventions.making import read

LLM = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 50}


def counts(reading: SpanReading) -> tuple[int | None, ...]:
    """Return input, output, cached and reasoning tokens."""
    return reading.input_tokens, reading.output_tokens, reading.cached_tokens, reading.reasoning_tokens


@pytest.mark.parametrize(
    "key",
    [
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.reasoning_output_tokens",  # Laminar
        "gen_ai.usage.thinking_tokens",  # AG2
        "gen_ai.usage.details.thoughts_tokens",  # Pydantic AI with Gemini
        "gen_ai.aggregated_usage.details.thoughts_tokens",
        "gen_ai.usage.completion_tokens_details.reasoning_tokens",  # OpenLIT
        "codex.usage.reasoning_output_tokens",
        "llm.usage.reasoning_tokens",  # OpenLLMetry of old
    ],
)
def test_reasoning_tokens_have_many_names(key: str) -> None:
    """Each of them is read, and is a part of the output."""
    assert counts(read({**LLM, key: 20})) == (100, 50, None, 20)


@pytest.mark.parametrize(
    "attributes, scope",
    [
        (
            {
                "mlflow.spanType": "CHAT_MODEL",
                "mlflow.chat.tokenUsage": '{"input_tokens": 100, "output_tokens": 30, "total_tokens": 150}',
                "mlflow.spanOutputs": '{"usage_metadata": {"thoughts_token_count": 20}}',
            },
            "mlflow.tracing.provider",
        ),
        (
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.usage_details": '{"input": 100, "output": 50, "thoughts_token_count": 20}',
            },
            "langfuse-sdk",
        ),
        (
            {"response_data": '{"usage": {"prompt_tokens": 100, "completion_tokens": 50, "completion_tokens_details": '
             '{"reasoning_tokens": 20}}}'},
            "logfire.openai",
        ),
        (
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.usage.inputTokens": 100,
                "ai.usage.outputTokens": 30,
                "ai.usage.totalTokens": 150,
                "ai.response.providerMetadata": '{"google": {"usageMetadata": {"thoughtsTokenCount": 20}}}',
            },
            "ai",
        ),
        (
            {
                "openinference.span.kind": "LLM",
                "llm.token_count.prompt": 100,
                "llm.token_count.completion": 30,
                "llm.token_count.total": 150,
                "output.value": '{"usage_metadata": {"thoughts_token_count": 20}}',
            },
            "openinference.instrumentation.google_genai",
        ),
    ],
)  # fmt: skip
def test_reasoning_tokens_stand_beside_the_answer(attributes: dict[str, Any], scope: str) -> None:
    """Gemini's and OpenAI's own counts that platforms pass on are read, and added if the output omits them."""
    assert counts(read(attributes, scope=scope)) == (100, 50, None, 20)


OI = {
    "openinference.span.kind": "LLM",
    "llm.token_count.prompt": 4,
    "llm.token_count.completion": 400,
    "llm.token_count.prompt_details.cache_read": 8000,
    "llm.token_count.prompt_details.cache_write": 350,
}
GENAI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.usage.input_tokens": 4,
    "gen_ai.usage.output_tokens": 400,
    "gen_ai.usage.cache_read.input_tokens": 8000,
    "gen_ai.usage.cache_creation.input_tokens": 350,
}


@pytest.mark.parametrize(
    "attributes, expected",
    [
        ({**OI, "llm.token_count.total": 8754}, (8354, 400, 8000, None)),
        (OI, (8354, 400, 8000, None)),
        (GENAI, (8354, 400, 8000, None)),
        ({**GENAI, "gen_ai.usage.cache_read.input_tokens": 0}, (354, 400, 0, None)),
        # more input than cached: the total shows that it leaves them out
        (
            {**GENAI, "gen_ai.usage.input_tokens": 9000, "gen_ai.usage.total_tokens": 17750},
            (17350, 400, 8000, None),
        ),
        ({**GENAI, "gen_ai.usage.input_tokens": 9000, "gen_ai.usage.total_tokens": 9400}, (9000, 400, 8000, None)),
        ({**GENAI, "gen_ai.usage.input_tokens": 9000}, (9000, 400, 8000, None)),
        ({**LLM, "gen_ai.usage.reasoning.output_tokens": 60}, (100, 110, None, 60)),
        ({**LLM, "gen_ai.usage.reasoning.output_tokens": 20, "gen_ai.usage.total_tokens": 170}, (100, 70, None, 20)),
        ({**LLM, "gen_ai.usage.reasoning.output_tokens": 20, "gen_ai.usage.total_tokens": 150}, (100, 50, None, 20)),
        (
            {
                **LLM,
                "gen_ai.usage.cache_read.input_tokens": 30,
                "gen_ai.usage.reasoning.output_tokens": 20,
                "gen_ai.usage.total_tokens": 200,
            },
            (130, 70, 30, 20),
        ),
        (
            {
                "langsmith.span.kind": "llm",
                "langsmith.metadata.usage_metadata": '{"input_tokens": 4, "output_tokens": 400, "total_tokens": 404, '
                '"input_token_details": {"cache_read": 8000, "cache_creation": 350}}',
            },
            (8354, 400, 8000, None),
        ),
    ],
)
def test_what_a_count_leaves_out_is_added(attributes: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    """Cached tokens beyond the input and reasoning tokens beyond the output are added, as the total may show."""
    reading = read(attributes)
    assert counts(reading) == expected
    sent = attributes.get("gen_ai.usage.input_tokens", 4), attributes.get("gen_ai.usage.output_tokens", 400)
    assert any("are added" in note for note in reading.notes) == (counts(reading)[:2] != sent)


@pytest.mark.parametrize(
    "output, usage, expected",
    [
        (170, {"candidates_token_count": 50, "thoughts_token_count": 20}, (100, 70, None, 20)),  # the total
        (50, {"candidates_token_count": 50, "thoughts_token_count": 20}, (100, 70, None, 20)),  # until version 1.18
        (70, {"candidates_token_count": 50, "thoughts_token_count": 20}, (100, 70, None, 20)),
        (70, {"candidates_token_count": 70, "cached_content_token_count": 30}, (100, 70, 30, None)),
    ],
)
def test_adk_counts_the_output_in_three_ways(output: int, usage: dict[str, int], expected: tuple[int | None]) -> None:
    """Older ADK versions record the total as the output, later ones omit reasoning: the response shows which."""
    usage_metadata = {"prompt_token_count": 100, "total_token_count": 170, **usage}
    reading = read(
        {
            "gen_ai.system": "gcp.vertex.agent",
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": output,
            "gcp.vertex.agent.llm_response": json.dumps({"usage_metadata": usage_metadata}),
        },
        name="call_llm",
    )
    assert counts(reading) == expected
