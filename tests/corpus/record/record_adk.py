# mypy: ignore-errors
# the libraries are those of record_adk_1.txt or record_adk_2.txt
"""Google's Agent Development Kit with its own tracing, on a scripted model class; the argument is its major version."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from tests.corpus.record import expect, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, export_logs, export_traces, recording

MODEL = "gemini-2.5-flash"
INSTRUCTION = f'{script.SYSTEM}\n\nYou are an agent. Your internal name is "assistant".'
SESSION = {"session_id": script.SESSION}
TOOL = f"execute_tool {script.TOOL}"
MERGED = {"name": "execute_tool (merged)"}  # after parallel calls: of no tool, and no call
ERROR = {"error": script.UNKNOWN_CITY, "error_type": "ValueError"}


def first(question: str) -> Expected:
    """Version 1: the model's span lasts over its tools; those and the wrappers do not know the session."""
    is_failed = question == script.ATLANTIS
    error = ERROR if is_failed else {}
    spans = [
        {"name": "invocation", "kind": "chain", **error},
        {"name": "agent_run [assistant]", "kind": "agent", **error},
    ]
    declared = [{"name": script.TOOL, "description": script.TOOL_DESCRIPTION}]
    for turn, answer in enumerate(script.ANSWERS[question][: 1 if is_failed else None]):
        lost = {"provider": "gcp.vertex.agent", "tool_definitions": declared}
        spans.append(llm("call_llm", question, turn, **SESSION, **lost))
        fields = (
            {"tool_call_id": None, "tool_arguments": None, "tool_name": None, "unclaimed": ["tool_name"]}
            if is_failed
            else {}
        )
        spans += [expect.tool(TOOL, call, **fields) for call in answer.calls]
        spans += [MERGED] * (len(answer.calls) > 1)
    return expected(spans, whole(question))


def second(question: str) -> Expected:
    """Version 2: the conventions of OpenTelemetry."""
    is_failed = question == script.ATLANTIS
    error = ERROR if is_failed else {}
    spans = [
        {"name": "invoke_workflow assistant", "kind": "chain", **SESSION, **error},
        {"name": "invoke_agent assistant", "kind": "agent", **SESSION, **error},
    ]
    for turn, answer in enumerate(script.ANSWERS[question][: 1 if is_failed else None]):
        declared = [expect.TOOL_DEFINITION]
        lost = {"provider": "gcp.gemini", "tool_definitions": declared}
        lost["unclaimed"] = ["user_id"]  # in the log record only
        spans.append(llm(f"generate_content {MODEL}", question, turn, **SESSION, **lost))
        spans += [expect.tool(TOOL, call, **({"tool_call_id": None} if is_failed else {})) for call in answer.calls]
        spans += [MERGED] * (len(answer.calls) > 1)
    return expected(spans, whole(question))


def llm(name: str, question: str, turn: int, **fields: object) -> Expected:
    """Return one answer of the model, which has a tool to choose from in every question."""
    messages = [expect.text("system", INSTRUCTION), *expect.history(question, turn)]
    parts = [part for message in messages[3:] for part in message["parts"]]
    messages = [*messages[:3], *([{"role": "tool", "parts": parts}] if parts else [])]
    return expect.llm(name, question, turn, model=MODEL, input_messages=messages, **fields)


def whole(question: str) -> Expected:
    """Return the trace."""
    lost = {"input": None, "output": None}
    if question == script.ATLANTIS:
        used = script.ANSWERS[question][0].tokens
        lost |= {"final_response": None, "input_tokens": used.input, "output_tokens": used.output}
    return trace(question, session=script.SESSION, **lost)


def expected(spans: list[Expected], of_trace: Expected) -> Expected:
    """Return the content of `expected.json`."""
    return {"spans": expect.spans(*spans, dialect="adk"), "trace": of_trace}


def model() -> object:
    """Return a model that answers from the script."""
    from google.adk.models import BaseLlm, LlmResponse
    from google.genai import types

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: object, stream: bool = False) -> object:  # noqa: ARG002, FBT001, FBT002
            contents = llm_request.contents
            last_question = [at for at, c in enumerate(contents) if c.role == "user" and any(p.text for p in c.parts)][
                -1
            ]
            question = next(part.text for part in contents[last_question].parts if part.text)
            answer = script.ANSWERS[question][
                any(p.function_response for c in contents[last_question:] for p in c.parts)
            ]
            calls = [
                types.Part(function_call=types.FunctionCall(id=call.id, name=script.TOOL, args=call.arguments))
                for call in answer.calls
            ]
            usage = types.GenerateContentResponseUsageMetadata(
                prompt_token_count=answer.tokens.input,
                candidates_token_count=answer.tokens.output,
                total_token_count=answer.tokens.input + answer.tokens.output,
            )
            content = types.Content(role="model", parts=calls or [types.Part(text=answer.text)])
            yield LlmResponse(content=content, usage_metadata=usage, finish_reason=types.FinishReason.STOP)

    return Scripted(model="gemini-2.5-flash")


async def ask(*questions: str) -> None:
    """Run the agent in a session, a turn for each question."""
    from google.adk.agents import LlmAgent
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    agent = LlmAgent(name="assistant", model=model(), instruction=script.SYSTEM, tools=[script.get_weather])
    runner = InMemoryRunner(agent=agent, app_name="shop")
    where = {"user_id": script.USER, "session_id": script.SESSION}
    await runner.session_service.create_session(app_name="shop", **where)
    for question in questions:
        message = types.Content(role="user", parts=[types.Part(text=question)])
        async for _ in runner.run_async(**where, new_message=message):
            pass


async def record(recorder: Recording, read: Callable[[str], Expected]) -> None:
    """Record each scenario once."""
    with recorder.scenario("agent-run", read(script.CAPITAL)):
        await ask(script.CAPITAL)
    with recorder.scenario("tool-call", read(script.WEATHER)):
        await ask(script.WEATHER)
    with recorder.scenario("parallel-tool-calls", read(script.COMPARE)):
        await ask(script.COMPARE)
    with recorder.scenario("tool-error", read(script.ATLANTIS)), suppress(ValueError):
        await ask(script.ATLANTIS)


def main() -> None:
    """Record the dialect."""
    version = sys.argv[1]
    if version == "2":
        os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
        os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_AND_EVENT"
    with recording(f"adk-{version}") as recorder:
        export_traces(recorder)
        export_logs(recorder)
        asyncio.run(record(recorder, second if version == "2" else first))


if __name__ == "__main__":
    main()
