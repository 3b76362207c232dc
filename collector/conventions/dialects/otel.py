"""OpenTelemetry's own GenAI conventions, of every age, and the libraries that follow them with small differences."""

from collector.conventions.table import Dialect, Kinds, Sign
from storage.records import SpanType

OPERATIONS: dict[str, SpanType] = {
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "fetch_response": "llm",
    "response": "llm",
    "llm_call": "llm",
    "embeddings": "embedding",
    "retrieval": "retriever",
    "rerank": "retriever",
    "execute_tool": "tool",
    "tool_call": "tool",
    "invoke_agent": "agent",
    "agent_call": "agent",
    "invoke_workflow": "chain",
    "plan": "chain",
    "chain": "chain",
    "agent_step": "chain",
    "user_prompt": "chain",
    "execute_event_loop_cycle": "chain",
    "execute_task": "chain",
    "agent_handoff": "chain",  # of OpenAI's agents
    "guardrail_check": "evaluator",
    "create_agent": "other",
    "search_memory": "retriever",
}

_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"
_CAPTURE = f"set {_VARIABLE}=SPAN_ONLY where the application runs; older libraries take true, and send log records"
_CAPTURE_LATEST = f"set {_OPT_IN} and {_VARIABLE}=SPAN_ONLY where the application runs; true is rejected"
_CAPTURE_IN_LOGS = f"set {_VARIABLE}=true where the application runs, and send its log records too"
CAPTURE_OF_AGENTS = (
    f"OpenTelemetry's instrumentation: unset {_VARIABLE}, or set SPAN_ONLY; that of OpenLLMetry: unset "
    "TRACELOOP_TRACE_CONTENT=false where the application runs"
)

_LEAVING_CACHED_OUT = (
    "openlit.instrumentation.anthropic",
    "openlit.instrumentation.bedrock",
    "opentelemetry.instrumentation.bedrock",
    "opentelemetry.instrumentation.botocore",
)
"""Libraries that pass on the counts of Anthropic and Bedrock, whose input tokens exclude the cached ones."""

