# mypy: ignore-errors
# the libraries are those of record_strands.txt
"""Strands Agents with its own tracing: legacy events on spans, or with `latest` as argument the latest conventions."""

import os
import sys

from tests.corpus.record import expect, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, export_traces, recording

CYCLE = {"name": "execute_event_loop_cycle", "kind": "chain"}
EVERYWHERE = {"session_id": script.SESSION, "user_id": script.USER, "dialect": "strands"}
FAILURE = f"Error: {script.UNKNOWN_CITY}"


def run(question: str) -> Expected:
    """Return a run of the agent: a span around each turn; the agent's answer ends in a line break."""
    answers = script.ANSWERS[question]
    final = answers[-1].text
    used = {"model": script.CHAT_MODEL, **expect.used(question)}
    spans = [expect.agent("invoke_agent assistant", question, output=None, output_contains=final, **used)]
    for turn, answer in enumerate(answers):
        lost = {"provider": "strands-agents", "model": script.CHAT_MODEL, "tool_definitions": None}
        spans += [CYCLE, expect.llm("chat", question, turn, input_messages=history(question, turn), **lost)]
        spans += [tool(call) for call in answer.calls]
    calls = [expect.tool_call(call, result=call.result or FAILURE) for call in answers[0].calls]
    whole = trace(question, output=None, session=script.SESSION, tool_calls=calls)
    return {"spans": expect.spans(*spans, **EVERYWHERE), "trace": whole}


def tool(call: script.ToolCall) -> Expected:
    """Return a run of the tool."""
    return expect.tool(f"execute_tool {script.TOOL}", call, tool_result=call.result or FAILURE)


def history(question: str, turn: int) -> list[Expected]:
    """Return the system prompt and the messages, the results of the tools in one of them."""
    messages = [expect.text("system", script.SYSTEM), *expect.history(question, turn)]
    parts = [part for message in messages[3:] for part in message["parts"]]
    return [*messages[:3], *([{"role": "tool", "parts": parts}] if parts else [])]


def record(recorder: Recording) -> None:
    """Record each scenario once."""
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    @tool
    def get_weather(city: str) -> dict:
        """Current weather of a city."""
        return script.get_weather(city)

    def agent() -> Agent:
        model = OpenAIModel(client_args={}, model_id=script.CHAT_MODEL)
        attributes = {"session.id": script.SESSION, "user.id": script.USER}
        return Agent(
            model=model,
            name="assistant",
            system_prompt=script.SYSTEM,
            tools=[get_weather],
            trace_attributes=attributes,
            callback_handler=None,
        )

    with recorder.scenario("agent-run", run(script.CAPITAL)):
        agent()(script.CAPITAL)
    with recorder.scenario("tool-call", run(script.WEATHER)):
        agent()(script.WEATHER)
    with recorder.scenario("parallel-tool-calls", run(script.COMPARE)):
        agent()(script.COMPARE)
    with recorder.scenario("tool-error", run(script.ATLANTIS)):
        agent()(script.ATLANTIS)


def main() -> None:
    """Record the dialect."""
    is_latest = "latest" in sys.argv
    if is_latest:
        os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental,gen_ai_tool_definitions"
    with recording("strands-latest" if is_latest else "strands") as recorder:
        export_traces(recorder)
        record(recorder)


if __name__ == "__main__":
    main()
