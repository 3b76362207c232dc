# mypy: ignore-errors
# the libraries are those of record_openinference_openai.txt
"""OpenInference on the OpenAI client."""

from openinference.instrumentation import using_attributes
from openinference.instrumentation.openai import OpenAIInstrumentor

from tests.corpus.record import expect, openai_application, script
from tests.corpus.record.recording import export_traces, recording


class OpenInference(openai_application.Dialect):
    """A dialect with spans named after the client's classes."""

    dialect = "openinference"
    chat_name = "ChatCompletion"
    responses_name = "Response"
    embedding_name = "CreateEmbeddings"
    error_type = "openai.BadRequestError"


def main() -> None:
    """Record the dialect."""
    from openai import OpenAI

    with recording("openinference-openai") as recorder:
        export_traces(recorder)
        OpenAIInstrumentor().instrument()
        client = OpenAI()
        dialect = OpenInference()
        openai_application.record(recorder, client, dialect)
        spans = [dialect.chat(script.CAPITAL, 0) | {"session_id": script.SESSION, "user_id": script.USER}]
        whole = expect.trace(script.CAPITAL, session=script.SESSION)
        with (
            recorder.scenario("session", dialect.expected(spans, whole)),
            using_attributes(session_id=script.SESSION, user_id=script.USER),
        ):
            openai_application.chat(client)


if __name__ == "__main__":
    main()
