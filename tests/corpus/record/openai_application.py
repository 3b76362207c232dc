# mypy: ignore-errors
# openai is another version in each recording
"""An application on the bare OpenAI client: the scenarios that several dialects record."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from openai import BadRequestError, OpenAI

from tests.corpus.record import expect, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, application_span


class Dialect:
    """The scenarios as a dialect records them; the defaults are what most dialects do."""

    dialect = ""
    chat_name = f"chat {script.CHAT_MODEL}"
    responses_name = chat_name
    embedding_name = f"embeddings {script.EMBEDDING_MODEL}"
    error_type: str | None = "BadRequestError"
    lost = frozenset[str]()  # fields that are nowhere in its payloads

    def chat(self, question: str, turn: int, *, is_streamed: bool = False) -> Expected:  # noqa: ARG002 - some tell less of a stream
        """Return one chat completion."""
        return expect.llm(self.chat_name, question, turn)

    def stream(self, question: str) -> list[Expected]:
        """Return the spans of a streamed chat completion."""
        return [self.chat(question, 0, is_streamed=True)]

    def around_streams(self) -> AbstractContextManager[None]:
        """Return the context in which streams are read."""
        return nullcontext()

    def trace_of(self, question: str, spans: list[Expected]) -> Expected:
        """Return the trace of one question; below an application's span, the root has no content."""
        return trace(question) if len(spans) == 1 else trace(question, input=None, output=None)

    def response(self, question: str, turn: int) -> Expected:
        """Return one answer of the responses API."""
        return self.chat(question, turn) | {"name": self.responses_name}

    def refused(self) -> Expected:
        """Return a chat completion that the service refused."""
        refused: Expected = {
            "name": self.chat_name,
            "kind": "llm",
            "input": script.REFUSED,
            "input_messages": [expect.text("user", script.REFUSED)],
            "model": script.CHAT_MODEL,
            "provider": "openai",
            "error": script.REFUSAL,
            "error_type": self.error_type,
        }
        return expect.without_none(refused)

    def embedding(self) -> Expected:
        """Return one embedding."""
        return {
            "name": self.embedding_name,
            "kind": "embedding",
            "input": script.CAPITAL,
            "model": script.EMBEDDING_MODEL,
            "provider": "openai",
            "input_tokens": script.EMBEDDING_TOKENS,
        }

    def round_trip(self, question: str) -> Expected:
        """Return both turns of a question that needs tools, below the span of the application."""
        return self.expected([expect.application(), *self.turns(self.chat, question)], self.whole(question))

    def responses(self, question: str) -> Expected:
        """Claim the same over the responses API."""
        return self.expected([expect.application(), *self.turns(self.response, question)], self.whole(question))

    def turns(self, turn: Callable[[str, int], Expected], question: str) -> list[Expected]:
        """Return the two calls of the model."""
        return [turn(question, 0), turn(question, 1)]

    def whole(self, question: str) -> Expected:
        """Return the trace: the tool calls are known from messages alone, so that a raised error is only text."""
        calls = [call for answer in script.ANSWERS[question] for call in answer.calls]
        listed = [expect.tool_call(call, result=result_of(call), is_error=None) for call in calls]
        return trace(question, input=None, output=None, tool_calls=listed)

    def expected(self, spans: list[Expected], whole: Expected) -> Expected:
        """Return the content of `expected.json`: what a span has of its facts, and what the trace has of them."""
        kept = [{key: value for key, value in span.items() if key not in self.lost} for span in spans]
        return {"spans": expect.spans(*kept, dialect=self.dialect), "trace": whole}


def chat(client: OpenAI) -> None:
    """Ask one question."""
    ask(client, [user(script.CAPITAL)])


def conversation(client: OpenAI) -> None:
    """Ask a question after a system prompt and an earlier exchange."""
    messages = [
        {"role": "system", "content": script.SYSTEM},
        user(script.HELLO),
        {"role": "assistant", "content": script.GREETING},
        user(script.NAME),
    ]
    ask(client, messages)


def multimodal(client: OpenAI) -> None:
    """Ask a question with a picture."""
    picture = {"type": "image_url", "image_url": {"url": script.PICTURE_URL}}
    ask(client, [{"role": "user", "content": [{"type": "text", "text": script.PICTURE}, picture]}])


def streamed(client: OpenAI) -> None:
    """Stream an answer."""
    ask_streamed(client, [user(script.COUNT)])


