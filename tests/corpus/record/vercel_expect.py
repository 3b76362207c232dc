"""Expectations for the scenarios of the Vercel AI SDK, by its major version."""

from tests.corpus.record import expect, script
from tests.corpus.record.expect import Expected, Message, trace
from tests.corpus.record.script import ANSWERS

QUESTIONS = {
    "chat": script.CAPITAL,
    "responses": script.CAPITAL,
    "conversation": script.NAME,
    "multimodal": script.PICTURE,
    "streamed": script.COUNT,
    "streamed-tool-call": script.WEATHER,
    "tool-call": script.WEATHER,
    "parallel-tool-calls": script.COMPARE,
    "tool-error": script.ATLANTIS,
}
SCENARIOS = (*QUESTIONS, "refused", "embedding")
CALL_ERROR = "AI_APICallError"


def expected(version: str, scenario: str) -> Expected:
    """Return the content of `expected.json` of one scenario."""
    return latest(scenario) if version == "7" else older(version, scenario)


def latest(scenario: str) -> Expected:
    """Version 7: the conventions of OpenTelemetry, with a span around each step."""
    if scenario == "embedding":
        name = f"embeddings {script.EMBEDDING_MODEL}"
        embedding: Expected = {"name": name, "kind": "embedding", "model": script.EMBEDDING_MODEL, "provider": "openai"}
        return whole([embedding, embedding | {"input_tokens": script.EMBEDDING_TOKENS}], trace())
    chat, run = f"chat {script.CHAT_MODEL}", f"invoke_agent {script.CHAT_MODEL}"
    if scenario == "refused":
        error: Expected = {"error": script.REFUSAL, "error_type": CALL_ERROR}
        refused_call = refused(chat, provider="openai")
        return whole(
            [{"name": run, "kind": "agent", **error}, {"name": "step 1", "kind": "chain", **error}, refused_call],
            trace(),
        )
    question = QUESTIONS[scenario]
    spans = [expect.agent(run, question, **expect.used(question))]
    for turn, answer in enumerate(ANSWERS[question]):
        messages = history(question, turn, "Error: " + script.UNKNOWN_CITY)
        spans.append({"name": f"step {turn + 1}", "kind": "chain"})
        spans.append(expect.llm(chat, question, turn, input_messages=messages, reasoning_tokens=None))
        spans += [_tool(f"execute_tool {script.TOOL}", call, "Error") for call in answer.calls]
    return whole(spans, trace(question))


def older(version: str, scenario: str) -> Expected:
    """Return versions 4 and 5: attributes of its own, with a span around all steps."""
    if scenario == "embedding":
        own: Expected = {
            "kind": "embedding",
            "input": script.CAPITAL,
            "model": script.EMBEDDING_MODEL,
            "provider": "openai.embedding",
        }
        used = own | {"input_tokens": script.EMBEDDING_TOKENS}
        spans: list[Expected] = [used | {"name": "ai.embed"}, used | {"name": "ai.embed.doEmbed"}]
        return whole(spans, trace(), **_user())
    if scenario == "refused":
        wrapper: Expected = {"name": "ai.generateText", "kind": "chain"}
        wrapper |= {"error": script.REFUSAL, "error_type": CALL_ERROR}
        spans = [wrapper, refused("ai.generateText.doGenerate", provider="openai.chat")]
        return whole(spans, trace(), **_user())
    question = QUESTIONS[scenario]
    is_streamed = scenario.startswith("streamed")
    wrapper_name, name = ("ai.streamText", "doStream") if is_streamed else ("ai.generateText", "doGenerate")
    is_fatal = version == "4" and scenario == "tool-error"
    turns = ANSWERS[question][: 1 if is_fatal else None]
    spans = [_wrapper(wrapper_name, question, is_fatal=is_fatal)]
    lost = _lost(version, scenario)
    for turn, answer in enumerate(turns):
        messages = history(question, turn, script.UNKNOWN_CITY)
        spans.append(expect.llm(f"{wrapper_name}.{name}", question, turn, input_messages=messages, **lost))
        spans += [_tool("ai.toolCall", call, None if is_fatal else "Error") for call in answer.calls]
    nobody: Expected = {"session_id": None, "user_id": None} if version == "4" else {}
    # its tool spans do not know the session
    spans = [span | nobody if span["kind"] == "tool" else span for span in spans]
    return whole(spans, _older_trace(question, is_fatal=is_fatal, has_usage="input_tokens" not in lost), **_user())


def history(question: str, turn: int, failure: str) -> list[Message]:
    """Return the messages: the results of the tools in one."""
    messages = expect.history(question, turn)
    if not turn:
        return messages
    calls = ANSWERS[question][0].calls
    parts = [{"type": "tool_call_response", "id": call.id, "response": call.result or failure} for call in calls]
    return [*messages[:2], {"role": "tool", "parts": parts}]


def refused(name: str, provider: str) -> Expected:
    """Claim an error of the model's service."""
    return {
        "name": name,
        "kind": "llm",
        "input": script.REFUSED,
        "input_messages": [expect.text("user", script.REFUSED)],
        "model": script.CHAT_MODEL,
        "provider": provider,
        "error": script.REFUSAL,
        "error_type": CALL_ERROR,
    }


def whole(spans: list[Expected], of_trace: Expected, **everywhere: object) -> Expected:
    """Return the spans and the trace."""
    return {
        "spans": [expect.without_none(span) for span in expect.spans(*spans, dialect="vercel", **everywhere)],
        "trace": of_trace,
    }


def _user() -> dict[str, object]:
    return {"session_id": script.SESSION, "user_id": script.USER}


def _lost(version: str, scenario: str) -> dict[str, object]:
    """Drop usage that a version lacks: version 4 writes NaN for a stream without usage; neither has cached tokens."""
    provider = "openai.responses" if scenario == "responses" and version == "5" else "openai.chat"
    lost: dict[str, object] = {"provider": provider, "cached_tokens": None, "reasoning_tokens": None}
    if version == "4":
        lost["unclaimed"] = ["cached_tokens", "reasoning_tokens"]  # in ai.response.providerMetadata
    if version == "4" and scenario.startswith("streamed"):
        lost |= {"input_tokens": None, "output_tokens": None}
    return lost


def _wrapper(name: str, question: str, *, is_fatal: bool) -> Expected:
    wrapper: Expected = {"name": name, "kind": "chain", "input": question}
    if is_fatal:
        return wrapper | {"error": script.UNKNOWN_CITY}
    return wrapper | {"output": ANSWERS[question][-1].text}


def _tool(name: str, call: script.ToolCall, error_type: str | None) -> Expected:
    unclaimed = None if error_type else ["error_type"]  # two exceptions, one around the other
    return expect.tool(name, call, **({} if call.result else {"error_type": error_type, "unclaimed": unclaimed}))


def _older_trace(question: str, *, is_fatal: bool, has_usage: bool) -> Expected:
    fields: dict[str, object] = {}
    if is_fatal:
        used = ANSWERS[question][0].tokens
        fields = {"output": None, "final_response": None, "input_tokens": used.input, "output_tokens": used.output}
    if not has_usage:
        fields = {"input_tokens": None, "output_tokens": None}
    return trace(question, session=script.SESSION, **fields)
