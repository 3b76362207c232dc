"""Conversations that judges are shown: with the calls of tools that spans tell, and not of sessions that are cut."""

import json
from pathlib import Path
from typing import Any

import pytest

from collector.conventions.own_keys import OwnKeys
from collector.evaluation.session_case import case_of_session
from collector.evaluation.trace_case import case_of_trace, conversation_of
from storage.ingest.windows import Limits
from storage.records import JsonValue
from tests.conventions.making import Attributes, a_span, read_all, text
from tests.judging import judged
from tests.live import until
from tests.model_server import Says, a_model
from tests.offline import an_offline_server
from tests.serving import post
from tests.test_hostile_sessions import RULE, fence_of
from tests.test_sessions import a_message, a_turn

CALL = {"type": "tool_call", "id": "c1", "name": "refund", "arguments": {"order": 7}}
QUESTION, CALLED = text("user", "Refund order 7"), {"role": "assistant", "parts": [CALL]}
RESULT = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "done"}]}
ANSWER = text("assistant", "It is refunded.")
AGENT: Attributes = {"gen_ai.operation.name": "invoke_agent"}
TOOL: Attributes = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "refund",
    "gen_ai.tool.call.id": "c1",
    "gen_ai.tool.call.arguments": '{"order": 7}',
    "gen_ai.tool.call.result": "done",
}


def a_chat(sent: list[Any], answered: Any) -> Attributes:
    """Build a call of a model."""
    attributes = {"gen_ai.input.messages": json.dumps(sent), "gen_ai.output.messages": json.dumps([answered])}
    return {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **attributes}


@pytest.mark.parametrize("call_id", [None, "call_0"])
def test_each_call_of_a_conversation_has_its_own_result(call_id: str | None) -> None:
    """Results belong to calls by their order if calls have no id, or if each answer numbers them anew."""
    talk: list[dict[str, JsonValue]] = []
    for city, result in (("Paris", "rain"), ("Oslo", "snow"), ("Rome", None)):
        call: dict[str, JsonValue] = {
            "type": "tool_call",
            "id": call_id,
            "name": "weather",
            "arguments": {"city": city},
        }
        talk.append({"role": "assistant", "parts": [call]})
        if result is not None:
            part: dict[str, JsonValue] = {"type": "tool_call_response", "id": call_id, "response": result}
            talk.append({"role": "tool", "parts": [part]})
    calls = [call.result for message in conversation_of(talk).messages for call in message.tool_calls]
    assert calls == ["rain", "snow", None]


@pytest.mark.parametrize("is_session", [False, True])
@pytest.mark.parametrize("is_in_messages", [False, True])
def test_a_judge_of_a_conversation_sees_each_call_of_a_tool_once(*, is_in_messages: bool, is_session: bool) -> None:
    """Calls of tools are shown if messages or only their spans record them, in a trace and in a session."""
    chats = [a_chat([QUESTION], CALLED), TOOL, a_chat([QUESTION, CALLED, RESULT], ANSWER)]
    attributes = [AGENT, *(chats if is_in_messages else [TOOL, a_chat([QUESTION], ANSWER)])]
    root = f"{1:016x}"
    spans = [
        a_span(one, span_id=f"{at:016x}", parent_span_id=root if at > 1 else None, start_ns=at, end_ns=99)
        for at, one in enumerate(attributes, 1)
    ]
    case = case_of_session("s", [(spans, ())], OwnKeys({})) if is_session else case_of_trace(read_all(*spans), spans)
    document = json.loads(case.model_dump_json(by_alias=True))
    configuration = {"criteria": ["goalCompletion"], "includeToolCalls": True}
    verdict, (request,) = judged(
        "conversation_trajectory", configuration, document, Says({"score": 0.5, "reason": "so"})
    )
    shown = json.loads(fence_of(request))
    assert verdict.to_document()["score"] == 0.5
    assert [each["content"] for each in shown if each["content"]] == ["Refund order 7", "It is refunded."]
    calls = [call for each in shown for call in each.get("toolCalls", ())]
    assert calls == [{"tool": "refund", "arguments": {"order": 7}}]


def test_the_conversation_of_a_session_with_too_many_spans_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its displayed output is; a judge of the conversation is not asked about a part of it, and no call is counted."""
    monkeypatch.setattr("collector.live.jobs.work.examiner.LIMITS", Limits(rows=20, nbytes=1 << 20))
    monkeypatch.setattr("storage.ingest.windows._ENDS", 4)
    session = {"target": "SESSION", "settle": 1}
    rules: list[dict[str, Any]] = [
        RULE,
        {**session, "name": "last", "evaluator": "regex", "config": {"pattern": "^Answer 14$"}},
        {**session, "name": "calls", "evaluator": "tool_call_count", "config": {"toolCallsCount": {"step": [">", 1]}}},
    ]
    settings = {"settle_after_root_seconds": 0.1}
    with (
        a_model(Says({"score": 0.5, "reason": "so"})) as model,
        an_offline_server(tmp_path / "data", **settings) as server,
    ):
        server.ask("POST", "llm-connections", 201, json={"name": "main", "baseUrl": model.base_url, "model": "m"})
        for rule in rules:
            server.ask("POST", "projects/shop/trace-eval-rules", 201, json=rule)
        assert server.running is not None
        turns = [
            a_turn(
                at + 1, "long", [a_message("user", f"Question {at}"), a_message("assistant", f"Answer {at}")], at_s=at
            )
            for at in range(15)
        ]
        post(f"http://{server.running.otlp_http}/v1/traces", b"".join(turns))
        results = "SELECT rule, outcome, passed, reason, metadata FROM evaluations WHERE NOT superseded"
        rows = until(lambda: server.sql(results), lambda stored: len(stored) == 3, within_s=60)
    by_rule = {rule: (outcome, passed, reason) for rule, outcome, passed, reason, _ in rows}
    assert by_rule["last"][:2] == ("scored", True)
    assert "30 spans are too many" in by_rule["last"][2]
    for name in ("goal", "calls"):
        assert by_rule[name][0] == "skipped"
        assert by_rule[name][2].startswith("not read: ")
    assert model.requests == []