def streamed_tool_call(client: OpenAI) -> None:
    """Stream a tool call."""
    ask_streamed(client, [user(script.WEATHER)], tools=[script.CHAT_TOOL])


def refused(client: OpenAI) -> None:
    """Ask a question that the model's service answers with an error."""
    try:
        ask(client, [user(script.REFUSED)])
    except BadRequestError:
        return
    raise AssertionError("the request was not refused")


def tools(client: OpenAI, question: str) -> None:
    """Ask a question that needs tools: the model asks for them, the application runs them, the model answers."""
    messages = [user(question)]
    message = ask(client, messages, tools=[script.CHAT_TOOL])
    messages.append(message.model_dump(exclude_none=True))
    messages += [
        {"role": "tool", "tool_call_id": call.id, "content": run_tool(call.function.arguments)}
        for call in message.tool_calls
    ]
    ask(client, messages, tools=[script.CHAT_TOOL])


def responses(client: OpenAI) -> None:
    """Make the same round trip over the responses API."""
    items = [user(script.WEATHER)]
    first = client.responses.create(model=script.CHAT_MODEL, input=items, tools=[script.RESPONSES_TOOL])
    for item in first.output:
        items.append(item.model_dump(exclude_none=True))
        output = run_tool(item.arguments)
        items.append({"type": "function_call_output", "call_id": item.call_id, "output": output})
    client.responses.create(model=script.CHAT_MODEL, input=items, tools=[script.RESPONSES_TOOL])


def embedding(client: OpenAI) -> None:
    """Embed one text."""
    client.embeddings.create(model=script.EMBEDDING_MODEL, input=script.CAPITAL)


def ask(client: OpenAI, messages: list, **fields: object) -> object:
    """Return the model's whole message."""
    answer = client.chat.completions.create(model=script.CHAT_MODEL, messages=messages, **fields)
    return answer.choices[0].message


def ask_streamed(client: OpenAI, messages: list, **fields: object) -> None:
    """Read a streamed answer to its end."""
    stream = client.chat.completions.create(
        model=script.CHAT_MODEL, messages=messages, stream=True, stream_options={"include_usage": True}, **fields
    )
    for _ in stream:
        pass


def result_of(call: script.ToolCall) -> object:
    """Return the tool result that the model is sent."""
    return call.result or f"Error: {script.UNKNOWN_CITY}"


def user(content: str) -> dict:
    """Return a message of the user."""
    return {"role": "user", "content": content}


def run_tool(arguments: str) -> str:
    """Run the tool; return its result, or its error, as text."""
    try:
        return json.dumps(script.get_weather(**json.loads(arguments)))
    except ValueError as error:
        return f"Error: {error}"


def record(recorder: Recording, client: OpenAI, dialect: Dialect, *, responses_api: bool = True) -> None:
    """Record every scenario, with what the dialect says must be read from each."""
    single = {"chat": chat, "conversation": conversation, "multimodal": multimodal, "streamed": streamed}
    questions = {"conversation": script.NAME, "multimodal": script.PICTURE, "streamed": script.COUNT}
    for name, run in single.items():
        question = questions.get(name, script.CAPITAL)
        spans = dialect.stream(question) if name == "streamed" else [dialect.chat(question, 0)]
        around = dialect.around_streams() if name == "streamed" else nullcontext()
        with recorder.scenario(name, dialect.expected(spans, dialect.trace_of(question, spans))), around:
            run(client)
    spans = dialect.stream(script.WEATHER)
    request = expect.tool_call(script.OSLO, result=None, is_error=None)
    whole = trace(
        script.WEATHER, output=None, final_response=None, tool_calls=[request], input_tokens=61, output_tokens=17
    )
    with recorder.scenario("streamed-tool-call", dialect.expected(spans, whole)), dialect.around_streams():
        streamed_tool_call(client)
    rounds = {"tool-call": script.WEATHER, "parallel-tool-calls": script.COMPARE, "tool-error": script.ATLANTIS}
    for name, question in rounds.items():
        with recorder.scenario(name, dialect.round_trip(question)), application_span():
            tools(client, question)
    with recorder.scenario("refused", dialect.expected([dialect.refused()], trace())):
        refused(client)
    if responses_api:
        with recorder.scenario("responses-tool-call", dialect.responses(script.WEATHER)), application_span():
            responses(client)
    with recorder.scenario("embedding", dialect.expected([dialect.embedding()], trace())):
        embedding(client)
