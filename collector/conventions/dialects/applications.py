"""Frameworks and applications with names of their own: Spring AI, Claude Code, Genkit, LiveKit and more."""

from collector.conventions.table import Dialect, Kinds, Sign

SPRING_AI = Dialect(
    name="spring_ai",
    signs=(Sign(key="spring.ai."), Sign(scope="org.springframework.boot", with_genai=True)),
    kinds=(
        Kinds(
            key="spring.ai.kind",
            values={"chat_client": "chain", "advisor": "chain", "tool_call": "tool", "vector_store": "retriever"},
        ),
    ),
    places={
        "tool_name": ("spring.ai.tool.definition.name",),
        "tool_call_id": ("spring.ai.tool.call.id",),
        "tool_arguments": ("spring.ai.tool.call.arguments",),
        "tool_result": ("spring.ai.tool.call.result",),
        "session_id": ("spring.ai.chat.client.conversation.id",),
    },
    capture="Spring AI puts none on spans; spring.ai.tools.observations.include-content=true adds that of tools",
)

LANGCHAIN4J = Dialect(
    name="langchain4j",
    signs=(Sign(key="outcome", with_genai=True),),
    places={
        "input_tokens": ("only input_tokens",),
        "output_tokens": ("only output_tokens",),
        "error_type": ("only error",),
        "failed": ("only outcome=error",),
    },
    capture="LangChain4j puts none on spans; use its OpenInference instrumentation",
)

CLAUDE_CODE = Dialect(
    name="claude_code",
    signs=(Sign(scope="claude-code"), Sign(scope="com.anthropic.claude_code"), Sign(span="claude_code.")),
    kinds=(
        Kinds(
            key="span.type",
            values={
                "interaction": "agent",
                "llm_request": "llm",
                "tool": "tool",
                "tool_execution": "chain",
                "agent": "agent",
                "llm": "llm",
                "retriever": "retriever",
                "embedding": "embedding",
                "workflow": "chain",
                "memory": "retriever",
                "guardrail": "evaluator",
            },
        ),
    ),
    span_names={
        "claude_code.interaction": "agent",
        "claude_code.llm_request": "llm",
        "claude_code.tool.": "chain",  # waiting for the user, and the execution, below the tool
        "claude_code.tool": "tool",
    },
    places={
        "input": ("only user_prompt", "only new_context"),
        "answer_text": ("only response.model_output",),
        "tool_name": ("only tool_name",),
        "tool_call_id": ("only tool_use_id",),
        "tool_arguments": ("only tool.input", "only tool_input"),
        "tool_result": ("only tool.output", "event tool.output/output", "event tool.output/content"),
        "asked_model": ("only model",),
        "input_tokens": ("only input_tokens",),
        "output_tokens": ("only output_tokens",),
        "cached_tokens": ("only cache_read_tokens",),
        "cached_apart": ("only cache_read_tokens", "only cache_creation_tokens"),
        "finish_reasons": ("only stop_reason",),
        "cost_usd": ("event claude_code.api_request/cost_usd",),
        "error": ("only error",),
        "failed": ("only success=false",),
    },
    capture="set OTEL_LOG_USER_PROMPTS=1 where Claude Code runs",
)

_CODEX_TURN = "codex.turn.token_usage"

CODEX = Dialect(
    name="codex",
    signs=(
        Sign(key="codex."),
        *(
            Sign(scope=f"codex{program}")
            for program in ("_exec", "_cli_rs", "_tui", "-tui", "_vscode", "_app_server", "-app-server", "_mcp_server")
        ),
    ),
    kinds=(
        Kinds(key="codex.tool.phase", values={"": "tool"}),
        Kinds(key="codex.usage.total_tokens", values={"": "llm"}),  # the end of an answer; no other record has it
    ),
    span_names={
        "session_task.turn": "agent",
        "run_hooks_and_record_inputs": "chain",  # the log record of the prompt belongs to this span
        "dispatch_tool_call_with_state": "chain",  # below the tool's span; the log record of the result belongs to it
    },
    places={
        "input": ("event codex.user_prompt/prompt",),
        "tool_name": ("only tool_name",),
        "tool_call_id": ("only call_id",),
        "asked_model": ("only model",),
        "input_tokens": (f"{_CODEX_TURN}.input_tokens",),
        "output_tokens": (f"{_CODEX_TURN}.output_tokens",),
        "cached_tokens": (f"{_CODEX_TURN}.cached_input_tokens",),
        "reasoning_tokens": (f"{_CODEX_TURN}.reasoning_output_tokens",),
        "session_id": ("only conversation.id", "only thread_id", "event codex.user_prompt/conversation.id"),
    },
    capture="set exporter and log_user_prompt = true in [otel] of Codex's config.toml, whose log records tell it",
)

