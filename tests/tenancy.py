"""A server with all kinds of objects of two tenants and of none, under the same names and ids.

Every object of a tenant contains the tenant's mark, which no answer to another tenant may contain.
"""

import base64
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from storage.alerting.alert_mutes import AlertMute
from storage.records import JsonValue
from storage.store import Store
from tests.access import Closed, a_closed_server, request
from tests.alerting import ENCRYPTION_KEY, a_finding
from tests.live import until
from tests.log_requests import MESSAGE
from tests.serving import START_NS, unused_port
from tests.storing import rows

TENANTS = ("", "acme", "other")
TRACE = "a" * 32  # one in each tenant
TOOL_CALL = "2" * 16  # a span of it
SPANS, LOGS = 2, 1

PROJECT = "/api/v1/projects/shop"
JSON = {"content-type": "application/json"}


def mark_of(tenant: str) -> str:
    """Return a text that only data of the tenant contains."""
    return f"of-{tenant or 'nobody'}-alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """The server, and the ids of each tenant's objects, by their names in paths."""

    server: Closed
    ids: Mapping[str, Mapping[str, str]]

    @property
    def store(self) -> Store:
        """Return its store."""
        return self.server.running.store

    def key(self, tenant: str, role: str = "admin") -> str:
        """Return a key of a tenant; of none, one that sees everything."""
        return self.server.keys[f"{role} of {tenant}" if tenant else role]

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """Query the database as the operator."""
        return rows(self.store, statement)


@contextmanager
def two_tenants(data: Path, **more: Any) -> Iterator[Tenancy]:
    """Start all of it and wait until everything is judged; `more` are settings."""
    settings = {
        "encryption_key": ENCRYPTION_KEY,
        "webhook_private_hosts": ["127.0.0.0/8"],
        "settle_after_root_seconds": 0.2,
        **more,
    }
    with a_closed_server(data, **settings) as server:
        tenancy = Tenancy(server=server, ids={tenant: {} for tenant in TENANTS})
        ids = {tenant: _make(tenancy, tenant) for tenant in TENANTS}
        for tenant in TENANTS:
            _send(tenancy, tenant)
        tenancy = Tenancy(server=server, ids=ids)
        judged = [("", 2), ("acme", 4), ("other", 4)]
        until(lambda: tenancy.rows(_JUDGED), lambda stored: stored == judged, within_s=120)
        for tenant in TENANTS:
            _make_late(tenancy, tenant)
        watched = "SELECT DISTINCT tenant FROM monitor_state ORDER BY 1"
        counted = "SELECT DISTINCT tenant FROM counted_score ORDER BY 1"
        for statement in (watched, counted):
            until(partial(tenancy.rows, statement), lambda stored: len(stored) == len(TENANTS), within_s=120)
        yield tenancy


_JUDGED = "SELECT tenant, count(*) FROM evaluation WHERE outcome = 'scored' GROUP BY tenant ORDER BY tenant"
"""Each tenant has a rule about the spans of tools, of which there is one, and one about traces; so has nobody."""


def _rule(name: str, mark: str, **keys: object) -> dict[str, object]:
    of_tools = [{"field": "span_type", "op": "=", "value": "tool"}]
    return {"name": name, "evaluator": "tool_error", "conditions": of_tools, "expected": {"mark": mark}, **keys}


def _make(tenancy: Tenancy, tenant: str) -> dict[str, str]:
    """Create all objects of a tenant that need no trace."""
    mark = mark_of(tenant)

    def made(path: str, document: Mapping[str, object]) -> str:
        answer = tenancy.server.ask("POST", f"/api/v1/{path}", key=tenancy.key(tenant), json=document)
        assert answer.status_code == 201, answer.text
        assert answer.json().get("tenant", tenant) == tenant
        return str(answer.json()["id"])

    hook = {"url": f"http://127.0.0.1:{unused_port()}/{mark}", "secret": None}
    connection = {"name": "judge", "baseUrl": "http://127.0.0.1:9/v1", "model": mark, "apiKey": f"sk-{mark}"}
    dataset_id = made("datasets", {"name": "qa", "description": mark})
    made(f"datasets/{dataset_id}/versions", {"items": [{"id": "one", "input": mark}]})
    return {
        "tenant": tenant,
        **_run(tenancy, tenant),
        "dataset_id": dataset_id,
        "version": "1",
        "rule_id": made("projects/shop/trace-eval-rules", _rule("slow", mark, monitor={"scores": ["verdict"]})),
        "trace_rule_id": made("projects/shop/trace-eval-rules", _rule("whole", mark, target="TRACE")),
        "webhook_id": made("projects/shop/alert-webhooks", hook),
        "connection_id": made("llm-connections", connection),
        "key_id": made("api-keys", {"name": mark, "role": "VIEWER"}),
        "trace_id": TRACE,
        "span_id": TOOL_CALL,
        "session_id": mark,
        "project": "shop",
        "service": f"service {mark}",
    }


