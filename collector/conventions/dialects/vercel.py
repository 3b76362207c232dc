"""The AI SDK of Vercel: `ai.*` up to version 6, from version 7 OpenTelemetry's names under a scope of its own."""

from collector.conventions.table import Dialect, Kinds, Sign
from storage.records import SpanType

_OPERATIONS: dict[str, SpanType] = {
    **dict.fromkeys(("ai.generatetext", "ai.streamtext", "ai.generateobject", "ai.streamobject"), "chain"),
    **dict.fromkeys(("ai.generatetext.dogenerate", "ai.streamtext.dostream"), "llm"),
    **dict.fromkeys(("ai.generateobject.dogenerate", "ai.streamobject.dostream"), "llm"),
    **dict.fromkeys(("ai.embed", "ai.embed.doembed", "ai.embedmany", "ai.embedmany.doembed"), "embedding"),
    **dict.fromkeys(("ai.rerank", "ai.rerank.dorerank"), "retriever"),
    "ai.toolcall": "tool",
}
_METADATA = "ai.telemetry.metadata"
_PROVIDER = "ai.response.providerMetadata"

VERCEL = Dialect(
    name="vercel",
    signs=(Sign(key="ai.operationId"), Sign(key="ai.telemetry."), Sign(key="ai.model."), Sign(scope="gen_ai")),
    kinds=(Kinds(key="ai.operationId", values=_OPERATIONS), Kinds(key="operation.name", values=_OPERATIONS)),
    places={
        "input_messages": ("ai.prompt.messages", "ai.prompt"),
        "answer_text": ("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object"),
        "answer_reasoning": ("ai.response.reasoning",),
        "answer_calls": ("ai.response.toolCalls", "ai.result.toolCalls"),
        "finish_reasons": ("ai.response.finishReason", "ai.finishReason", "ai.response.finish_reason"),
        "input": ("json ai.value", "json ai.values", "ai.documents"),
        "output": ("ai.ranking",),
        "tool_name": ("ai.toolCall.name",),
        "tool_call_id": ("ai.toolCall.id",),
        "tool_arguments": ("ai.toolCall.args", "ai.toolCall.input"),
        "tool_result": ("ai.toolCall.result", "ai.toolCall.output"),
        "tool_definitions": ("ai.prompt.tools",),
        "model": ("ai.response.model",),
        "asked_model": ("ai.model.id",),
        "provider": ("ai.model.provider",),
        "input_tokens": ("ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens"),
        "output_tokens": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
        "cached_tokens": (
            "ai.usage.cachedInputTokens",
            "ai.usage.inputTokenDetails.cacheReadTokens",
            f"{_PROVIDER}#openai.cachedPromptTokens",
            f"{_PROVIDER}#anthropic.cacheReadInputTokens",
            f"{_PROVIDER}#google.usageMetadata.cachedContentTokenCount",
        ),
        "reasoning_tokens": (
            "ai.usage.reasoningTokens",
            "ai.usage.outputTokenDetails.reasoningTokens",
            f"{_PROVIDER}#openai.reasoningTokens",
            f"{_PROVIDER}#google.usageMetadata.thoughtsTokenCount",
        ),
        "written_tokens": (
            "ai.usage.inputTokenDetails.cacheWriteTokens",
            f"{_PROVIDER}#anthropic.cacheCreationInputTokens",
        ),
        "total_tokens": ("ai.usage.totalTokens",),
        "session_id": (f"{_METADATA}.sessionId", f"{_METADATA}.session_id", f"{_METADATA}.threadId"),
        "user_id": (f"{_METADATA}.userId", f"{_METADATA}.user_id"),
    },
    capture="set recordInputs and recordOutputs to true in the telemetry settings of the call",
)
