# mypy: ignore-errors
# the libraries are those of record_openinference_haystack.txt
"""OpenInference on Haystack: ids, results and tools are in the raw input and output alone, as Python writes them."""

import os

from haystack import Pipeline
from haystack.components.agents import Agent  # before it is instrumented: else its runs have no spans
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from openinference.instrumentation.haystack import HaystackInstrumentor

from tests.corpus.record import expect, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, export_traces, recording

AGENT = "Agent.run"
GENERATOR = "OpenAIChatGenerator.run"
FAILED = f"Failed to invoke Tool `{script.TOOL}` with parameters {script.LOST.arguments}. Error: {script.UNKNOWN_CITY}"


def run(question: str) -> Expected:
    """Return an agent without spans of tools: their results are in the messages that the model was sent."""
    whole = expect.agent(AGENT, question) | {"kind": "chain"}
    turns = [llm(question, turn) for turn in (0, 1)]
    calls = [
        expect.tool_call(call, result=FAILED if call.result is None else call.result)
        for call in script.ANSWERS[question][0].calls
    ]
    return {
        "spans": expect.spans(whole, *turns, dialect="openinference"),
        "trace": trace(question, tool_calls=calls),
    }


def llm(question: str, turn: int) -> Expected:
    """Return one answer; of a failed tool the model is sent more than the exception's text."""
    span = expect.llm(GENERATOR, question, turn)
    if question == script.ATLANTIS and turn:
        failed = {"type": "tool_call_response", "id": script.LOST.id, "response": FAILED, "is_error": True}
        span["input_messages"] = [*span["input_messages"][:-1], {"role": "tool", "parts": [failed]}]
    return span


def piped(question: str, **fields: object) -> Expected:
    """Return a pipeline of one generator, whose input and output are maps of its components."""
    whole = {"name": "Pipeline.run", "kind": "chain", "input_contains": question}
    spans = expect.spans(whole, expect.llm(GENERATOR, question, **fields), dialect="openinference")
    lost = dict.fromkeys(("input_tokens", "output_tokens")) if "input_tokens" in fields else {}
    return {"spans": spans, "trace": trace(question, input=None, output=None, **lost)}


def record(recorder: Recording) -> None:
    """Record each scenario once."""

    def in_a_pipeline(messages: list, **fields: object) -> None:
        pipeline = Pipeline()
        pipeline.add_component("llm", OpenAIChatGenerator(model=script.CHAT_MODEL, **fields))
        pipeline.run({"llm": {"messages": messages}})

    tool = Tool(
        name=script.TOOL,
        description=script.TOOL_DESCRIPTION,
        parameters=script.TOOL_PARAMETERS,
        function=script.get_weather,
    )
    history = [
        ChatMessage.from_system(script.SYSTEM),
        ChatMessage.from_user(script.HELLO),
        ChatMessage.from_assistant(script.GREETING),
        ChatMessage.from_user(script.NAME),
    ]
    with recorder.scenario("conversation", piped(script.NAME)):
        in_a_pipeline(history)
    streamed = piped(script.COUNT, input_tokens=None, output_tokens=None)
    with recorder.scenario("streamed", streamed):
        in_a_pipeline([ChatMessage.from_user(script.COUNT)], streaming_callback=lambda _: None)
    rounds = {"tool-call": script.WEATHER, "parallel-tool-calls": script.COMPARE, "tool-error": script.ATLANTIS}
    for name, question in rounds.items():
        agent = Agent(chat_generator=OpenAIChatGenerator(model=script.CHAT_MODEL), tools=[tool])
        with recorder.scenario(name, run(question)):
            agent.run(messages=[ChatMessage.from_user(question)])


def main() -> None:
    """Record the dialect."""
    os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
    with recording("openinference-haystack") as recorder:
        export_traces(recorder)
        HaystackInstrumentor().instrument()
        record(recorder)


if __name__ == "__main__":
    main()
