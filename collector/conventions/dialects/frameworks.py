"""Frameworks for agents and gateways to models with spans of their own: Mastra, Haystack, LiteLLM."""

from collector.conventions.table import Dialect, Kinds, Sign

_MASTRA_SPANS = (
    "agent_run",
    "model_generation",
    "model_step",
    "model_chunk",
    "workflow_run",
    "workflow_step",
    "tool_call",
    "mcp_tool_call",
    "processor_run",
    "generic",
)
_ANSWERING = ("agent_run", "model_generation", "model_step", "model_chunk")
_METADATA = "mastra.metadata"

MASTRA = Dialect(
    name="mastra",
    signs=(Sign(key="mastra."), Sign(scope="@mastra/")),
    kinds=(
        Kinds(
            key="mastra.span.type",
            values={
                "agent_run": "agent",
                "model_inference": "llm",
                "tool_call": "tool",
                "mcp_tool_call": "tool",
                **dict.fromkeys(("model_generation", "model_step", "workflow_run", "workflow_step"), "chain"),
                "processor_run": "chain",
                "scorer_run": "evaluator",
                "rag_embedding": "embedding",
                "rag_vector_operation": "retriever",
            },
        ),
    ),
    places={
        "input": tuple(f"json mastra.{span}.input" for span in _MASTRA_SPANS),
        "answer_text": tuple(f"mastra.{span}.output#text" for span in _ANSWERING),
        "answer_calls": tuple(f"mastra.{span}.output#toolCalls" for span in _ANSWERING),
        "output": tuple(f"json mastra.{span}.output" for span in _MASTRA_SPANS),
        "finish_reasons": tuple(f"mastra.{span}.output#finishReason" for span in _ANSWERING),
        "session_id": (f"{_METADATA}.sessionId",),
        "user_id": (f"{_METADATA}.userId", f"{_METADATA}.resourceId"),
    },
    capture="Mastra sends it unless its observability hides input and output",
)

_STEP = "haystack.agent.step"
_ABOUT_REPLY = (
    "haystack.component.output#replies.0.meta",  # beside a message
    f"{_STEP}.llm.output#replies.0.meta",  # of an agent's model, from 3.0 on
    "haystack.component.output#meta.0",  # in a list beside texts
    "haystack.component.output#meta",  # beside vectors
)


def _of_reply(*members: str) -> tuple[str, ...]:
    return tuple(f"{where}.{member}" for where in _ABOUT_REPLY for member in members)


HAYSTACK = Dialect(
    name="haystack",
    signs=(Sign(scope="haystack"), Sign(key="haystack.")),
    kinds=(
        Kinds(
            key="haystack.component.type",
            values={
                "*generator": "llm",
                "*retriever": "retriever",
                "*ranker": "retriever",
                "*textembedder": "embedding",
                "*documentembedder": "embedding",
                "*evaluator": "evaluator",
                "agent": "agent",
                "": "chain",
            },
        ),
        Kinds(key="haystack.tool.name", values={"": "tool"}),
    ),
    span_names={
        f"{_STEP}.llm": "llm",
        _STEP: "chain",  # also the span around all tools of a step, without a tool's name in 3.0
        "haystack.agent": "agent",
        "haystack.": "chain",
    },
    places={
        "input": (
            "haystack.agent.input",
            f"{_STEP}.llm.input",
            f"{_STEP}.tool.input",
            "haystack.component.input#query",
            "haystack.component.input#text",
            "haystack.component.input",
            "haystack.pipeline.input_data",
        ),
        "output": (
            "haystack.agent.output",
            f"{_STEP}.llm.output",
            f"{_STEP}.tool.output",
            "haystack.component.output",
            "haystack.pipeline.output_data",
        ),
        "tool_name": ("haystack.tool.name",),
        "failed": ("haystack.tool.error=true",),
        "tool_definitions": ("haystack.component.input#tools", f"{_STEP}.llm.input#tools", "haystack.agent.tools"),
        "model": _of_reply("model"),
        "finish_reasons": _of_reply("finish_reason"),
        "input_tokens": _of_reply("usage.prompt_tokens", "usage.input_tokens"),
        "output_tokens": _of_reply("usage.completion_tokens", "usage.output_tokens"),
        "cached_tokens": _of_reply("usage.prompt_tokens_details.cached_tokens", "usage.cache_read_input_tokens"),
        "cached_apart": _of_reply("usage.cache_read_input_tokens", "usage.cache_creation_input_tokens"),
        "reasoning_tokens": _of_reply("usage.completion_tokens_details.reasoning_tokens", "usage.thoughts_token_count"),
        "total_tokens": _of_reply("usage.total_tokens"),
    },
    capture="set HAYSTACK_CONTENT_TRACING_ENABLED=true where the application runs",
    has_one_switch=True,
)

