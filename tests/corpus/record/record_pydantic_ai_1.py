# mypy: ignore-errors
# the libraries are those of record_pydantic_ai_1.txt
"""Pydantic AI 1 with its first two formats: legacy events in one attribute, and messages with older tool attributes."""

import os
import sys
from collections.abc import Callable

import httpx
from pydantic_ai import Agent
from pydantic_ai.agent import InstrumentationSettings
from pydantic_ai.providers.openai import OpenAIProvider

from tests.corpus.record import expect, script
from tests.corpus.record import pydantic_ai_application as application
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, export_traces, recording

Results = Callable[[list[Expected]], list[Expected]]
RUN = "agent run"
CHAT = f"chat {script.CHAT_MODEL}"
TOOLS = "running tools"
TOOL = "running tool"


def run(question: str, results: Results) -> Expected:
    """Return the run of the agent around the model's answers and the tools between them."""
    answers = expect.ANSWERS[question]
    reasoning = answers[-1].tokens.reasoning or None
    spans = [expect.agent(RUN, question, model=script.CHAT_MODEL, reasoning_tokens=reasoning, **expect.used(question))]
    spans.append(chat(question, 0, results))
    if len(answers) > 1:
        spans += [{"name": TOOLS, "kind": "chain"}, *expect.tools(TOOL, question), chat(question, 1, results)]
    cost = sum(script.cost_usd(answer.tokens) for answer in answers)
    return expected(spans, trace(question, cost_usd=round(cost, 12)))


def failed_run() -> Expected:
    """Claim a run that the tool's error ends."""
    tokens = expect.ANSWERS[script.ATLANTIS][0].tokens
    used = {"input_tokens": tokens.input, "output_tokens": tokens.output}
    error = {"error": script.UNKNOWN_CITY, "error_type": "ValueError"}
    spans = [
        expect.agent(RUN, script.ATLANTIS, output=None, model=script.CHAT_MODEL, **used, **error),
        chat(script.ATLANTIS, 0, list),
        {"name": TOOLS, "kind": "chain", **error},
        expect.tool(TOOL, script.LOST),
    ]
    whole = trace(script.ATLANTIS, output=None, final_response=None, cost_usd=script.cost_usd(tokens), **used)
    return expected(spans, whole)


def chat(question: str, turn: int, results: Results) -> Expected:
    """Return one answer of the model."""
    messages = expect.history(question, turn)
    price = script.cost_usd(expect.ANSWERS[question][turn].tokens)
    messages[2:] = results(messages[2:]) if turn else messages[2:]
    return expect.llm(CHAT, question, turn, input_messages=messages, cost_usd=price, cached_tokens=None)


def together(results: list[Expected]) -> list[Expected]:
    """Return the results of the tools as parts of one message."""
    return [{"role": "tool", "parts": [part for result in results for part in result["parts"]]}]


def expected(spans: list[Expected], whole: Expected) -> Expected:
    """Return the content of `expected.json`."""
    return {"spans": expect.spans(*spans, dialect="pydantic_ai"), "trace": whole}


def record(recorder: Recording, results: Results) -> None:
    """Record each scenario once."""
    with recorder.scenario("conversation", run(script.NAME, results)):
        application.conversation()
    with recorder.scenario("multimodal", run(script.PICTURE, results)):
        application.multimodal()
    with recorder.scenario("tool-call", run(script.WEATHER, results)):
        application.tools(script.WEATHER)
    with recorder.scenario("parallel-tool-calls", run(script.COMPARE, results)):
        application.tools(script.COMPARE)
    with recorder.scenario("tool-error", failed_run()):
        application.tool_error()


def main() -> None:
    """Record the dialect: the argument is the version of the format, 1 or 2."""
    version = int(sys.argv[1])
    with recording(f"pydantic-ai-1-v{version}") as recorder:
        export_traces(recorder)
        Agent.instrument_all(InstrumentationSettings(version=version))
        client = httpx.AsyncClient(proxy=os.environ["HTTP_PROXY"])  # its own client ignores the variable
        application.PROVIDER["provider"] = OpenAIProvider(http_client=client)
        record(recorder, list if version == 1 else together)


if __name__ == "__main__":
    main()