def _ended_run(tenancy: Tenancy, tenant: str, begun: Mapping[str, object]) -> str:
    """Return the id of a run that is over."""
    key, mark = tenancy.key(tenant), mark_of(tenant)
    run = str(tenancy.server.ask("POST", f"{PROJECT}/runs", key=key, json=begun).json()["runId"])
    items = [{"itemKey": mark, "inputs": {"input": mark}, "evalResults": [{"name": "exact", "score": 1}]}]
    for method, path, body in (
        ("POST", f"/api/v1/runs/{run}/items", {"items": items}),
        ("PATCH", f"/api/v1/runs/{run}", {"status": "SUCCESS"}),
    ):
        answer = tenancy.server.ask(method, path, key=key, json=body)
        assert answer.is_success, answer.text
    return run


def _run(tenancy: Tenancy, tenant: str) -> dict[str, str]:
    """Return a run with an item and a score, and an evaluation of it; their ids."""
    key, mark = tenancy.key(tenant), mark_of(tenant)
    begun = {"experimentName": f"qa {mark}", "metadata": {"mark": mark}}
    ended = _ended_run(tenancy, tenant, begun)
    run = tenancy.server.ask("POST", f"{PROJECT}/runs", key=key, json=begun)
    assert run.status_code == 201, run.text
    score = {"name": "exact", "score": 1, "reason": mark}
    items = {"items": [{"itemKey": mark, "inputs": {"input": mark}, "evalResults": [score]}]}
    reported = tenancy.server.ask("POST", f"/api/v1/runs/{run.json()['runId']}/items", key=key, json=items)
    assert reported.status_code == 201, reported.text
    evaluation = {"evaluator": "exact_match", "name": mark}
    made = tenancy.server.ask("POST", f"/api/v1/runs/{run.json()['runId']}/evaluations", key=key, json=evaluation)
    assert made.status_code == 201, made.text
    of_run = f"SELECT item_number FROM run_item WHERE run_id = '{run.json()['runId']}'"
    ((number,),) = tenancy.rows(of_run)
    return {
        "number": str(number),
        "run_id": run.json()["runId"],
        "candidate_id": ended,
        "experiment_id": run.json()["experimentId"],
        "evaluation_id": made.json()["id"],
    }


def _make_late(tenancy: Tenancy, tenant: str) -> None:
    """Create the objects of a tenant that need results; add their ids."""
    ids: dict[str, str] = dict(tenancy.ids[tenant])
    key, mark = tenancy.key(tenant), mark_of(tenant)
    rule = f"{PROJECT}/trace-eval-rules/{ids['rule_id']}"
    backfill = tenancy.server.ask("POST", f"{rule}/backfills", key=key, json={"from": "2026-11-20T00:00:00Z"})
    assert backfill.status_code == 201, backfill.text
    hook = f"{PROJECT}/alert-webhooks/{ids['webhook_id']}"
    tested = tenancy.server.ask("POST", f"{hook}/test", key=key)
    assert tested.status_code == 202, tested.text
    pinned = tenancy.server.ask("POST", f"/api/v1/traces/{TRACE}/pin", key=key)
    assert pinned.status_code == 200, pinned.text
    vote = {"verdict": "CORRECT", "note": mark}
    about = (f"traces/{TRACE}/annotation", f"runs/{ids['run_id']}/items/{ids['number']}/annotation")
    for place in (*about, f"session-annotation?sessionId={ids['session_id']}"):
        voted = tenancy.server.ask("PUT", f"/api/v1/{place}", key=key, json=vote)
        assert voted.status_code == 200, voted.text
    queued = _queue(tenancy, tenant)
    deleted = tenancy.server.ask("DELETE", "/api/v1/traces?before=1980-01-01T00:00:00Z", key=key)
    assert deleted.status_code == 200, deleted.text
    finding = a_finding(tenant=tenant, evaluator=mark, rule_id=ids["rule_id"], rule="slow")
    assert tenancy.store.alerts.open(finding, START_NS)
    monitor_id, mute_id = uuid.uuid4().hex, uuid.uuid4().hex
    watched: dict[str, JsonValue] = {"name": mark, "metric": "span_errors", "above": 1}
    tenancy.store.metric_monitors.create(monitor_id, mark, watched, START_NS, tenant=tenant)
    mute = AlertMute(
        tenant=tenant,
        mute_id=mute_id,
        project=None,
        rule=mark,
        until_ns=START_NS + 10**18,
        muted_by=None,
        created_at_ns=START_NS,
    )
    tenancy.store.alert_mutes.add(mute)
    ((job_id,),) = tenancy.rows(
        f"SELECT min(job_id) FROM evaluation WHERE tenant = '{tenant}' AND revision IN "
        f"(SELECT revision FROM rule WHERE rule_id = '{ids['rule_id']}')"
    )
    late = {
        **queued,
        "backfill_id": backfill.json()["id"],
        "delivery_id": tested.json()["id"],
        "alert_id": finding.alert_id,
        "monitor_id": monitor_id,
        "mute_id": mute_id,
        "view_id": _view(tenancy, tenant),
        "job_id": str(job_id),
        "deletion_id": deleted.json()["id"],
    }
    tenancy.ids[tenant].update(late)  # type: ignore[attr-defined] # made here


