"""The facts of the script in the shape of `expected.json`, for the recording scripts to put together.

Nothing here reads a payload: a script states which spans its library makes of which facts.
"""

import json

from tests.corpus.record import script
from tests.corpus.record.script import ANSWERS, Answer, ToolCall

Expected = dict[str, object]
Message = dict[str, object]

TOOL_DEFINITION: Expected = {
    "name": script.TOOL,
    "description": script.TOOL_DESCRIPTION,
    "parameters": script.TOOL_PARAMETERS,
}


def text(role: str, content: str) -> Message:
    """Return a message of one text."""
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def asks_tools(*calls: ToolCall) -> Message:
    """Return the model's message that asks for calls."""
    parts = [{"type": "tool_call", "id": c.id, "name": script.TOOL, "arguments": c.arguments} for c in calls]
    return {"role": "assistant", "parts": parts}


def tool_answers(call: ToolCall, response: object = None) -> Message:
    """Return the tool's message: by default its result, or what the application says when it raises."""
    result = response or call.result or f"Error: {script.UNKNOWN_CITY}"
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call.id, "response": result}]}


def answers(answer: Answer) -> Message:
    """Return the model's message of an answer."""
    return asks_tools(*answer.calls) if answer.calls else text("assistant", answer.text)


def spans(*expected: Expected, **everywhere: object) -> list[Expected]:
    """Return the spans in the order they start, each with what all that have a kind of their own share."""
    return [span if span.get("dialect", "") is None else everywhere | span for span in expected]


def application() -> Expected:
    """Build the span of the application itself, which belongs to no dialect."""
    return {"name": "POST /ask", "kind": "other", "dialect": None}


def llm(name: str, question: str, turn: int = 0, **fields: object) -> Expected:
    """Return one answer of the model; fields override, and None takes one away."""
    answer = ANSWERS[question][turn]
    expected: Expected = {
        "name": name,
        "kind": "llm",
        "input": question,
        "output": answer.text or None,
        "input_messages": history(question, turn),
        "output_messages": [answers(answer)],
        "model": script.CHAT_MODEL_DATED,
        "provider": "openai",
        "input_tokens": answer.tokens.input,
        "output_tokens": answer.tokens.output,
        "cached_tokens": answer.tokens.cached or None,
        "reasoning_tokens": answer.tokens.reasoning or None,
        "tool_definitions": [TOOL_DEFINITION] if ANSWERS[question][0].calls else None,
    }
    return without_none(expected | fields)


def history(question: str, turn: int = 0) -> list[Message]:
    """Return the messages that the model is sent with a question in a turn."""
    prompt = [text("user", question)]
    match question:
        case script.NAME:
            before = [text("system", script.SYSTEM), text("user", script.HELLO), text("assistant", script.GREETING)]
            return before + prompt
        case script.PICTURE:
            picture = {"type": "uri", "modality": "image", "uri": script.PICTURE_URL}
            return [{"role": "user", "parts": [{"type": "text", "content": question}, picture]}]
        case _ if turn:
            calls = ANSWERS[question][0].calls
            return [*prompt, asks_tools(*calls), *(tool_answers(call) for call in calls)]
        case _:
            return prompt


def tool(name: str, call: ToolCall, **fields: object) -> Expected:
    """Return one run of the tool; fields override, and None takes one away."""
    expected: Expected = {
        "name": name,
        "kind": "tool",
        "tool_name": script.TOOL,
        "tool_call_id": call.id,
        "tool_arguments": call.arguments,
        "tool_result": call.result,
        "error": None if call.result else script.UNKNOWN_CITY,
        "error_type": None if call.result else "ValueError",
    }
    return without_none(expected | fields)


def agent(name: str, question: str, **fields: object) -> Expected:
    """Return the run of an agent that answers a question; fields override, and None takes one away."""
    expected: Expected = {"name": name, "kind": "agent", "input": question, "output": ANSWERS[question][-1].text}
    return without_none(expected | fields)


def tools(name: str, question: str, **fields: object) -> list[Expected]:
    """Return the runs of the tool that a question makes the model ask for."""
    return [tool(name, call, **fields) for call in ANSWERS[question][0].calls]


def used(question: str) -> dict[str, object]:
    """Return the tokens of all answers to a question, as the spans around them sum them up."""
    everything = [answer.tokens for answer in ANSWERS[question]]
    return {"input_tokens": sum(t.input for t in everything), "output_tokens": sum(t.output for t in everything)}


def trace(question: str | None = None, session: str | None = None, **fields: object) -> Expected:
    """Build the claims about the trace of one question, with every leaf call of a model counted once."""
    if question is None:
        return without_none({"tool_calls": [], "session_id": session} | fields)
    calls = [call for answer in ANSWERS[question] for call in answer.calls]
    expected: Expected = {
        "input": question,
        "output": ANSWERS[question][-1].text,
        "final_response": ANSWERS[question][-1].text,
        "tool_calls": [tool_call(call) for call in calls],
        "input_tokens": sum(answer.tokens.input for answer in ANSWERS[question]),
        "output_tokens": sum(answer.tokens.output for answer in ANSWERS[question]),
        "session_id": session,
    }
    return without_none(expected | fields)


def tool_call(call: ToolCall, **fields: object) -> Expected:
    """Return one call as the trace lists it."""
    return without_none(
        {
            "call_id": call.id,
            "name": script.TOOL,
            "arguments": call.arguments,
            "result": call.result,
            "is_error": call.result is None,
        }
        | fields
    )


def without_none(fields: Expected) -> Expected:
    """Drop the fields that are None."""
    return {key: value for key, value in fields.items() if value is not None}


def as_text(value: object) -> str:
    """Return JSON as json.dumps writes it, the form in which applications hand results to the model."""
    return json.dumps(value, ensure_ascii=False)
