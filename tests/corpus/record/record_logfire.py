# mypy: ignore-errors
# the libraries are those of record_logfire.txt
"""Logfire's instrumentation of the OpenAI client."""

from contextlib import AbstractContextManager

import logfire
from openai import OpenAI

from tests.corpus.record import expect, openai_application, script
from tests.corpus.record.expect import Expected
from tests.corpus.record.recording import application_span, recording


class Logfire(openai_application.Dialect):
    """A dialect whose span names are templates."""

    dialect = "logfire"
    chat_name = "Chat Completion with {request_data[model]!r}"
    responses_name = "Responses API with {gen_ai.request.model!r}"
    embedding_name = "Embedding Creation with {request_data[model]!r}"
    stream_name = "streaming response from {request_data[model]!r} took {duration:.2f}s"
    error_type = "openai.BadRequestError"
    lost = frozenset({"cached_tokens", "reasoning_tokens"})

    def chat(self, question: str, turn: int, *, is_streamed: bool = False) -> Expected:  # noqa: ARG002
        """Claim no cached tokens: they are only in the usage as the service wrote it."""
        return super().chat(question, turn) | {"unclaimed": sorted(self.lost)}

    def embedding(self) -> Expected:
        """Claim an embedding without its text."""
        return expect.without_none(super().embedding() | {"input": None})

    def stream(self, question: str) -> list[Expected]:
        """Return a span for the request, and one beside it without duration for the answer."""
        both = self.chat(question, 0) | {"model": script.CHAT_MODEL}
        tokens = {"input_tokens": None, "output_tokens": None}
        request = both | tokens | {"output": None, "output_messages": None}
        return [expect.application(), expect.without_none(request), both | {"name": self.stream_name}]

    def around_streams(self) -> AbstractContextManager[None]:
        """Open a span, without which the two would be two traces."""
        return application_span()


def main() -> None:
    """Record the dialect."""
    with recording("logfire") as recorder:
        logfire.configure(send_to_logfire=False, console=False, service_name="logfire", metrics=False)
        recorder.flushes.append(logfire.force_flush)
        logfire.instrument_openai()
        openai_application.record(recorder, OpenAI(), Logfire())


if __name__ == "__main__":
    main()
