"""Spans of programs on a running server, queried as users do: by rules, by sessions, and by sums of costs."""

from collections.abc import Iterator

import pytest

from tests.live import Live, a_live_server, until
from tests.recorded import recorded
from tests.wire import JSON, post

CUT, AG2, CODEX = "oi-openai.cut.a77e", "ag2-chat.seq-think.4495", "codex-cli.stock-order.0844"
RULE = """
name: cut off
conditions:
  - {field: finish_reason, op: "=", value: length}
evaluator: length
config: {maximumOutputLength: 1}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Yield a server with a rule about answers that were cut off; each test sends traces of its own."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / "cut.yaml").write_text(RULE)
    data = tmp_path_factory.mktemp("programs") / "data"
    with a_live_server(data, env={"TRACEJURY_RULES": folder}) as server:
        yield server


def send(server: Live, name: str, trace: int, *, kind: str = "traces") -> str:
    """Send a recording under another trace id, which is returned."""
    trace_id = f"{trace:032x}"
    end = "" if kind == "traces" else ".logs"
    body = recorded(f"programs-2026-11/{name}{end}.json", trace_id)
    assert post(server, body, kind=JSON, path=f"/v1/{kind}").status_code == 200
    return trace_id


def test_a_rule_judges_the_answers_that_were_cut_off(server: Live) -> None:
    """Of what a program sends, the span that ended at the limit of tokens is matched and judged, and no other."""
    whole, cut = send(server, AG2, 1), send(server, CUT, 2)
    reasons = f"SELECT DISTINCT finish_reason FROM spans WHERE trace_id IN ('{whole}', '{cut}') ORDER BY ALL"
    until(lambda: server.sql(reasons), lambda rows: rows == [["length"], ["stop"], ["tool_call"], [None]])
    judged = until(lambda: server.sql("SELECT trace_id, span_id, rule, score FROM evaluations"), bool)
    spans = server.sql("SELECT trace_id, span_id FROM spans WHERE finish_reason = 'length' AND span_type = 'llm'")
    assert [[*span, "cut off", 0.0] for span in spans] == judged


def test_a_record_of_usage_costs_nothing_beside_its_call(server: Live) -> None:
    """AG2 repeats the usage of each call in a span of its own: the trace costs what its calls cost."""
    trace_id = send(server, AG2, 3)
    cost = f"SELECT round(sum(cost_usd), 6) FROM {{}} WHERE trace_id = '{trace_id}'"
    ((total_usd,),) = until(lambda: server.sql(cost.format("traces")), lambda rows: rows[0][0] is not None)
    calls = f"{cost.format('spans')} AND name LIKE 'chat %'"
    assert [[total_usd]] == server.sql(calls)
    query = f"FROM spans WHERE trace_id = '{trace_id}' AND output_tokens IS NOT NULL"
    counts = f"SELECT name, count(*) {query} GROUP BY name ORDER BY name"
    assert server.sql(counts) == [["chat gpt-5-mini", 3], ["record_usage model_call", 3]]


def test_traces_of_a_conversation_are_a_session(server: Live) -> None:
    """What Codex sends in several traces has the conversation as its session, prompts and calls with it."""
    for trace in (4, 5):
        send(server, CODEX, trace)
        send(server, CODEX, trace, kind="logs")
    session = "SELECT session_id, trace_count, tool_call_count, output_tokens FROM sessions"
    ((session_id, *_),) = until(lambda: server.sql(session), lambda rows: [row[1:] for row in rows] == [[2, 6, 940]])
    document = server.client.get(f"{server.http}/api/v1/sessions/{session_id}").json()
    assert len(document["turns"]) == 2, document.keys()
