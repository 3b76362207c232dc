"""The SDKs of observability platforms: Langfuse, LangSmith, MLflow, Laminar."""

from collector.conventions.table import Dialect, Kinds, Sign

_LANGFUSE = "langfuse.observation"
_LANGSMITH = "langsmith.metadata"


def _usage(*members: str) -> tuple[str, ...]:
    return tuple(f"{_LANGFUSE}.usage_details#{member}" for member in members)


LANGFUSE = Dialect(
    name="langfuse",
    signs=(Sign(key="langfuse.observation."), Sign(scope="langfuse-sdk")),
    kinds=(
        Kinds(
            key="langfuse.observation.type",
            values={
                "generation": "llm",
                "agent": "agent",
                "tool": "tool",
                "chain": "chain",
                "retriever": "retriever",
                "embedding": "embedding",
                "evaluator": "evaluator",
                "guardrail": "evaluator",
            },
        ),
    ),
    places={
        "input": (f"{_LANGFUSE}.input", "langfuse.trace.input"),
        "output": (f"{_LANGFUSE}.output", "langfuse.trace.output"),
        "system": (f"kind llm/{_LANGFUSE}.metadata.instructions",),  # of its JavaScript over OpenAI's responses
        "tool_call_id": (f"{_LANGFUSE}.metadata.tool_call_id",),  # of LangChain
        "model": (f"{_LANGFUSE}.model.name",),
        "tool_definitions": (f"{_LANGFUSE}.input#tools", f"{_LANGFUSE}.metadata.tools"),
        "offered": (f"{_LANGFUSE}.input",),
        "input_tokens": _usage("input", "input_tokens", "prompt_tokens", "promptTokens", "inputTokens"),
        "output_tokens": _usage("output", "output_tokens", "completion_tokens", "completionTokens", "outputTokens"),
        "cached_tokens": _usage(
            "input_cached_tokens",
            "input_cache_read",
            "input_cache_read_tokens",
            "cache_read_input_tokens",
            "prompt_tokens_details.cached_tokens",
            "input_tokens_details.cached_tokens",
            "cached_tokens",
            "cachedInputTokens",
            "cached_content_token_count",
        ),
        "reasoning_tokens": _usage(
            "output_reasoning_tokens",
            "output_reasoning",
            "completion_tokens_details.reasoning_tokens",
            "output_tokens_details.reasoning_tokens",
            "reasoning_tokens",
            "reasoningTokens",
            "thoughts_token_count",
            "thoughtsTokenCount",
        ),
        "finish_reasons": (f"{_LANGFUSE}.metadata.finish_reason",),
        "usage_apart": (f"{_LANGFUSE}.usage_details",),
        "cost_usd": (f"{_LANGFUSE}.cost_details",),
        "session_id": ("langfuse.session.id",),
        "user_id": ("langfuse.user.id",),
        "error": (f"{_LANGFUSE}.status_message",),
        "failed": (f"{_LANGFUSE}.level=error",),
    },
    capture="pass input and output to the observation, and unset LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=false",
)

LANGSMITH = Dialect(
    name="langsmith",
    signs=(Sign(key="langsmith."),),
    kinds=(
        Kinds(
            key="langsmith.span.kind",
            values={
                "llm": "llm",
                "tool": "tool",
                "agent": "agent",
                "retriever": "retriever",
                "embedding": "embedding",
                **dict.fromkeys(("chain", "prompt", "parser"), "chain"),
            },
        ),
    ),
    places={
        "raw_answer": ("only kind llm/gen_ai.completion",),
        "asked_model": (f"{_LANGSMITH}.ls_model_name",),
        "tool_name": ("gen_ai.serialized.name", "langsmith.trace.name"),  # older exporters have no other
        "provider": (f"{_LANGSMITH}.ls_provider",),
        "input_tokens": (f"{_LANGSMITH}.usage_metadata#input_tokens",),
        "output_tokens": (f"{_LANGSMITH}.usage_metadata#output_tokens",),
        "cached_tokens": (
            f"{_LANGSMITH}.usage_metadata#input_token_details.cache_read",
            "gen_ai.usage.input_token_details#cache_read",
        ),
        "reasoning_tokens": (
            f"{_LANGSMITH}.usage_metadata#output_token_details.reasoning",
            "gen_ai.usage.output_token_details#reasoning",
        ),
        "written_tokens": (
            f"{_LANGSMITH}.usage_metadata#input_token_details.cache_creation",
            "gen_ai.usage.input_token_details#cache_creation",
        ),
        "total_tokens": (f"{_LANGSMITH}.usage_metadata#total_tokens",),
        "cost_usd": (f"{_LANGSMITH}.usage_metadata#total_cost",),
        "session_id": (f"{_LANGSMITH}.session_id", f"{_LANGSMITH}.thread_id", f"{_LANGSMITH}.conversation_id"),
        "user_id": (f"{_LANGSMITH}.user_id",),
    },
    has_early_status=True,
    capture="unset LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS where the application runs",
)

