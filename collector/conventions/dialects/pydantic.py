"""Pydantic AI, and Logfire's instrumentation of model clients."""

from collector.conventions.table import Dialect, Kinds, Sign

PYDANTIC_AI = Dialect(
    name="pydantic_ai",
    signs=(Sign(scope="pydantic-ai"), Sign(key="pydantic_ai."), Sign(key="model_request_parameters")),
    kinds=(
        Kinds(key="pydantic_ai.all_messages", values={"": "agent"}),
        Kinds(key="all_messages_events", values={"": "agent"}),
    ),
    span_names={"agent run": "agent", "running tools": "chain"},
    places={
        "trajectory": ("pydantic_ai.all_messages", "all_messages_events", "only events"),
        "marked_ids": (
            "only gen_ai.output.messages",
            "pydantic_ai.all_messages",
            "all_messages_events",
            "only events",
        ),  # models are sent these ids in later requests
        "output": ("only final_result",),
        "tool_arguments": ("only tool_arguments",),
        "tool_result": ("only tool_response",),
        "tool_definitions": ("model_request_parameters#function_tools",),
        "asked_model": ("only model_name",),
    },
    capture="set include_content=True in the InstrumentationSettings of Pydantic AI",
    has_one_switch=True,
)

LOGFIRE = Dialect(
    name="logfire",
    signs=(
        Sign(scope="logfire.openai"),
        Sign(scope="logfire.openai_agents"),
        Sign(scope="logfire.anthropic"),
        Sign(scope="logfire.google"),
        Sign(key="response_data"),
    ),
    kinds=(Kinds(key="response_data", values={"": "llm"}),),
    span_names={  # of OpenAI's agents
        "Agent run": "agent",
        "Function: ": "tool",
        "Responses API": "llm",
        "Chat completion": "llm",
        "Guardrail ": "evaluator",
        **dict.fromkeys(("OpenAI Agents trace", "Task: ", "Turn ", "Handoff", "Custom span", "MCP"), "chain"),
    },
    places={
        "input_messages": ("only raw_input", "only kind llm/input"),
        "output_messages": ("only response",),
        "system": ("only response#instructions",),
        "tool_name": ("only kind tool/name",),
        "session_id": ("only group_id",),
        "user_id": ("only metadata#user_id",),
        "pending": ("logfire.span_type=pending_span",),
        "trajectory": ("only events",),
        "input": ("only request_data",),
        "output": ("only response_data#message", "only response_data#combined_chunk_content"),
        "tool_definitions": ("only request_data#tools", "only response#tools"),
        "asked_model": ("only request_data#model",),
        "input_tokens": (
            "only response_data#usage.prompt_tokens",
            "only response_data#usage.input_tokens",
        ),
        "cached_tokens": (
            "only response_data#usage.prompt_tokens_details.cached_tokens",
            "only response_data#usage.input_tokens_details.cached_tokens",
            "only response_data#usage.cache_read_input_tokens",
            "only usage#input_tokens_details.cached_tokens",
            "only response_data#usage.cached_content_token_count",
        ),
        "reasoning_tokens": (
            "only usage#output_tokens_details.reasoning_tokens",
            "only response_data#usage.completion_tokens_details.reasoning_tokens",
            "only response_data#usage.output_tokens_details.reasoning_tokens",
            "only response_data#usage.thoughts_token_count",
        ),
        "total_tokens": ("only response_data#usage.total_tokens",),
        "error": ("only error",),
        "cached_apart": (
            "only response_data#usage.cache_read_input_tokens",
            "only response_data#usage.cache_creation_input_tokens",
        ),
        "output_tokens": (
            "only response_data#usage.completion_tokens",
            "only response_data#usage.output_tokens",
        ),
    },
    capture="Logfire sends it unless it is scrubbed",
)
