# mypy: ignore-errors
# the libraries are those of record_openinference_openai_agents.txt
"""OpenInference on the OpenAI Agents SDK."""

import asyncio

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_default_openai_client
from agents import trace as workflow_trace
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

from tests.corpus.record import expect, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, export_traces, recording


@function_tool
def get_weather(city: str) -> dict:
    """Current weather of a city."""
    return script.get_weather(city)


def agent(name: str = "assistant", **fields: object) -> Agent:
    """Return an agent with a tool."""
    return Agent(name=name, model=script.CHAT_MODEL, instructions=script.SYSTEM, tools=[get_weather], **fields)


async def streamed() -> None:
    """Stream an answer."""
    answer = Runner.run_streamed(agent(), script.COUNT)
    async for _ in answer.stream_events():
        pass


WORKFLOW = "Agent workflow"
FAILURE = "An error occurred while running the tool. Please try again."


def run(question: str, workflow: str = WORKFLOW, name: str = "response", **fields: object) -> Expected:
    """Return a run: only the model's and the tool's spans say anything, and the name of the workflow is on the root."""
    spans = [{"name": workflow, "kind": "agent"}, {"name": WORKFLOW, "kind": "chain"}]
    spans.append({"name": "assistant", "kind": "agent"})
    for turn, answer in enumerate(script.ANSWERS[question]):
        messages = history(question, turn, is_instructed=name == "response")
        spans += [{"name": "turn", "kind": "chain"}]
        claims = {"input_messages": messages, "tool_definitions": [expect.TOOL_DEFINITION]} | fields
        spans.append(expect.llm(name, question, turn, **claims))
        spans += [tool(call) for call in answer.calls]
    calls = [expect.tool_call(call, result=call.result or FAILURE) for call in script.ANSWERS[question][0].calls]
    whole = trace(question, input=None, output=None, tool_calls=calls)
    return {"spans": expect.spans(*spans, dialect="openinference"), "trace": whole}


def tool(call: script.ToolCall) -> Expected:
    """Return a run of the tool: no id of the call; an error has no type."""
    if call.result:
        return expect.tool(script.TOOL, call, tool_call_id=None)
    failed = {"tool_result": FAILURE, "error": "Error running tool", "error_type": None}
    return expect.tool(script.TOOL, call, tool_call_id=None, **failed)


def history(question: str, turn: int, *, is_instructed: bool) -> list[Expected]:
    """Return the messages, after the instructions if they are sent."""
    messages = [expect.text("system", script.SYSTEM)] if is_instructed else []
    messages += expect.history(question, turn)
    if question == script.ATLANTIS and turn:
        messages[-1] = expect.tool_answers(script.LOST, FAILURE)
    return messages


async def record(recorder: Recording) -> None:
    """Record each scenario once."""
    with recorder.scenario("agent-run", run(script.CAPITAL)):
        await Runner.run(agent(), script.CAPITAL)
    with recorder.scenario("streamed", run(script.COUNT)):
        await streamed()
    with (
        recorder.scenario("tool-call", run(script.WEATHER, "Weather desk")),
        workflow_trace("Weather desk", group_id=script.SESSION),
    ):
        await Runner.run(agent(), script.WEATHER)
    with recorder.scenario("parallel-tool-calls", run(script.COMPARE)):
        await Runner.run(agent(), script.COMPARE)
    with recorder.scenario("tool-error", run(script.ATLANTIS)):
        await Runner.run(agent(), script.ATLANTIS)
    chat = OpenAIChatCompletionsModel(script.CHAT_MODEL, AsyncOpenAI())
    plain = {"model": script.CHAT_MODEL, "tool_definitions": None}
    name = "chat-completions-tool-call"
    with recorder.scenario(name, run(script.WEATHER, name="generation", **plain)):
        await Runner.run(Agent(name="assistant", model=chat, tools=[get_weather]), script.WEATHER)


def main() -> None:
    """Record the dialect."""
    with recording("openinference-openai-agents") as recorder:
        export_traces(recorder)
        OpenAIAgentsInstrumentor().instrument()
        set_default_openai_client(AsyncOpenAI(), use_for_tracing=False)
        asyncio.run(record(recorder))


if __name__ == "__main__":
    main()
