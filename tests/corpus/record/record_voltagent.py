"""VoltAgent on Node: the argument is the folder with the packages of record_voltagent.json installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.corpus.record import expect, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, recording

PROGRAM = Path(__file__).with_suffix(".mjs")
QUESTIONS = {
    "agent-run": script.NAME,
    "tool-call": script.WEATHER,
    "streamed-tool-call": script.WEATHER,
    "parallel-tool-calls": script.COMPARE,
    "tool-error": script.ATLANTIS,
}
SCRIPT = {
    "model": script.CHAT_MODEL,
    "tool": script.TOOL,
    "description": script.TOOL_DESCRIPTION,
    "results": {call.city: call.result for call in (script.OSLO, script.BERGEN)},
    "session": script.SESSION,
    "user": script.USER,
    "system": script.SYSTEM,
    "questions": QUESTIONS,
}
WHO = {"session_id": script.SESSION, "user_id": script.USER}


def expected(name: str) -> Expected:
    """Claim what the spans hold: all tokens at the agent, those of the last step at the model, and no answer."""
    question = QUESTIONS[name]
    last = script.ANSWERS[question][-1].tokens
    whole = expect.agent("shop", question, model=script.CHAT_MODEL, **expect.used(question), **WHO)
    messages = [expect.text("system", script.SYSTEM), expect.text("user", question)]
    model: Expected = {
        "name": "llm:streamText" if name.startswith("streamed") else "llm:generateText",
        "kind": "llm",
        "input": question,
        "input_messages": messages,
        "model": script.CHAT_MODEL,
        "input_tokens": last.input,
        "output_tokens": last.output,
        **expect.without_none({"cached_tokens": last.cached or None, "reasoning_tokens": last.reasoning or None}),
        **WHO,
    }
    memory: Expected = {"name": "memory.write", "kind": "other"}
    error = {"error_type": "VoltAgentError"} if question == script.ATLANTIS else {}
    ran: list[Expected] = expect.tools(f"tool.execution:{script.TOOL}", question, **WHO, **error)
    kept: Expected = {"name": "memory.steps.write", "kind": "other"}
    spans: list[Expected] = [whole, {"name": "memory.read", "kind": "retriever"}, model, memory, *ran]
    spans += [kept, memory] * len(script.ANSWERS[question])
    whole_trace = trace(question, script.SESSION)
    return {"spans": expect.spans(*spans, dialect="voltagent"), "trace": whole_trace}


def record(recorder: Recording, folder: Path) -> None:
    """Record each scenario once, in a process of its own."""
    program = Path(shutil.copy(PROGRAM, folder))
    for name in QUESTIONS:
        with recorder.scenario(name, expected(name)):
            subprocess.run(["node", program, name], check=True, env=os.environ | {"SCRIPT": json.dumps(SCRIPT)})


def main() -> None:
    """Record the dialect."""
    with recording("voltagent") as recorder:
        record(recorder, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
