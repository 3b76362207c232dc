# mypy: ignore-errors
# the libraries are those of record_mlflow.txt
"""MLflow's tracing of the OpenAI client and of decorated functions, exported over OTLP."""

import os
import tempfile
from contextlib import suppress

from tests.corpus.record import expect, openai_application, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, recording

CHAT = "Completions"
LOST = {"provider": None, "reasoning_tokens": None, "unclaimed": ["provider", "reasoning_tokens"]}


def llm(question: str, turn: int = 0) -> Expected:
    """Claim one answer; the provider is only in the message format, reasoning only in the service's answer."""
    return expect.llm(CHAT, question, turn, **LOST)


def run(question: str) -> Expected:
    """Return the decorated functions of the application around the model's answers; no ids of calls, no session."""
    inputs = {"input_contains": question, "input": None}
    tools = expect.tools(script.TOOL, question, tool_call_id=None)
    if question == script.ATLANTIS:
        error = {"output": None, "error": script.UNKNOWN_CITY, "error_type": "ValueError"}
        used = script.ANSWERS[question][0].tokens
        lost = {"final_response": None, "input_tokens": used.input, "output_tokens": used.output}
        spans = [expect.agent("answer", question, **inputs, **error), llm(question), *tools]
        return expected(spans, trace(question, input=None, output=None, **lost))
    spans = [expect.agent("answer", question, **inputs), llm(question), *tools, llm(question, 1)]
    return expected(spans, trace(question, input=None))


def single(question: str) -> Expected:
    """Return the model by itself."""
    return expected([llm(question)], trace(question))


def refused() -> Expected:
    """Claim an error of the model's service."""
    inputs = {"input": script.REFUSED, "input_messages": [expect.text("user", script.REFUSED)]}
    error = {"error": script.REFUSAL, "error_type": "BadRequestError", "unclaimed": ["provider"]}
    span = {"name": CHAT, "kind": "llm", "model": script.CHAT_MODEL, **inputs, **error}
    return expected([span], trace())


def embedded() -> Expected:
    """Return an embedding, with its usage in the service's answer."""
    span = {
        "name": "Embeddings",
        "kind": "embedding",
        "input_contains": script.CAPITAL,
        "model": script.EMBEDDING_MODEL,
    }
    return expected(
        [span | {"input_contains": script.CAPITAL, "unclaimed": ["input_tokens", "output", "provider"]}], trace()
    )


def expected(spans: list[Expected], whole: Expected) -> Expected:
    """Return the content of `expected.json`."""
    return {"spans": expect.spans(*spans, dialect="mlflow"), "trace": whole}


def record(recorder: Recording) -> None:
    """Record each scenario once."""
    import mlflow
    import mlflow.openai
    from mlflow.tracing.provider import provider
    from openai import OpenAI

    mlflow.openai.autolog()
    client = OpenAI()
    recorder.flushes.append(lambda: provider.get() and provider.get().force_flush())

    @mlflow.trace(name="get_weather", span_type="TOOL")
    def get_weather(city: str) -> dict:
        return script.get_weather(city)

    @mlflow.trace(name="answer", span_type="AGENT")
    def answer(question: str) -> str:
        mlflow.update_current_trace(metadata={"mlflow.trace.session": script.SESSION, "mlflow.trace.user": script.USER})
        messages = [openai_application.user(question)]
        message = openai_application.ask(client, messages, tools=[script.CHAT_TOOL])
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            arguments = openai_application.json.loads(call.function.arguments)
            content = expect.as_text(get_weather(**arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
        return openai_application.ask(client, messages, tools=[script.CHAT_TOOL]).content

    with recorder.scenario("chat", single(script.CAPITAL)):
        openai_application.chat(client)
    with recorder.scenario("conversation", single(script.NAME)):
        openai_application.conversation(client)
    with recorder.scenario("multimodal", single(script.PICTURE)):
        openai_application.multimodal(client)
    with recorder.scenario("streamed", single(script.COUNT)):
        openai_application.streamed(client)
    with recorder.scenario("refused", refused()):
        openai_application.refused(client)
    with recorder.scenario("embedding", embedded()):
        openai_application.embedding(client)
    with recorder.scenario("tool-call", run(script.WEATHER)):
        answer(script.WEATHER)
    with recorder.scenario("parallel-tool-calls", run(script.COMPARE)):
        answer(script.COMPARE)
    with recorder.scenario("tool-error", run(script.ATLANTIS)), suppress(ValueError):
        answer(script.ATLANTIS)


def main() -> None:
    """Record the dialect."""
    with recording("mlflow") as recorder:
        os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = recorder.server.url + "/v1/traces"
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///" + tempfile.mkdtemp() + "/mlflow.db"
        os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
        record(recorder)


if __name__ == "__main__":
    main()
