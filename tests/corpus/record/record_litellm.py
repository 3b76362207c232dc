# mypy: ignore-errors
# the libraries are those of record_litellm.txt
"""LiteLLM's own OpenTelemetry callback: below a span of the application it writes the first call on that span."""

import os
import time
from contextlib import suppress

from tests.corpus.record import expect, openai_application, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, application_span, export_traces, recording

MODEL = f"openai/{script.CHAT_MODEL}"
NAME = "litellm_request"
RAW = "raw_gen_ai_request"
CALLBACKS_S = 1.0  # its callbacks run in threads of their own


def llm(question: str, **fields: object) -> Expected:
    """Return one call; LiteLLM computes its cost, without rounding."""
    return expect.llm(NAME, question, unclaimed=["cost_usd"], **fields)


def raw(question: str, turn: int = 0) -> Expected:
    """Build the claims about the raw request and response, which are not a separate call."""
    used = script.ANSWERS[question][turn].tokens
    fields = expect.llm(RAW, question, turn)
    kept = {key: fields[key] for key in ("input_messages", "output_messages", "model")}
    return {"name": RAW, "kind": "other", **kept, "input_tokens": used.input, "output_tokens": used.output}


def single(question: str, **fields: object) -> Expected:
    """Return the model by itself."""
    return expected([llm(question, **fields), raw(question)], trace(question))


def streamed() -> Expected:
    """Return a stream, whose model is the one that was asked, and whose raw request has no answer."""
    request = llm(script.COUNT, model=script.CHAT_MODEL)
    return expected([request, {"name": RAW, "kind": "other"}], trace(script.COUNT))


def refused() -> Expected:
    """Claim an error of the model's service, without a cost."""
    request = {"input": script.REFUSED, "input_messages": [expect.text("user", script.REFUSED)]}
    error = {"error": script.REFUSAL, "error_type": "BadRequestError", "cost_usd": 0.0}
    span = {"name": NAME, "kind": "llm", "model": script.CHAT_MODEL, "provider": "openai", **request, **error}
    return expected([span], trace())


def embedded() -> Expected:
    """Return an embedding."""
    attributes = {"input": script.CAPITAL, "model": script.EMBEDDING_MODEL, "input_tokens": script.EMBEDDING_TOKENS}
    span = {"name": NAME, "kind": "embedding", **attributes, "unclaimed": ["cost_usd", "output", "provider"]}
    return expected([span, {"name": RAW, "kind": "other"}], trace())


def tools(question: str) -> Expected:
    """Return two calls below the application's span; the ids of the calls are in the raw requests alone."""
    request = expect.llm("POST /ask", question)
    whole = {**request, "unclaimed": ["cost_usd", "output", "output_messages"]}
    del whole["output_messages"]
    calls = [call for answer in script.ANSWERS[question] for call in answer.calls]
    listed = [
        expect.tool_call(call, result=openai_application.result_of(call), is_error=call.result is None)
        for call in calls
    ]
    return expected([whole, raw(question), raw(question, 1)], trace(question, output=None, tool_calls=listed))


def expected(spans: list[Expected], whole: Expected) -> Expected:
    """Return the content of `expected.json`."""
    return {"spans": expect.spans(*spans, dialect="litellm"), "trace": whole}


def record(recorder: Recording) -> None:
    """Record each scenario once."""
    import litellm

    litellm.callbacks = ["otel"]

    def ask(messages: list, **fields: object) -> object:
        answer = litellm.completion(model=MODEL, messages=messages, **fields)
        return answer if fields.get("stream") else answer.choices[0].message

    def ask_with_tools(question: str) -> None:
        messages = [openai_application.user(question)]
        message = ask(messages, tools=[script.CHAT_TOOL])
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            content = openai_application.run_tool(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
        ask(messages, tools=[script.CHAT_TOOL])

    before = [
        {"role": "system", "content": script.SYSTEM},
        openai_application.user(script.HELLO),
        {"role": "assistant", "content": script.GREETING},
    ]
    user = {"user": script.USER}
    with recorder.scenario("chat", single(script.CAPITAL, user_id=script.USER, cost_usd=6.9e-06)):
        ask([openai_application.user(script.CAPITAL)], **user)
    with recorder.scenario("conversation", single(script.NAME)):
        ask([*before, openai_application.user(script.NAME)])
    with recorder.scenario("streamed", streamed()):
        for _ in ask([openai_application.user(script.COUNT)], stream=True, stream_options={"include_usage": True}):
            pass
    with recorder.scenario("embedding", embedded()):
        litellm.embedding(model=f"openai/{script.EMBEDDING_MODEL}", input=[script.CAPITAL])
    for name, question in {"tool-call": script.WEATHER, "parallel-tool-calls": script.COMPARE}.items():
        with recorder.scenario(name, tools(question)), application_span():
            ask_with_tools(question)
    with recorder.scenario("refused", refused()), suppress(litellm.BadRequestError):
        ask([openai_application.user(script.REFUSED)])


def main() -> None:
    """Record the dialect."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    with recording("litellm") as recorder:
        os.environ["OTEL_EXPORTER"] = "otlp_http"
        os.environ["OTEL_ENDPOINT"] = f"{recorder.server.url}/v1/traces"
        recorder.flushes.append(lambda: time.sleep(CALLBACKS_S))
        export_traces(recorder)
        record(recorder)


if __name__ == "__main__":
    main()