def _view(tenancy: Tenancy, tenant: str) -> str:
    body = {"name": mark_of(tenant), "query": "project=shop"}
    made = tenancy.server.ask("POST", "/api/v1/saved-views", key=tenancy.key(tenant), json=body)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def _queue(tenancy: Tenancy, tenant: str) -> dict[str, str]:
    """Return a queue of reviews with an entry that was voted on; their ids."""
    key, mark = tenancy.key(tenant), mark_of(tenant)
    made = tenancy.server.ask("POST", "/api/v1/review-queues", key=key, json={"name": mark, "blind": False})
    path = f"/api/v1/review-queues/{made.json()['id']}"
    targets = {"targets": [{"traceId": TRACE}]}
    added = tenancy.server.ask("POST", f"{path}/entries", key=key, json=targets)
    assert added.json() == {"added": 1}, added.text
    (entry,) = tenancy.server.ask("GET", f"{path}/entries", key=key).json()["content"]
    undone = tenancy.server.ask("DELETE", f"{path}/entries/{entry['id']}/vote", key=key)
    assert undone.status_code == 204, undone.text
    voted = tenancy.server.ask(
        "PUT", f"{path}/entries/{entry['id']}/vote", key=key, json={"label": "CORRECT", "note": mark}
    )
    assert voted.status_code == 200, voted.text
    return {"queue_id": made.json()["id"], "entry_id": entry["id"]}


def _send(tenancy: Tenancy, tenant: str) -> None:
    """Send the same trace for all tenants: a root and a tool call, and a record of a message."""
    mark = mark_of(tenant)
    url = f"http://{tenancy.server.running.otlp_http}/v1"
    key = tenancy.key(tenant, "ingest")
    for signal, name, items in (("traces", "resourceSpans", _spans(mark)), ("logs", "resourceLogs", _logs(mark))):
        document = json.dumps({name: [{"resource": {"attributes": _attributes(_resource(mark))}, **items}]})
        answer = _request(f"{url}/{signal}", key, document)
        assert answer == 200, answer


def _request(url: str, key: str, document: str) -> int:

    return request(url, "POST", key=key, content=document, headers=JSON).status_code


def _resource(mark: str) -> dict[str, str]:
    return {"service.name": f"service {mark}", "dokimos.project": "shop", "service.version": "1"}


def _spans(mark: str) -> dict[str, Any]:
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": f"tool {mark}",
        "gen_ai.tool.call.arguments": "{}",
        "gen_ai.tool.call.result": mark,
    }
    root = {"traceId": TRACE, "spanId": "1" * 16, "name": f"root {mark}", **_times(10)}
    call = {"traceId": TRACE, "spanId": TOOL_CALL, "parentSpanId": "1" * 16, "name": f"call {mark}", **_times(5)}
    messages = json.dumps([{"role": "user", "parts": [_picture(mark)]}])
    session = {"attributes": _attributes({"session.id": mark, "gen_ai.input.messages": messages})}
    return {"scopeSpans": [{"spans": [root | session, call | {"attributes": _attributes(tool)}]}]}


def _picture(mark: str) -> dict[str, str]:
    head = b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4) + b"IHDR" + (1).to_bytes(4) + (1).to_bytes(4)
    content = base64.b64encode(head + mark.encode()).decode()
    return {"type": "blob", "modality": "image", "mime_type": "image/png", "content": content}


def _logs(mark: str) -> dict[str, Any]:
    record = {"traceId": TRACE, "spanId": "1" * 16, "timeUnixNano": str(START_NS), "eventName": MESSAGE}
    return {"scopeLogs": [{"logRecords": [record | {"body": {"stringValue": mark}}]}]}


def _times(milliseconds: int) -> dict[str, str]:
    return {"startTimeUnixNano": str(START_NS), "endTimeUnixNano": str(START_NS + milliseconds * 1_000_000)}


def _attributes(values: Mapping[str, str]) -> list[dict[str, object]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
