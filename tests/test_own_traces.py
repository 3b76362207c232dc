"""The server's own traces: by the group of work, sent to the endpoint, judged by no rule, without a loop."""

from collections.abc import Sequence
from pathlib import Path
from types import MethodType
from typing import cast

import pytest

from collector.app import Running
from collector.exporters import own_traces
from collector.exporters.own_traces import OwnTraces
from collector.self_tracing import INTERNAL_HEADER, FinishedWork
from tests.access import request
from tests.alerting import a_receiver, an_alerting, answer
from tests.live import until
from tests.serving import PROTOBUF, a_server, post, unused_port
from tests.storing import WAIT_S, an_export, rows, trace_id

RULE = "name: all of them\nevaluator: tool_error\n"
OWN = """
    SELECT name, kind, status_code, attributes['tracejury.internal'], resource_attributes['tracejury.internal']
    FROM spans WHERE service_name = 'tracejury' ORDER BY start_time
"""


def traces_of(server: Running) -> OwnTraces:
    """Return the sender of a server's own traces."""
    traces = cast("MethodType", server.context.watch).__self__
    assert isinstance(traces, OwnTraces)
    return traces


def come_to_rest(server: Running) -> None:
    """Flush the server's own spans, and wait until all are stored, read and matched."""
    traces_of(server).flush()
    assert server.store.wait_committed(WAIT_S)
    assert server.traces.wait_idle(WAIT_S)
    assert server.pipeline.matcher.wait_matched(WAIT_S)


def test_a_server_that_traces_itself_comes_to_rest(tmp_path: Path) -> None:
    """Of its own spans there is no group, no commit and no window, and no rule decides otherwise than not to look."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "all.yaml").write_text(RULE, encoding="utf-8")
    address = f"127.0.0.1:{unused_port()}"
    endpoint = f"http://{address}/v1/traces"
    with a_server(
        tmp_path / "data", otlp_http=address, own_traces_endpoint=endpoint, rules=tmp_path / "rules"
    ) as server:
        post(endpoint, an_export(3).SerializeToString())
        counts: list[Sequence[tuple[object, ...]]] = []
        for _ in range(4):
            come_to_rest(server)
            counts.append(rows(server.store, OWN))
        assert {row[0] for row in counts[-1]} == {"ingest group", "commit", "match window"}
        assert len(counts[-1]) == len(counts[1])
        assert {row[1:] for row in counts[-1]} == {("INTERNAL", "UNSET", "true", "true")}
        decisions = """SELECT s.service_name, d.decision, count(*) FROM decisions AS d
            JOIN spans AS s USING (trace_id, span_id) GROUP BY ALL ORDER BY ALL"""
        decided = {(service, decision) for service, decision, _ in rows(server.store, decisions)}
        assert ("tracejury", "filtered") in decided
        assert {decision for service, decision in decided if service == "tracejury"} == {"filtered"}
        assert "filtered" not in {decision for service, decision in decided if service == "shop"}


def test_requests_are_told_by_their_routes(tmp_path: Path) -> None:
    """A request is a span with its route and status, unless it sends spans or is about a server itself."""
    with a_server(tmp_path / "b") as taker:
        endpoint = f"http://{taker.otlp_http}/v1/traces"
        assert taker.context.watch is None  # without an endpoint there is no receiver
        with a_server(tmp_path / "a", own_traces_endpoint=endpoint) as server:
            url = f"http://{server.http}/api/v1/traces"
            body, headers = an_export(2).SerializeToString(), {"content-type": PROTOBUF}
            assert request(url, "POST", content=body, headers=headers).status_code == 200
            assert request(f"{url}/{'f' * 32}").status_code == 404
            assert request(url, headers={INTERNAL_HEADER: "1"}).status_code == 200
            assert server.store.wait_committed(WAIT_S)
            traces_of(server).flush()
        assert taker.store.wait_committed(WAIT_S)
        select = """SELECT name, kind, attributes['http.response.status_code'], attributes['tracejury.spans'],
            duration_ms FROM spans ORDER BY name"""
        stored = rows(taker.store, select)
        assert [row[:4] for row in stored] == [
            ("GET /api/v1/traces/{trace_id}", "SERVER", "404", None),
            ("commit", "INTERNAL", None, "2"),
            ("ingest group", "INTERNAL", None, "2"),
        ]
        assert all(cast("float", row[4]) > 0 for row in stored)
        assert rows(taker.store, f"SELECT count(*) FROM spans WHERE trace_id = '{trace_id(0)}'") == [(0,)]


def test_attempts_to_tell_receivers_are_told(tmp_path: Path) -> None:
    """A failed delivery attempt and the next one are traced, without their address."""
    seen: list[FinishedWork] = []
    with a_receiver() as (url, script), an_alerting(tmp_path, watch=seen.append) as alerting:
        script.act = lambda handler, number: answer(handler, 500 if number == 1 else 204)
        webhook = alerting.webhook(url)
        alerting.open()
        alerting.attempted(webhook, 1)
        alerting.forward(60)
        alerting.settled(webhook, "delivered")
        until(lambda: len(seen), lambda count: count == 2)
    assert [
        (done.attributes["tracejury.state"], done.attributes["http.response.status_code"], done.failed) for done in seen
    ] == [
        ("pending", 500, "not delivered"),
        ("delivered", 204, None),
    ]
    assert url not in str(seen)


def test_an_endpoint_that_is_away_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans that do not fit into the queue are dropped, and shutdown does not wait."""
    monkeypatch.setattr(own_traces, "_FLUSH_S", 0.05)
    traces = OwnTraces("http://127.0.0.1:9/v1/traces", {}, instance="here")
    for number in range(5_000):
        traces.watch(FinishedWork(name="commit", began_ns=number))
    traces.close()
    assert traces._exporter.is_closed
