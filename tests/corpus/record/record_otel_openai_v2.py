# mypy: ignore-errors
# the libraries are those of record_otel_openai_v2.txt
"""The instrumentation of OpenTelemetry's own contrib on the OpenAI client: the content in log records."""

import os

from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

from tests.corpus.record import expect, openai_application
from tests.corpus.record.expect import Expected
from tests.corpus.record.recording import export_logs, export_traces, recording


class Contrib(openai_application.Dialect):
    """A dialect with the span names of the conventions."""

    dialect = "otel_genai"
    lost = frozenset({"tool_definitions", "cached_tokens", "reasoning_tokens"})

    def embedding(self) -> Expected:
        """Claim an embedding without its text."""
        return expect.without_none(super().embedding() | {"input": None})


def main() -> None:
    """Record the dialect."""
    from openai import OpenAI

    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"
    with recording("otel-openai-v2") as recorder:
        export_traces(recorder)
        export_logs(recorder)
        OpenAIInstrumentor().instrument()
        openai_application.record(recorder, OpenAI(), Contrib(), responses_api=False)


if __name__ == "__main__":
    main()
