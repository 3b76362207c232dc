"""OpenInference, by Arize; also spans that have some of its names without its kind."""

from collector.conventions.table import Dialect, Kinds, Sign

_HAYSTACK = "replies.0._meta.usage"  # a path in a message's Python repr
_CREWAI = "scope openinference.instrumentation.crewai"
_SMOLAGENTS = "scope openinference.instrumentation.smolagents/output.value#raw"  # the response's Python repr

OPENINFERENCE = Dialect(
    name="openinference",
    signs=(
        Sign(key="openinference."),
        Sign(scope="openinference.instrumentation"),
        Sign(key="llm.input_messages.", is_weak=True),
        Sign(key="llm.output_messages.", is_weak=True),
        Sign(key="tool.name", is_weak=True),
        Sign(key="input.value", is_weak=True),
        Sign(key="output.value", is_weak=True),
    ),
    kinds=(
        Kinds(key="tool.synthesized", values={"true": "other"}, is_first=True),
        Kinds(
            key="openinference.span.kind",
            values={
                "llm": "llm",
                "tool": "tool",
                "agent": "agent",
                "chain": "chain",
                "prompt": "chain",
                "retriever": "retriever",
                "reranker": "retriever",
                "embedding": "embedding",
                "guardrail": "evaluator",
                "evaluator": "evaluator",
            },
        ),
        Kinds(key="tool.name", values={"": "tool"}),
        Kinds(key="llm.model_name", values={"": "llm"}),
    ),
    sure_names={
        "handoff to ": "chain",  # a tool in OpenAI's agents' instrumentation
        "InputTokenCountResponse": "other",  # counts tokens of a request without calling a model
    },
    places={
        "input_messages": ("llm.input_messages.*",),
        "finish_reasons": ("llm.finish_reason",),
        "automatic_calls": ("scope openinference.instrumentation.google_genai/message.tool_calls.*",),
        "output_messages": ("llm.output_messages.*",),
        "reply": ("kind llm/output.value", "kind llm/output.value#raw"),
        "input": (
            "reranker.query",
            "embedding.embeddings.*#embedding.text",
            f"{_CREWAI}/crew_inputs",
            f"{_CREWAI}/crew_tasks#0.description",
            "input.value",
            "llm.prompts.*#prompt.text",
            "llm.prompts",
        ),
        "output": (
            "output.value",
            "retrieval.documents.*#document.content",
            "reranker.output_documents.*#document.content",
            "llm.choices.*#completion.text",
        ),
        "raw_dialogue": (
            "kind llm/input.value",
            "kind llm/output.value",
            "scope openinference.instrumentation.langchain/input.value",  # the messages attribute has only the first
        ),
        "tool_name": ("tool.name",),
        "tool_call_id": ("tool.id", "tool_call.id"),
        "tool_arguments": ("tool_call.function.arguments",),
        "tool_definitions": (
            "llm.tools.*",
            "llm.tools",
            "kind llm/llm.invocation_parameters#tools",
            "kind llm/input.value#tools",
        ),
        "model": ("llm.response.model_name",),
        "raw_answer": ("kind llm/output.value",),
        "named_model": ("llm.model_name", "embedding.model_name", "reranker.model_name"),
        "asked_model": ("llm.request.model_name", "llm.invocation_parameters#model"),
        "provider": ("llm.provider", "llm.system"),
        "input_tokens": ("llm.token_count.prompt",),
        "output_tokens": ("llm.token_count.completion",),
        "cached_tokens": (
            "llm.token_count.prompt_details.cache_read",
            "only kind llm/output.value#usage.prompt_tokens_details.cached_tokens",
            "only kind llm/output.value#usage.input_tokens_details.cached_tokens",
            f"only kind llm/output.value#{_HAYSTACK}.prompt_tokens_details.cached_tokens",
            f"{_SMOLAGENTS}.usage.prompt_tokens_details.cached_tokens",
        ),
        "reasoning_tokens": (
            "llm.token_count.completion_details.reasoning",
            "only kind llm/output.value#usage.completion_tokens_details.reasoning_tokens",
            "only kind llm/output.value#usage.output_tokens_details.reasoning_tokens",
            "only kind llm/output.value#usage_metadata.thoughts_token_count",
            f"only kind llm/output.value#{_HAYSTACK}.completion_tokens_details.reasoning_tokens",
            f"{_SMOLAGENTS}.usage.completion_tokens_details.reasoning_tokens",
        ),
        "written_tokens": ("llm.token_count.prompt_details.cache_write",),
        "total_tokens": ("llm.token_count.total",),
        "cost_usd": ("llm.cost.total", "llm.cost"),
        "session_id": tuple(f"only metadata#{name}" for name in ("session_id", "sessionId", "thread_id", "threadId")),
        "user_id": ("only metadata#user_id", "only metadata#userId"),
    },
    capture="unset OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS where the application runs",
)
