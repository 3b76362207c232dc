# mypy: ignore-errors
# the libraries are those of record_otel_openai_v2.txt
"""OpenTelemetry's own contrib with the latest conventions: the content on spans, or in events."""

import os
import sys

from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

from tests.corpus.record import expect, openai_application, script
from tests.corpus.record.expect import Expected
from tests.corpus.record.recording import export_logs, export_traces, recording


class Contrib(openai_application.Dialect):
    """A dialect with the span names of the conventions."""

    dialect = "otel_genai"
    lost = frozenset({"tool_definitions", "cached_tokens", "reasoning_tokens"})

    def chat(self, question: str, turn: int, *, is_streamed: bool = False) -> Expected:
        """Claim no message, and no text, if its content is a list."""
        lost = {"input": None, "input_messages": [{"role": "user", "parts": []}]} if question == script.PICTURE else {}
        return super().chat(question, turn, is_streamed=is_streamed) | lost

    def embedding(self) -> Expected:
        """Claim an embedding without its text."""
        return super().embedding() | {"input": None}

    def trace_of(self, question: str, spans: list[Expected]) -> Expected:
        """Claim no text of the trace if its span lost it."""
        lost = {"input": None} if question == script.PICTURE else {}
        return expect.without_none(super().trace_of(question, spans) | lost)

    def expected(self, spans: list[Expected], whole: Expected) -> Expected:
        """Expect nothing else to be missing, but the application's span names no dialect."""
        kept = [span if span.get("dialect", "") is None else expect.without_none(span) for span in spans]
        return super().expected(kept, whole)


def main() -> None:
    """Record the dialect: the argument says whether the content goes on spans or in events."""
    from openai import OpenAI

    capture = sys.argv[1]
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = capture
    if capture == "EVENT_ONLY":
        os.environ["OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT"] = "true"
    with recording({"SPAN_ONLY": "otel-openai-v2-spans", "EVENT_ONLY": "otel-openai-v2-events"}[capture]) as recorder:
        export_traces(recorder)
        export_logs(recorder)
        OpenAIInstrumentor().instrument()
        openai_application.record(recorder, OpenAI(), Contrib(), responses_api=False)


if __name__ == "__main__":
    main()
