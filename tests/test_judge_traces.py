"""Our own calls to judges as spans: stored when wanted, and never judged."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from collector.app import Running
from collector.evaluation.rule_trial import explain_trace, try_rule
from evaluators.chat.client import ModelCallFailed
from evaluators.errors import OverBudget
from rules.settling import Settling
from tests.connecting import QUESTION, SCHEMA, AJob, a_connection, an_active_rule
from tests.live import a_client
from tests.model_server import MODEL_RETURNED, ModelServer, Says, Status, a_model
from tests.ruling import a_rule
from tests.serving import a_server, an_export, post

GOOD = Says({"score": 1})
YEARS_S = 100 * 365 * 86_400.0


def judged(server: Running, model: ModelServer, **more: object) -> None:
    """Run three jobs of a rule in a server: one is answered, one fails, one is over budget."""
    connection = a_connection(model.base_url, maxOutputTokens=64, budget={"callsPerDay": 1}, **more)
    server.pipeline.judging.connections.create(connection)

    async def ask() -> None:
        judges = server.pipeline.judging.judges
        judge = judges.judge(an_active_rule(name="tone"), AJob(job_id=7))
        with pytest.raises(ModelCallFailed):  # which costs nothing
            await judge(QUESTION, SCHEMA)
        await judge(QUESTION, SCHEMA)
        with pytest.raises(OverBudget):
            await judge(QUESTION, SCHEMA)
        await judges.close()

    asyncio.run(ask())


def rows(server: Running, select: str, parameters: Mapping[str, Any] = MappingProxyType({})) -> Sequence[Sequence[Any]]:
    """Query the server's database."""
    return server.store.queries.sql(select, parameters, max_rows=1000, timeout_s=20).rows


OURS = """
    SELECT name, kind, status_code, status_message, input_tokens, error, tool_name, model,
        attributes['error.type'], attributes['tracejury.rule'], attributes['tracejury.job_id']
    FROM spans WHERE service_name = 'tracejury' ORDER BY start_time
"""


def test_each_request_is_a_span_that_no_rule_matches(tmp_path: Path) -> None:
    """The SDK's exporter sends them to the server's own door, where rules without a condition match all but them."""
    with a_model([Status(500), GOOD]) as model, a_server(tmp_path, judge_traces=True) as server:
        judged(server, model)
        post(f"http://{server.http}/api/v1/traces", an_export("a" * 32, "theirs").SerializeToString())
        server.pipeline.judging.flush()
        assert server.store.wait_committed(10)
        assert server.traces.wait_idle(20)
        (failed, answered) = rows(server, OURS)
        assert tuple(answered[:3]) == ("chat judge-1", "CLIENT", "UNSET")
        assert (answered[4], answered[7], *answered[8:]) == (100, MODEL_RETURNED, None, "tone", "7")
        assert tuple(failed[:4]) == ("chat judge-1", "CLIENT", "ERROR", "unavailable")
        assert (failed[4], failed[7], *failed[8:]) == (0, "judge-1", "unavailable", "tone", "7")
        ask = partial(rows, server)
        ours = rows(server, "SELECT DISTINCT trace_id FROM spans WHERE service_name = 'tracejury'")
        for target in ("SPAN", "TRACE"):
            rule = a_rule(target=target)
            trial = try_rule(rule, "never", YEARS_S, ask, settling=Settling())
            assert (trial.looked_at, trial.evaluations) == (3, 1)
            for (trace_id,) in ours:
                explained = explain_trace(rule, trace_id, ask)
                assert explained is not None
                assert {span["decision"] for span in explained["spans"]} == {"filtered"}


@pytest.mark.parametrize("protocol, provider", [("RESPONSES", "openai"), ("ANTHROPIC", "anthropic")])
def test_a_span_names_whose_protocol_it_is(tmp_path: Path, protocol: str, provider: str) -> None:
    """The provider of a span is that of the connection's protocol."""
    with a_model([Status(500), GOOD]) as model, a_server(tmp_path, judge_traces=True) as server:
        judged(server, model, protocol=protocol)
        server.pipeline.judging.flush()
        assert server.store.wait_committed(10)
        named = "SELECT DISTINCT attributes['gen_ai.provider.name'] FROM spans WHERE service_name = 'tracejury'"
        assert [name for (name,) in rows(server, named)] == [provider]


def test_requests_carry_no_trace_context(tmp_path: Path) -> None:
    """An endpoint learns who asks, and of no trace."""
    with a_model([Status(500), GOOD]) as model, a_server(tmp_path, judge_traces=True) as server:
        judged(server, model)
        assert {request.headers["user-agent"] for request in model.requests} == {"tracejury-judge"}
        assert [
            name for request in model.requests for name in request.headers if name in {"traceparent", "baggage"}
        ] == []


def test_without_the_setting_there_are_no_spans(tmp_path: Path) -> None:
    """Nothing is stored about calls but their rows."""
    with a_model([Status(500), GOOD]) as model, a_server(tmp_path) as server:
        judged(server, model)
        assert server.store.spending.flush(10)
        assert rows(server, "SELECT count(*) FROM spans")[0][0] == 0
        assert [row[0] for row in rows(server, "SELECT outcome FROM judge_call ORDER BY call_id")] == [
            "unavailable",
            "answered",
        ]


def test_a_server_with_keys_takes_its_own_spans(tmp_path: Path) -> None:
    """It has a key of its own, which reads nothing."""
    with a_model([Status(500), GOOD]) as model, a_server(tmp_path, judge_traces=True, api_key="k" * 16) as server:
        judged(server, model)
        server.pipeline.judging.flush()
        assert server.store.wait_committed(10)
        assert len(rows(server, OURS)) == 2
        own = {"authorization": f"Bearer {server.context.authenticator.keyring.own_key}"}
        with a_client() as client:
            assert client.get(f"http://{server.http}/api/v1/traces", headers=own).status_code == 403