OTEL_GENAI = Dialect(
    name="otel_genai",
    signs=(Sign(key="gen_ai."),),
    kinds=(
        Kinds(key="gen_ai.operation.name", values=OPERATIONS),
        Kinds(key="gen_ai.tool.name", values={"(merged tools)": "other"}, is_first=True),  # of ADK: no call
        Kinds(key="gen_ai.tool.name", values={"": "tool"}),
        Kinds(key="gen_ai.tool.call.id", values={"": "tool"}),
        Kinds(key="gen_ai.request.model", values={"": "llm"}),
        Kinds(key="gen_ai.response.model", values={"": "llm"}),
    ),
    places={
        "input_messages": (
            "gen_ai.input.messages",
            "gen_ai.prompt.*",
            "event gen_ai.client.inference.operation.details/gen_ai.input.messages",
            "event gen_ai.content.prompt/gen_ai.prompt",
        ),
        "finish_reasons": (
            "gen_ai.response.finish_reasons",
            "gen_ai.response.finish_reason",  # Semantic Kernel
            "gen_ai.response.stop_reason",
            "anthropic.message.stop_reason",  # Anthropic's own spans
            "event gen_ai.client.inference.operation.details/gen_ai.response.finish_reasons",
            "event gen_ai.choice/finish_reason",
        ),
        "output_messages": (
            "gen_ai.output.messages",
            "gen_ai.completion.*",
            "event gen_ai.client.inference.operation.details/gen_ai.output.messages",
            "event gen_ai.content.completion/gen_ai.completion",
        ),
        "system": (
            "gen_ai.system_instructions",
            "event gen_ai.client.inference.operation.details/gen_ai.system_instructions",
        ),
        "input": ("gen_ai.retrieval.query.text",),
        "output": ("gen_ai.retrieval.documents",),
        "tool_name": ("gen_ai.tool.name",),
        "tool_call_id": ("gen_ai.tool.call.id",),
        "tool_arguments": (
            "gen_ai.tool.call.arguments",
            "gen_ai.tool.args",  # OpenLIT, also on spans of models
            "event gen_ai.tool.message/content",
        ),
        "tool_result": ("gen_ai.tool.call.result", "event gen_ai.choice/message"),
        "tool_definitions": (
            "gen_ai.tool.definitions",
            "event gen_ai.client.inference.operation.details/gen_ai.tool.definitions",
        ),
        "model": ("gen_ai.response.model",),
        "asked_model": ("gen_ai.request.model",),
        "provider": ("gen_ai.provider.name", "gen_ai.system"),
        "input_tokens": (
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.prompt_tokens",
            "gen_ai.aggregated_usage.input_tokens",
            "event gen_ai.client.inference.operation.details/gen_ai.usage.input_tokens",
        ),
        "output_tokens": (
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "gen_ai.aggregated_usage.output_tokens",
            "event gen_ai.client.inference.operation.details/gen_ai.usage.output_tokens",
        ),
        "cached_tokens": (
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_read_input_tokens",
            "gen_ai.usage.cached_tokens",
            "gen_ai.usage.details.cache_read_tokens",
            "gen_ai.usage.details.cached_tokens",
            "gen_ai.usage.details.cached_content_tokens",
            "gen_ai.usage.prompt_tokens_details.cached_tokens",
            "gen_ai.usage.input_cached_tokens",
            "gen_ai.aggregated_usage.cache_read.input_tokens",
            "gen_ai.aggregated_usage.details.cached_content_tokens",
            "event gen_ai.client.inference.operation.details/gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.raw#prompt_tokens_details.cached_tokens",
            "gen_ai.usage.raw#input_tokens_details.cached_tokens",
            "gen_ai.usage.raw#cache_read_input_tokens",
        ),
        "made_up_ids": tuple(
            f"scope opentelemetry.instrumentation.google_genai/gen_ai.{side}.messages" for side in ("output", "input")
        ),
        "cached_apart": tuple(
            f"scope {scope}/gen_ai.usage.{cached}input_tokens"
            for scope in _LEAVING_CACHED_OUT
            for cached in ("cache_read.", "cache_creation.", "cache_write.", "cache_read_", "cache_creation_")
        ),
        "reasoning_tokens": (
            "gen_ai.usage.reasoning.output_tokens",
            "gen_ai.usage.reasoning_tokens",
            "gen_ai.usage.reasoning_output_tokens",
            "gen_ai.usage.thinking_tokens",
            "gen_ai.usage.thoughts_tokens",
            "gen_ai.usage.details.reasoning_tokens",
            "gen_ai.usage.details.thoughts_tokens",
            "gen_ai.usage.details.thinking_tokens",
            "gen_ai.usage.completion_tokens_details.reasoning_tokens",
            "gen_ai.usage.experimental.reasoning_tokens",
            "gen_ai.aggregated_usage.reasoning.output_tokens",
            "gen_ai.aggregated_usage.details.reasoning_tokens",
            "gen_ai.aggregated_usage.details.thoughts_tokens",
            "codex.usage.reasoning_output_tokens",
            "llm.usage.reasoning_tokens",
            "event gen_ai.client.inference.operation.details/gen_ai.usage.reasoning.output_tokens",
            "gen_ai.usage.raw#completion_tokens_details.reasoning_tokens",
            "gen_ai.usage.raw#output_tokens_details.reasoning_tokens",
        ),
        "written_tokens": (
            "gen_ai.usage.cache_creation.input_tokens",
            "gen_ai.usage.cache_write.input_tokens",
            "gen_ai.usage.cache_creation_input_tokens",
            "gen_ai.usage.cache_write_input_tokens",
            "gen_ai.usage.prompt_tokens_details.cache_creation_tokens",
            "gen_ai.usage.details.cache_write_tokens",
            "gen_ai.aggregated_usage.cache_creation.input_tokens",
            "gen_ai.usage.raw#cache_creation_input_tokens",
        ),
        "total_tokens": ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "codex.usage.total_tokens"),
        "cost_usd": ("gen_ai.usage.cost", "operation.cost"),
        "session_id": ("session.id", "gen_ai.conversation.id"),
        "user_id": ("user.id", "enduser.id"),
        "error_type": ("error.type",),
        "response_id": ("gen_ai.response.id",),
        "failed": ("gen_ai.tool.status=error", "gen_ai.task.status=error"),
    },
    capture=_CAPTURE,
    captures={
        "opentelemetry.util.genai": _CAPTURE_LATEST,
        "opentelemetry.instrumentation.google_genai": _CAPTURE_LATEST,
        "opentelemetry.instrumentation.openai_v2": f"{_CAPTURE_LATEST} since 2.4. Before: {_CAPTURE_IN_LOGS}",
        "opentelemetry.instrumentation.botocore": _CAPTURE_IN_LOGS,
    },
    has_one_switch=True,
)

GEMINI_CLI = Dialect(
    name="gemini_cli",
    signs=(
        Sign(key="gen_ai.agent.name", value="gemini-cli"),
        Sign(resource="service.name", value="gemini-cli", with_genai=True),
    ),
    capture="set telemetry.logPrompts in the settings of Gemini CLI",
)

