"""Sessions that real frameworks recorded are conversations: each message once, each call at its turn."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.conventions.own_keys import NO_KEYS
from collector.evaluation.session_case import case_of_session
from collector.otlp.decode import Request, decode
from collector.otlp.signals import LOGS, TRACES, Signal
from collector.reading.sessions import read_session
from storage.ingest.batch import SpanBatch
from storage.query.sessions import SessionTraces
from storage.store import Store
from tests.corpus.record import otlp_json, script
from tests.matching import adding_up
from tests.source_tree import ROOT
from tests.storing import RECEIVED_AT_US, WAIT_S, a_store, commit

SESSIONS = sorted(
    path for path in (ROOT / "tests" / "corpus" / "sessions").glob("*.json") if path.suffixes == [".json"]
)
KINDS: dict[str, tuple[type[Any], Signal]] = {
    "": (ExportTraceServiceRequest, TRACES),
    ".logs": (ExportLogsServiceRequest, LOGS),
}
TURNS = [
    [("user", script.CAPITAL), ("assistant", "The capital of Norway is Oslo.")],
    [("user", script.WEATHER), ("assistant", "It rains in Oslo at 7 °C.")],
    [("user", script.COUNT), ("assistant", "One, two, three.")],
]


def a_batch(path: Path, kind: str) -> SpanBatch:
    """Load the spans or log records of a recorded session."""
    shape, signal = KINDS[kind]
    request = otlp_json.loads(path.with_suffix(f"{kind}.json").read_text(encoding="utf-8"), shape)
    sent = Request(body=request.SerializeToString(), tenant=path.stem, signal=signal)
    return decode([sent], received_at_us=RECEIVED_AT_US).batch


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield all recorded sessions, each of a tenant of its own, log records last."""
    with a_store(tmp_path_factory.mktemp("data")) as opened, adding_up(opened) as traces:
        for kind in KINDS:
            paths = [path for path in SESSIONS if path.with_suffix(f"{kind}.json").exists()]
            commit(opened, *(a_batch(path, kind) for path in paths))
            assert traces.wait_idle(WAIT_S)
        yield opened


def session_of(store: Store, path: Path) -> SessionTraces:
    """Return the recorded session."""
    session = store.sessions.traces(script.SESSION, limit=50, tenant=path.stem)
    assert session is not None
    return session


def spoken(messages: Any) -> list[tuple[str, str]]:
    """Return role and text of the messages of users and the application."""
    texts = [
        (message["role"], "".join(part["content"] for part in message["parts"] if part["type"] == "text"))
        for message in messages
    ]
    return [(role, text) for role, text in texts if text and role in {"user", "assistant"}]


def test_four_frameworks_are_recorded() -> None:
    """Google's ADK, LangGraph, the OpenAI Agents SDK and the Vercel AI SDK."""
    assert [path.stem for path in SESSIONS] == ["adk-2", "langgraph", "openai-agents", "vercel-5"]


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_a_recorded_session_is_a_conversation(store: Store, path: Path) -> None:
    """Three turns, the history that the framework sends again is left out, and the one call stands at its turn."""
    session = session_of(store, path)
    turns = read_session(session, {}, NO_KEYS)
    assert [spoken(turn.messages) for turn in turns] == TURNS
    calls = [[(call.name, call.arguments, call.is_error) for call in turn.tool_calls] for turn in turns]
    assert calls == [[], [(script.TOOL, {"city": "Oslo"}, False)], []]
    assert (session.summary.trace_count, session.summary.tool_call_count, session.summary.error_count) == (3, 1, 0)


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_a_recorded_session_is_a_test_case(store: Store, path: Path) -> None:
    """Evaluators read the conversation, the call in its message, and what all turns took."""
    session = session_of(store, path)
    case = case_of_session(script.SESSION, [(trace.spans, trace.logs) for trace in session.traces], NO_KEYS)
    talk = case.actual_outputs["trajectory"]
    messages = [(message.role, message.content) for message in talk.messages if message.content]
    assert [each for each in messages if each[0] in {"user", "assistant"}] == [each for turn in TURNS for each in turn]
    assert [call.name for message in talk.messages for call in message.tool_calls] == [script.TOOL]
    assert case.inputs["input"] == script.CAPITAL
    assert case.actual_outputs["output"] == "One, two, three."
    assert [len(turn["toolCalls"]) for turn in case.actual_outputs["turns"]] == [0, 1, 0]
    used = [
        answer.tokens
        for question in (script.CAPITAL, script.WEATHER, script.COUNT)
        for answer in script.ANSWERS[question]
    ]
    summary = case.metadata["traceSummary"]
    assert summary["tokenUsage"]["input"] == sum(tokens.input for tokens in used)
    assert summary["tokenUsage"]["output"] == sum(tokens.output for tokens in used)
    assert summary["eventCount"] == 1
