# mypy: ignore-errors
# the libraries are those of record_anthropic.txt
"""OpenInference or OpenLLMetry (the argument) on the Anthropic client."""

import sys

from anthropic import Anthropic

from tests.corpus.record import expect, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, application_span, export_traces, recording

COMMON = {"model": script.CLAUDE_MODEL, "max_tokens": 100}


def ask(client: Anthropic, messages: list, **fields: object) -> object:
    """Return the model's whole message."""
    return client.messages.create(messages=messages, **COMMON, **fields)


def conversation(client: Anthropic) -> None:
    """Ask a question after a system prompt and an earlier exchange."""
    roles = ("user", "assistant", "user")
    texts = (script.HELLO, script.GREETING, script.NAME)
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    ask(client, messages, system=script.SYSTEM)


def streamed(client: Anthropic) -> None:
    """Stream an answer."""
    for _ in ask(client, [{"role": "user", "content": script.COUNT}], stream=True):
        pass


def tools(client: Anthropic, question: str) -> None:
    """Ask a question that needs tools."""
    messages = [{"role": "user", "content": question}]
    answer = ask(client, messages, tools=[script.ANTHROPIC_TOOL])
    messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]})
    messages.append({"role": "user", "content": [result(block) for block in answer.content]})
    ask(client, messages, tools=[script.ANTHROPIC_TOOL])


def result(block: object) -> dict:
    """Build the result block of one tool call."""
    answer_block = {"type": "tool_result", "tool_use_id": block.id}
    try:
        return answer_block | {"content": expect.as_text(script.get_weather(**block.input))}
    except ValueError as error:
        return answer_block | {"content": f"Error: {error}", "is_error": True}


QUESTIONS = {
    "conversation": script.NAME,
    "streamed": script.COUNT,
    "tool-call": script.WEATHER,
    "parallel-tool-calls": script.COMPARE,
    "tool-error": script.ATLANTIS,
}


def expected(question: str, instrumentation: str) -> Expected:
    """Claim each call twice: by the instrumentation, and without its content by the client itself."""
    spans = [expect.application()]
    for turn in range(len(script.ANSWERS[question])):
        fields = {"model": script.CLAUDE_MODEL_DATED, "provider": "anthropic", "reasoning_tokens": None}
        if instrumentation == "openllmetry":
            spans += openllmetry(question, turn, fields)
        else:
            spans += openinference(question, turn, fields)
    calls = [expect.tool_call(call, result=outcome(call), is_error=None) for call in script.ANSWERS[question][0].calls]
    unsure = {"output_tokens": None} if question == script.COUNT else {}
    whole = trace(question, input=None, output=None, tool_calls=calls, **unsure)
    return {"spans": spans, "trace": whole}


def openinference(question: str, turn: int, fields: dict) -> list[Expected]:
    """Claim the client's own span below that of the instrumentation."""
    span = expect.llm("messages.create", question, turn, dialect="openinference", **fields)
    return [span, bare(question, turn, fields)]


def openllmetry(question: str, turn: int, fields: dict) -> list[Expected]:
    """Claim the client's own span beside that of the instrumentation, with the same `gen_ai.response.id`."""
    messages = expect.history(question, turn)
    if turn:
        parts = [part for message in messages[2:] for part in message["parts"]]
        messages[2:] = [{"role": "tool", "parts": parts}]
    span = expect.llm("anthropic.chat", question, turn, dialect="openllmetry", input_messages=messages, **fields)
    if question == script.COUNT:
        span["output_tokens"] += 1  # it adds what the stream said at its start
    return [span, bare(question, turn, fields)]


def bare(question: str, turn: int, fields: dict) -> Expected:
    """Return the span of the Anthropic client itself."""
    silent = dict.fromkeys(("input", "output", "input_messages", "output_messages", "tool_definitions"))
    return expect.llm("anthropic.messages.create", question, turn, dialect="otel_genai", **fields, **silent)


def outcome(call: script.ToolCall) -> object:
    """Return the tool result that the model is sent."""
    return call.result or f"Error: {script.UNKNOWN_CITY}"


def record(recorder: Recording, instrumentation: str) -> None:
    """Record each scenario once, below a span of the application."""
    client = Anthropic()
    for name, question in QUESTIONS.items():
        with recorder.scenario(name, expected(question, instrumentation)), application_span():
            if name == "conversation":
                conversation(client)
            elif name == "streamed":
                streamed(client)
            else:
                tools(client, question)


def main() -> None:
    """Record the dialect."""
    with recording(f"{sys.argv[1]}-anthropic") as recorder:
        export_traces(recorder)
        if sys.argv[1] == "openinference":
            from openinference.instrumentation.anthropic import AnthropicInstrumentor
        else:
            from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
        AnthropicInstrumentor().instrument()
        record(recorder, sys.argv[1])


if __name__ == "__main__":
    main()