AGENT_FRAMEWORK = Dialect(
    name="agent_framework",
    signs=(Sign(scope="agent_framework"),),
    span_names={"workflow.": "chain", "executor.": "chain", "edge_group.": "chain"},
    capture="set ENABLE_SENSITIVE_DATA=true where the application runs",
    has_one_switch=True,
)

SEMANTIC_KERNEL = Dialect(
    name="semantic_kernel",
    signs=(Sign(scope="semantic_kernel"), Sign(scope="Microsoft.SemanticKernel")),
    capture=(
        "set SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true where the application runs, "
        "and send its log records too"
    ),
    has_one_switch=True,
)

AG2 = Dialect(
    name="ag2",
    signs=(Sign(scope="opentelemetry.instrumentation.ag2"), Sign(key="ag2.span.type")),
    kinds=(
        Kinds(  # calls of the model without a span of their own; what else is recorded repeats calls, or sums them up
            key="ag2.usage.kind",
            values={"compaction": "llm", "aggregation": "llm", "": "other"},
        ),
        Kinds(
            key="ag2.span.type",
            values={
                "agent": "agent",
                "llm": "llm",
                "tool": "tool",
                "human_input": "other",
                "usage": "other",
                "agent_event": "other",
                "": "chain",
            },
        ),
    ),
    places={
        "input": ("ag2.human_input.prompt",),
        "output": ("ag2.human_input.response", "ag2.code_execution.output"),
    },
    capture="set capture_content=True in the TelemetryMiddleware of AG2",
    has_one_switch=True,
)

AUTOGEN = Dialect(
    name="autogen",
    signs=(Sign(key="gen_ai.system", value="autogen"),),
    capture="AutoGen sends none; instrument its model client",
)

OPENLIT = Dialect(
    name="openlit",
    signs=(Sign(scope="openlit"), Sign(resource="telemetry.sdk.name", value="openlit", with_genai=True)),
    places={
        "call_ids": ("only kind llm/gen_ai.tool.call.id",),
        "texts_of_blocks": tuple(
            f"scope openlit.instrumentation.langchain/gen_ai.{side}.messages" for side in ("input", "output")
        ),
    },
    capture=f"unset {_VARIABLE}=false, and do not pass capture_message_content=False to openlit.init",
    has_one_switch=True,
)

STRANDS = Dialect(
    name="strands",
    signs=(
        Sign(scope="strands.telemetry.tracer"),
        Sign(key="gen_ai.system", value="strands-agents"),
        Sign(key="gen_ai.provider.name", value="strands-agents"),
    ),
    capture="Strands Agents sends it, unless gen_ai_unredacted_attributes in OTEL_SEMCONV_STABILITY_OPT_IN does not",
)

ADK = Dialect(
    name="adk",
    signs=(
        Sign(scope="gcp.vertex.agent"),
        Sign(key="gen_ai.system", value="gcp.vertex.agent"),
        Sign(key="gcp.vertex.agent."),
    ),
    span_names={
        "invocation": "chain",
        "agent_run": "agent",
        "invoke_agent": "agent",
        "call_llm": "llm",
        "execute_tool (merged)": "other",
        "execute_tool": "tool",
    },
    places={
        "input": ("gcp.vertex.agent.llm_request",),
        "output": ("gcp.vertex.agent.llm_response",),
        "raw_answer": ("kind llm/gcp.vertex.agent.llm_response",),
        "tool_arguments": ("gcp.vertex.agent.tool_call_args",),
        "tool_result": ("gcp.vertex.agent.tool_response",),
        "tool_definitions": ("gcp.vertex.agent.llm_request#config.tools",),
        "cached_tokens": ("gcp.vertex.agent.llm_response#usage_metadata.cached_content_token_count",),
        "reasoning_tokens": ("gcp.vertex.agent.llm_response#usage_metadata.thoughts_token_count",),
        "total_tokens": ("gcp.vertex.agent.llm_response#usage_metadata.total_token_count",),
        "total_as_output": ("gcp.vertex.agent.llm_response#usage_metadata.total_token_count",),  # until version 1.8
        "made_up_ids": (
            "gcp.vertex.agent.event_id",
            "only gen_ai.output.messages",
            "only gen_ai.input.messages",
            "gcp.vertex.agent.llm_response",
            "gcp.vertex.agent.llm_request",
            "scope openinference.instrumentation.google_adk/output.value",
        ),
        "session_id": ("gcp.vertex.agent.session_id",),
    },
    capture=(
        f"unset ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false, or set {_OPT_IN} and {_VARIABLE}=SPAN_ONLY where the "
        "application runs"
    ),
    has_one_switch=True,
)
