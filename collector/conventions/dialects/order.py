"""The order in which dialects are recognised, fields are looked up, and the kind of a span is decided."""

from collector.conventions.dialects import applications, frameworks, generic, openllmetry, otel, platforms, pydantic
from collector.conventions.dialects.openinference import OPENINFERENCE
from collector.conventions.dialects.vercel import VERCEL
from collector.conventions.table import Dialect

DIALECTS: tuple[Dialect, ...] = (
    platforms.LANGFUSE,
    OPENINFERENCE,
    platforms.LANGSMITH,
    platforms.MLFLOW,
    pydantic.PYDANTIC_AI,
    pydantic.LOGFIRE,
    applications.VOLTAGENT,
    VERCEL,
    otel.ADK,
    otel.STRANDS,
    applications.CLAUDE_CODE,
    applications.CODEX,
    applications.LANGCHAIN4J,
    applications.SPRING_AI,
    applications.GENKIT,
    applications.LIVEKIT,
    platforms.LAMINAR,
    frameworks.MASTRA,
    frameworks.HAYSTACK,
    frameworks.LITELLM,
    otel.GEMINI_CLI,
    otel.AGENT_FRAMEWORK,
    otel.SEMANTIC_KERNEL,
    otel.AUTOGEN,
    otel.AG2,
    otel.OPENLIT,
    openllmetry.OPENLLMETRY,
    otel.OTEL_GENAI,
    generic.DOKIMOS,
    generic.GENERIC,
)
"""Dialects in the order of recognition: the first with a sign on the span wins; weak signs come after all others."""

SOURCES: tuple[Dialect, ...] = (
    generic.DOKIMOS,
    platforms.LANGFUSE,
    frameworks.MASTRA,
    otel.OTEL_GENAI,
    OPENINFERENCE,
    VERCEL,
    openllmetry.OPENLLMETRY,
    pydantic.PYDANTIC_AI,
    pydantic.LOGFIRE,
    platforms.MLFLOW,
    platforms.LANGSMITH,
    applications.SPRING_AI,
    otel.ADK,
    applications.CLAUDE_CODE,
    applications.CODEX,
    applications.GENKIT,
    applications.LIVEKIT,
    platforms.LAMINAR,
    applications.VOLTAGENT,
    applications.LANGCHAIN4J,
    frameworks.HAYSTACK,
    frameworks.LITELLM,
    otel.OPENLIT,
    otel.AG2,
    generic.GENERIC,
)
"""Dialects in the order in which their keys are looked up on every span, whatever its dialect: the first value wins."""

NAMING: tuple[Dialect, ...] = tuple(dialect for dialect in DIALECTS if dialect.span_names or dialect.sure_names)
"""Dialects that decide the kind of a span by its name."""

BY_NAME = "(the name of the span)"

KIND_ORDER: tuple[str, ...] = (
    "langfuse.observation.type",
    "openinference.span.kind",
    "langsmith.span.kind",
    "gen_ai.operation.name",
    "codex.tool.phase",
    "codex.usage.total_tokens",
    "ag2.usage.kind",
    "ag2.span.type",
    "mlflow.spanType",
    "traceloop.span.kind",
    "spring.ai.kind",
    "genkit:metadata:subtype",
    "lmnr.span.type",
    "mastra.span.type",
    "haystack.component.type",
    "haystack.tool.name",
    "span.type",
    "entity.type",
    "ai.operationId",
    "operation.name",
    BY_NAME,
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "tool.name",
    "pydantic_ai.all_messages",
    "all_messages_events",
    "llm.request.type",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "llm.model_name",
    "response_data",
)
"""Keys that decide the kind of a span, strongest first; before them come keys and names that override (`is_first`)."""

MODEL_NAMES: frozenset[str] = frozenset({"gen_ai.request.model", "gen_ai.response.model", "llm.model_name"})
"""Keys of `KIND_ORDER` that only name a model. A span with one may also be a record of a call's usage."""
