# mypy: ignore-errors
# the libraries are those of record_traceloop.txt
"""The Traceloop SDK (OpenLLMetry): decorated functions around the OpenAI client, and LangChain."""

import json
import os

from tests.corpus.record import expect, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, recording

USER = {"session_id": script.SESSION, "user_id": script.USER}


def decorated(question: str) -> Expected:
    """Return the decorated functions around the client's calls."""
    final = script.ANSWERS[question][-1].text
    spans = expect.spans(
        {"name": "answer.workflow", "kind": "chain", "input_contains": question, "output": final},
        expect.llm("openai.chat", question, 0),
        *expect.tools("get_weather.tool", question, tool_call_id=None),
        expect.llm("openai.chat", question, 1),
        dialect="openllmetry",
        **USER,
    )
    return {"spans": spans, "trace": trace(question, input=None, session=script.SESSION)}


def graph(question: str) -> Expected:
    """Return LangChain's graph: a span for the agent, and one below it for the same as a workflow."""
    model, tools = {"name": "execute_task model", "kind": "chain"}, {"name": "execute_task tools", "kind": "chain"}
    spans = expect.spans(
        {"name": "invoke_agent assistant", "kind": "agent"},
        {"name": "assistant.workflow", "input_contains": question, "output_contains": script.ANSWERS[question][1].text},
        model,
        expect.llm("ChatOpenAI.chat", question, 0, unclaimed=["session_id"]),
        tools,
        *expect.tools(f"execute_tool {script.TOOL}", question, unclaimed=["session_id"]),
        model,
        expect.llm("ChatOpenAI.chat", question, 1, unclaimed=["session_id"]),
        dialect="openllmetry",
    )
    return {"spans": spans, "trace": trace(question, input=None, output=None)}


def record(recorder: Recording) -> None:
    """Record each scenario once."""
    from openai import OpenAI
    from opentelemetry import trace
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import tool, workflow

    from tests.corpus.record import langchain_application, openai_application

    Traceloop.init(app_name="traceloop", api_endpoint=recorder.server.url, telemetry_enabled=False)
    recorder.flushes.append(trace.get_tracer_provider().force_flush)
    client = OpenAI()

    @tool(name="get_weather")
    def get_weather(city: str) -> dict:
        return script.get_weather(city)

    @workflow(name="answer")
    def answer(question: str) -> str:
        Traceloop.set_association_properties({"session_id": script.SESSION, "user_id": script.USER})
        messages = [openai_application.user(question)]
        message = openai_application.ask(client, messages, tools=[script.CHAT_TOOL])
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            content = expect.as_text(get_weather(**json.loads(call.function.arguments)))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
        return openai_application.ask(client, messages, tools=[script.CHAT_TOOL]).content

    with recorder.scenario("decorators-tool-call", decorated(script.WEATHER)):
        answer(script.WEATHER)
    with recorder.scenario("langchain-tool-call", graph(script.WEATHER)):
        langchain_application.agent(script.WEATHER)


def main() -> None:
    """Record the dialect."""
    os.environ["TRACELOOP_TELEMETRY"] = "FALSE"
    with recording("traceloop") as recorder:
        record(recorder)


if __name__ == "__main__":
    main()
