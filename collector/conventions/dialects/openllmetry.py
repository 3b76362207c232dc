"""OpenLLMetry, by Traceloop."""

from collector.conventions.dialects.otel import CAPTURE_OF_AGENTS
from collector.conventions.table import Dialect, Kinds, Sign

# Instrumentations of OpenLLMetry with OpenTelemetry's prefix. OpenTelemetry's own end in `_v2`, or have other names.
_LIBRARIES = (
    "alephalpha", "anthropic", "bedrock", "chromadb", "cohere", "crewai", "google_generativeai", "groq", "haystack",
    "lancedb", "langchain", "llamaindex", "marqo", "mcp", "milvus", "mistralai", "ollama", "openai.v0", "openai.v1",
    "openai_agents", "pinecone", "qdrant", "replicate", "sagemaker", "together", "transformers", "vertexai", "voyageai",
    "watsonx", "weaviate", "writer",
)  # fmt: skip
_MESSAGES = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt.*", "gen_ai.completion.*")
_PROPERTIES = "traceloop.association.properties"


def _crew(name: str) -> tuple[str, ...]:
    return f"crewai.crew.usage_metrics#{name}", f"crewai.crew.token_usage#{name}"


OPENLLMETRY = Dialect(
    name="openllmetry",
    signs=(
        Sign(key="traceloop."),
        Sign(key="llm.request.type"),
        Sign(scope="traceloop."),
        *(Sign(scope=f"opentelemetry.instrumentation.{library}", with_genai=True) for library in _LIBRARIES),
    ),
    kinds=(
        Kinds(key="crewai.task.id", values={"": "chain"}, is_first=True),  # it claims to invoke an agent
        Kinds(
            key="traceloop.span.kind",
            values={"workflow": "chain", "task": "chain", "agent": "agent", "tool": "tool"},
        ),
        Kinds(
            key="llm.request.type",
            values={"chat": "llm", "completion": "llm", "embedding": "embedding", "rerank": "retriever"},
        ),
    ),
    sure_names={"FunctionTool.task": "tool", "QueryEngineTool.task": "tool"},  # LlamaIndex says task
    places={
        "input": ("json traceloop.entity.input", "crewai.task.description"),
        "output": ("json traceloop.entity.output", "crewai.crew.result"),
        "input_tokens": _crew("prompt_tokens"),
        "output_tokens": _crew("completion_tokens"),
        "cached_tokens": _crew("cached_prompt_tokens"),
        "reasoning_tokens": _crew("reasoning_tokens"),
        "finish_reasons": ("llm.response.finish_reason", "llm.response.stop_reason"),
        "result_ids": tuple(
            f"scope {scope}/gen_ai.input.messages"
            for scope in ("opentelemetry.instrumentation.openai_agents", "opentelemetry.instrumentation.openai.v1")
        ),
        "texts_of_items": tuple(
            f"scope opentelemetry.instrumentation.openai_agents/{key}" for key in ("gen_ai.operation.name", *_MESSAGES)
        ),
        "texts_of_blocks": tuple(
            f"scope {scope}/{key}"
            for scope in ("opentelemetry.instrumentation.langchain", "opentelemetry.instrumentation.bedrock")
            for key in _MESSAGES
        ),
        "whole_input": ("scope @traceloop/gen_ai.input.messages",),
        "tool_name": (
            "scope opentelemetry.instrumentation.llamaindex/traceloop.entity.output#tool_name",
            "traceloop.entity.name",
        ),
        "tool_call_id": ("scope opentelemetry.instrumentation.langchain/traceloop.entity.input#kwargs.tool_call_id",),
        "tool_definitions": ("llm.request.functions.*",),
        "session_id": (f"{_PROPERTIES}.session_id", f"{_PROPERTIES}.thread_id", f"{_PROPERTIES}.conversation_id"),
        "user_id": (f"{_PROPERTIES}.user_id",),
    },
    capture="unset TRACELOOP_TRACE_CONTENT=false where the application runs",
    captures={"opentelemetry.instrumentation.openai_agents": CAPTURE_OF_AGENTS},
    has_one_switch=True,
)