GENKIT = Dialect(
    name="genkit",
    signs=(Sign(key="genkit:"),),
    kinds=(
        Kinds(
            key="genkit:metadata:subtype",
            values={
                "model": "llm",
                "tool": "tool",
                "flow": "chain",
                "agent": "agent",
                "retriever": "retriever",
                "reranker": "retriever",
                "embedder": "embedding",
                "evaluator": "evaluator",
            },
        ),
    ),
    places={
        "input": ("json genkit:input",),
        "output": ("json genkit:output",),
        "reply": ("kind llm/genkit:output#raw",),
        "tool_name": ("genkit:name",),
        "tool_definitions": ("kind llm/genkit:input#tools",),
        "model": ("kind llm/genkit:output#raw.model", "kind llm/genkit:output#raw.modelVersion"),
        "asked_model": ("kind llm/genkit:name",),
        "input_tokens": ("genkit:output#usage.inputTokens",),
        "output_tokens": ("genkit:output#usage.outputTokens",),
        "cached_tokens": (
            "genkit:output#usage.cachedContentTokens",
            "genkit:output#raw.usage.prompt_tokens_details.cached_tokens",
            "genkit:output#raw.usage.cache_read_input_tokens",
        ),
        "reasoning_tokens": (
            "genkit:output#usage.thoughtsTokens",
            "genkit:output#raw.usage.completion_tokens_details.reasoning_tokens",
        ),
        "written_tokens": ("genkit:output#raw.usage.cache_creation_input_tokens",),
        "total_tokens": ("genkit:output#usage.totalTokens",),
        "session_id": ("genkit:sessionId",),
        "failed": ("genkit:state=error",),
    },
    capture="do not set disableLoggingInputAndOutput in the telemetry configuration",
    has_one_switch=True,
)

LIVEKIT = Dialect(
    name="livekit",
    signs=(Sign(key="lk."), Sign(scope="livekit-agents")),
    span_names={
        "agent_session": "chain",
        "agent_turn": "agent",
        "user_turn": "chain",
        "llm_node": "chain",
        "llm_request": "llm",
        "function_tool": "tool",
    },
    places={
        "input_messages": ("lk.chat_ctx",),
        "input": ("lk.input_text", "lk.user_transcript", "lk.user_input"),
        "answer_text": ("lk.response.text",),
        "answer_calls": ("lk.response.function_calls",),
        "tool_name": ("lk.function_tool.name",),
        "tool_call_id": ("lk.function_tool.id",),
        "tool_arguments": ("lk.function_tool.arguments",),
        "tool_result": ("lk.function_tool.output",),
        "failed": ("lk.function_tool.is_error=true",),
    },
    capture="LiveKit sends transcripts and responses",
)


def _volt_usage(*names: str) -> tuple[str, ...]:
    return tuple(f"only {where}.{name}" for where in ("usage", "llm.usage") for name in names)


VOLTAGENT = Dialect(
    name="voltagent",
    signs=(Sign(key="voltagent."), Sign(scope="@voltagent/")),
    kinds=(
        Kinds(
            key="entity.type",
            values={
                "agent": "agent",
                "subagent": "agent",
                "llm": "llm",
                "tool": "tool",
                "retriever": "retriever",
                "embedding": "embedding",
                "guardrail": "evaluator",
                **dict.fromkeys(("workflow", "workflow-step", "memory", "summary", "middleware"), "chain"),
            },
        ),
    ),
    sure_names={
        **dict.fromkeys(("memory.write", "memory.save", "memory.steps.write"), "other"),
        "memory.semantic": "retriever",
    },
    places={
        "input_messages": ("agent.messages", "llm.messages"),
        "system": ("only agent.instructions",),
        "tool_name": ("only tool.name",),
        "tool_call_id": ("only tool.call.id", "only tool.callId"),
        "tool_arguments": ("only tool.arguments", "only tool.input"),
        "tool_result": ("only tool.result", "only tool.output"),
        "model": ("only llm.response.model", "only ai.response.model"),
        "asked_model": ("only llm.model", "only ai.model.name", "only agent.model"),
        "provider": ("only llm.provider", "only ai.model.provider"),
        "input_tokens": _volt_usage("prompt_tokens", "input_tokens"),
        "output_tokens": _volt_usage("completion_tokens", "output_tokens"),
        "cached_tokens": _volt_usage("cached_tokens", "cached_input_tokens"),
        "reasoning_tokens": _volt_usage("reasoning_tokens"),
        "cost_usd": _volt_usage("cost"),
        "session_id": ("voltagent.conversation_id", "only conversation.id"),
        "history": ("only memory.semantic=false",),
    },
    capture="VoltAgent sends it",
)
