# mypy: ignore-errors
# the libraries are those of record_pydantic_ai.txt
"""Pydantic AI with its own instrumentation."""

import asyncio

from pydantic_ai import Agent

from tests.corpus.record import expect, script
from tests.corpus.record import pydantic_ai_application as application
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, export_traces, recording

RUN = "invoke_agent assistant"
CHAT = f"chat {script.CHAT_MODEL}"
TOOL = f"execute_tool {script.TOOL}"
EVERYWHERE = {"dialect": "pydantic_ai", "session_id": script.SESSION}


def run(question: str, **first: object) -> Expected:
    """Return the run of the agent around the model's answers and the tools between them."""
    answer = expect.ANSWERS[question][-1]
    tokens = expect.used(question)
    if answer.tokens.cached:
        tokens |= {"cached_tokens": answer.tokens.cached, "reasoning_tokens": answer.tokens.reasoning}
    spans = [expect.agent(RUN, question, model=script.CHAT_MODEL, **tokens), chat(question, 0, **first)]
    if len(expect.ANSWERS[question]) > 1:
        spans += [*expect.tools(TOOL, question), chat(question, 1)]
    return expected(spans, trace(question, session=script.SESSION, cost_usd=cost(question, 2)))


def failed_run() -> Expected:
    """Claim a run that the tool's error ends."""
    question = script.ATLANTIS
    tokens = expect.ANSWERS[question][0].tokens
    used = {"input_tokens": tokens.input, "output_tokens": tokens.output}
    error = {"error": script.UNKNOWN_CITY, "error_type": "ValueError"}
    spans = [
        expect.agent(RUN, question, output=None, model=script.CHAT_MODEL, **used, **error),
        chat(question, 0),
        expect.tool(TOOL, script.LOST),
    ]
    lost = {"output": None, "final_response": None}
    return expected(spans, trace(question, session=script.SESSION, cost_usd=cost(question, 1), **lost, **used))


def chat(question: str, turn: int, **fields: object) -> Expected:
    """Return one answer of the model: the results of the tools come in one message."""
    messages = expect.history(question, turn)
    if turn and len(messages) == 4:  # one question, two calls, their two results
        messages[2:] = [messages[2] | {"parts": messages[2]["parts"] + messages[3]["parts"]}]
    price = script.cost_usd(expect.ANSWERS[question][turn].tokens)
    return expect.llm(CHAT, question, turn, **({"input_messages": messages, "cost_usd": price} | fields))


def cost(question: str, turns: int) -> float:
    """Add up the cost of the answers."""
    return round(sum(script.cost_usd(answer.tokens) for answer in expect.ANSWERS[question][:turns]), 12)


def expected(spans: list[Expected], whole: Expected) -> Expected:
    """Return the content of `expected.json`."""
    return {"spans": expect.spans(*spans, **EVERYWHERE), "trace": whole}


def record(recorder: Recording) -> None:
    """Record each scenario once."""
    with recorder.scenario("chat", run(script.CAPITAL)):
        application.chat()
    with recorder.scenario("conversation", run(script.NAME)):
        application.conversation()
    instructed = [expect.text("system", script.SYSTEM), expect.text("user", script.CAPITAL)]
    with recorder.scenario("instructed", run(script.CAPITAL, input_messages=instructed)):
        application.instructed()
    with recorder.scenario("multimodal", run(script.PICTURE)):
        application.multimodal()
    with recorder.scenario("streamed", run(script.COUNT)):
        asyncio.run(application.streamed())
    with recorder.scenario("tool-call", run(script.WEATHER)):
        application.tools(script.WEATHER)
    with recorder.scenario("parallel-tool-calls", run(script.COMPARE)):
        application.tools(script.COMPARE)
    with recorder.scenario("tool-error", failed_run()):
        application.tool_error()


def main() -> None:
    """Record the dialect."""
    with recording("pydantic-ai") as recorder:
        export_traces(recorder)
        Agent.instrument_all()
        application.RUN["conversation_id"] = script.SESSION
        record(recorder)


if __name__ == "__main__":
    main()