_USAGE = "metadata.usage_object"
_SERVICES = (
    "ai21_chat", "aiml", "anthropic", "azure", "azure_ai", "baseten", "bedrock", "bedrock_converse", "cerebras",
    "cloudflare", "codestral", "cohere", "cohere_chat", "custom_openai", "dashscope", "databricks", "datarobot",
    "deepinfra", "deepseek", "featherless_ai", "fireworks_ai", "friendliai", "gemini", "github", "github_copilot",
    "groq", "hosted_vllm", "huggingface", "hyperbolic", "lambda_ai", "litellm_proxy", "llamafile", "lm_studio",
    "meta_llama", "minimax", "mistral", "moonshot", "nebius", "novita", "nscale", "nvidia_nim", "ollama",
    "ollama_chat", "openai", "openai_like", "openrouter", "perplexity", "replicate", "sagemaker_chat", "sambanova",
    "snowflake", "together_ai", "vercel_ai_gateway", "vertex_ai", "vertex_ai_beta", "volcengine", "watsonx", "xai",
    "zai",
)  # fmt: skip
"""Services whose names are part of the keys (`llm.SERVICE.…`) in which LiteLLM records requests and responses."""


def _of_service(*members: str) -> tuple[str, ...]:
    return tuple(f"llm.{service}.{member}" for service in _SERVICES for member in members)


LITELLM = Dialect(
    name="litellm",
    signs=(Sign(scope="litellm"), Sign(key="litellm.")),
    places={
        "input_messages": _of_service("messages"),
        "output_messages": _of_service("choices", "content"),
        "calls_beside": ("scope litellm/gen_ai.completion.*",),
        "system": _of_service("system"),
        "tool_definitions": _of_service("tools"),
        "model": _of_service("model"),
        "input_tokens": _of_service("usage#prompt_tokens", "usage#input_tokens"),
        "output_tokens": _of_service("usage#completion_tokens", "usage#output_tokens"),
        "cached_tokens": (
            f"{_USAGE}#prompt_tokens_details.cached_tokens",
            f"{_USAGE}#cache_read_input_tokens",
            *_of_service("usage#prompt_tokens_details.cached_tokens", "usage#cache_read_input_tokens"),
        ),
        "cached_apart": tuple(
            f"llm.{service}.usage#{name}"
            for service in ("anthropic", "vertex_ai", "bedrock")
            for name in ("cache_read_input_tokens", "cache_creation_input_tokens")
        ),
        "reasoning_tokens": (
            f"{_USAGE}#completion_tokens_details.reasoning_tokens",
            *_of_service("usage#completion_tokens_details.reasoning_tokens"),
        ),
        "written_tokens": (f"{_USAGE}#cache_creation_input_tokens",),
        "cost_usd": ("gen_ai.cost.total_cost", "hidden_params#response_cost"),
        "user_id": ("llm.user", "metadata.user_api_key_end_user_id"),
        "session_id": ("only metadata.session_id",),
    },
    capture=(
        "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY, since true sends events alone, "
        "and do not turn off message_logging of LiteLLM's callback"
    ),
)
