# mypy: ignore-errors
# the libraries are those of record_openllmetry_openai_prompts.txt
"""OpenLLMetry (Traceloop) on the OpenAI client before 0.53: numbered prompt attributes."""

from opentelemetry.instrumentation.openai import OpenAIInstrumentor

from tests.corpus.record import expect, openai_application
from tests.corpus.record.expect import Expected
from tests.corpus.record.recording import export_traces, recording


class OpenLLMetry(openai_application.Dialect):
    """A dialect whose streams carry no usage, and whose errors have no type."""

    dialect = "openllmetry"
    chat_name = "openai.chat"
    embedding_name = "openai.embeddings"
    error_type = None
    lost = frozenset({"reasoning_tokens"})

    def chat(self, question: str, turn: int, *, is_streamed: bool = False) -> Expected:
        """Return one chat completion."""
        tokens = {"input_tokens": None, "output_tokens": None} if is_streamed else {}
        return expect.llm(self.chat_name, question, turn, **tokens)

    def expected(self, spans: list[Expected], whole: Expected) -> Expected:
        """Claim no usage for a trace of nothing but a stream."""
        used = any("input_tokens" in span for span in spans)
        unused = whole if used else whole | {"input_tokens": None, "output_tokens": None}
        return super().expected(spans, expect.without_none(unused))


def main() -> None:
    """Record the dialect."""
    from openai import OpenAI

    with recording("openllmetry-openai-prompts") as recorder:
        export_traces(recorder)
        OpenAIInstrumentor().instrument()
        openai_application.record(recorder, OpenAI(), OpenLLMetry(), responses_api=False)


if __name__ == "__main__":
    main()