MLFLOW = Dialect(
    name="mlflow",
    signs=(Sign(key="mlflow."),),
    kinds=(
        Kinds(
            key="mlflow.spanType",
            values={
                **dict.fromkeys(("llm", "chat_model"), "llm"),
                **dict.fromkeys(("chain", "parser", "workflow", "task"), "chain"),
                **dict.fromkeys(("retriever", "reranker"), "retriever"),
                **dict.fromkeys(("evaluator", "guardrail"), "evaluator"),
                "tool": "tool",
                "agent": "agent",
                "embedding": "embedding",
            },
        ),
    ),
    places={
        "input": ("json mlflow.spanInputs",),
        "output": ("json mlflow.spanOutputs",),
        "tool_name": ("mlflow.spanFunctionName",),
        "tool_definitions": ("mlflow.chat.tools",),
        "system": ("only instructions",),
        "raw_answer": ("kind llm/mlflow.spanOutputs",),
        "calls_beside": ("kind llm/mlflow.spanOutputs",),  # in events, one for each chunk of a stream
        "named_model": ("mlflow.llm.model",),
        "asked_model": ("only model", "mlflow.spanInputs#model"),
        "provider": ("mlflow.llm.provider",),
        "input_tokens": (
            "mlflow.chat.tokenUsage#input_tokens",
            "mlflow.spanOutputs#usage.prompt_tokens",
            "mlflow.spanOutputs#usage.input_tokens",
            "only usage#input_tokens",
            "only usage#prompt_tokens",
        ),
        "output_tokens": (
            "mlflow.chat.tokenUsage#output_tokens",
            "mlflow.spanOutputs#usage.completion_tokens",
            "mlflow.spanOutputs#usage.output_tokens",
            "only usage#output_tokens",
            "only usage#completion_tokens",
        ),
        "cached_tokens": (
            "mlflow.chat.tokenUsage#cache_read_input_tokens",
            "mlflow.spanOutputs#usage.input_tokens_details.cached_tokens",
            "only usage#input_tokens_details.cached_tokens",
            "only usage#prompt_tokens_details.cached_tokens",
        ),
        "reasoning_tokens": (
            "mlflow.spanOutputs#usage.completion_tokens_details.reasoning_tokens",
            "mlflow.spanOutputs#usage.output_tokens_details.reasoning_tokens",
            "only usage#output_tokens_details.reasoning_tokens",
            "only usage#completion_tokens_details.reasoning_tokens",
            "mlflow.spanOutputs#usage_metadata.thoughts_token_count",
        ),
        "written_tokens": ("mlflow.chat.tokenUsage#cache_creation_input_tokens",),
        "total_tokens": ("mlflow.chat.tokenUsage#total_tokens", "mlflow.spanOutputs#usage.total_tokens"),
        "cost_usd": ("mlflow.llm.cost",),
        "session_id": ("mlflow.trace.session",),
        "user_id": ("mlflow.trace.user",),
    },
    capture="MLflow sends inputs and outputs of what it traces",
)

LAMINAR = Dialect(
    name="laminar",
    signs=(Sign(key="lmnr."),),
    kinds=(
        Kinds(
            key="lmnr.span.type",
            values={"llm": "llm", "tool": "tool", "default": "chain", "pipeline": "chain", "evaluator": "evaluator"},
        ),
    ),
    places={
        "input": ("json lmnr.span.input",),
        "output": ("json lmnr.span.output",),
        "session_id": ("lmnr.association.properties.session_id",),
        "user_id": ("lmnr.association.properties.user_id",),
    },
    capture="unset ignore_input and ignore_output on the observed function",
)
