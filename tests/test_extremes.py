"""Numbers at the ends of what a client can send: no page, view, route or monitor fails by them, and none wraps."""

import math
import re
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute

from collector.api.serving.application import routes
from collector.metric_monitor_text import METRICS
from collector.web.site import make_site
from storage.sql import documented_views, views
from tests.access import request
from tests.answers import the_document
from tests.extremes import JSON_NUMBERS, extreme_logs, extreme_traces
from tests.live import until
from tests.storing import START_NS
from tests.tenancy import Tenancy, two_tenants

TENANT = "acme"
PROTOBUF = {"content-type": "application/x-protobuf"}
GET_ROUTES = [
    route.path
    for route in [*routes(), *make_site().routes]
    if isinstance(route, APIRoute) and "GET" in (route.methods or ())
]
SHOWN = [number.to_bytes(16, "big").hex() for number in range(1, 83)] + ["f" * 32, "0" * 30 + "ff"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    """A server with something of everything, and with every number at its extremes."""
    with two_tenants(tmp_path_factory.mktemp("extremes") / "data") as tenancy:
        send(tenancy)
        yield tenancy


def send(tenancy: Tenancy) -> None:
    """Send everything for a tenant, and wait until it is added up."""
    key = tenancy.key(TENANT, "ingest")
    for signal, export in (("traces", extreme_traces(START_NS)), ("logs", extreme_logs(START_NS))):
        url = f"http://{tenancy.server.running.otlp_http}/v1/{signal}"
        answer = request(url, "POST", key=key, content=export.SerializeToString(), headers=PROTOBUF)
        assert answer.status_code == 200, answer.text
    spans = sum(len(each.spans) for each in extreme_traces().resource_spans[0].scope_spans)
    stored = f"SELECT count(*) FROM span WHERE tenant = '{TENANT}'"
    until(partial(tenancy.rows, stored), lambda found: int(str(found[0][0])) >= spans, within_s=60)
    added_up = "SELECT count(*) FROM changed_trace"
    until(partial(tenancy.rows, added_up), lambda found: found == [(0,)], within_s=120)


def ask(tenancy: Tenancy, method: str, path: str, **content: Any) -> Any:
    """The answer to the tenant's administrator, or to one of the server where a tenant has no business."""
    answer = tenancy.server.ask(method, path, key=tenancy.key(TENANT), **content)
    return tenancy.server.ask(method, path, key=tenancy.key(""), **content) if answer.status_code == 403 else answer


def paths(tenancy: Tenancy) -> Iterator[str]:
    """Every route that is read, about what there is; those of traces about every trace of extremes."""
    ids = {**tenancy.ids[TENANT], "digest": "x", "name": "x", "service": "shop"}
    for template in GET_ROUTES:
        names = set(re.findall(r"\{(\w+)\}", template))
        traces = SHOWN if "trace_id" in names else [""]
        for trace_id in traces:
            told = dict(ids)
            if trace_id:
                told |= {"trace_id": trace_id, "span_id": trace_id[16:]}
            yield re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: quote(str(told.get(found[1], "1")), safe=""), template)  # noqa: B023


def test_every_route_shows_numbers_at_their_extremes(filled: Tenancy) -> None:
    """No page and no answer fails, whatever a trace holds."""
    failed = {}
    for path in paths(filled):
        answer = ask(filled, "GET", path)
        if answer.status_code >= 500:
            failed[path] = (answer.status_code, answer.text[:300])
    for path in ("/?last=3650d", "/traces?from=1970-01-01", "/sessions/extreme", "/sessions?from=1970-01-01T00:00:00Z"):
        answer = ask(filled, "GET", path)
        if answer.status_code >= 500:
            failed[path] = (answer.status_code, answer.text[:300])
    assert failed == {}


def test_every_view_answers_about_numbers_at_their_extremes(filled: Tenancy) -> None:
    """Each view can be read as a whole, as text, and added up by each of its columns."""
    failed = {}
    for view in [name for name, _ in views()]:
        statements = [f"SELECT * FROM {view}"]
        described = filled.rows(f"DESCRIBE {view}")
        for name, kind in [(str(row[0]), str(row[1])) for row in described]:
            statements.append(f'SELECT count("{name}"), max("{name}"::VARCHAR) FROM {view}')
            if kind in {"BIGINT", "INTEGER", "DOUBLE", "HUGEINT", "UINTEGER", "FLOAT"}:
                statements.append(f'SELECT sum("{name}"), min("{name}"), max("{name}"), avg("{name}") FROM {view}')
        for statement in statements:
            try:
                filled.rows(statement)
            except Exception as error:  # noqa: BLE001 - all that fail are told together
                failed[statement] = str(error)[:200]
            if view in documented_views():
                answer = ask(filled, "POST", "/api/v1/sql", json={"sql": statement})
                if answer.status_code != 200:
                    failed[f"sql: {statement}"] = answer.text[:200]
    assert failed == {}


def test_no_duration_is_negative_and_no_sum_wraps(filled: Tenancy) -> None:
    """Whatever is read of counts is within their bounds, and durations are unknown or at least nothing."""
    for view in ("spans", "traces", "sessions", "tool_calls"):
        assert filled.rows(f"SELECT count(*) FROM {view} WHERE duration_ms < 0") == [(0,)]
    for view in ("spans", "traces"):
        least = "least(input_tokens, output_tokens, cost_usd)"
        most = "greatest(input_tokens, output_tokens, cost_usd)"
        assert filled.rows(f"SELECT count(*) FROM {view} WHERE {least} < 0 OR {most} > {2**53}") == [(0,)]
    ((tokens,),) = filled.rows("SELECT input_tokens FROM sessions WHERE session_id = 'extreme'")
    assert tokens is not None


def test_every_metric_is_looked_at(filled: Tenancy) -> None:
    """No monitor fails, and none opens an alert by what is unknown."""
    thread = filled.server.running.pipeline.metric_monitors
    of = {"rule_matches": {"rule": "slow"}, "budget_used": {"project": "shop"}}
    made = []
    for metric in METRICS:
        text = {"name": f"extreme {metric}", "metric": metric, "above": 1e308, "minCount": 1, **of.get(metric, {})}
        answer = ask(filled, "POST", "/api/v1/metric-monitors", json=text)
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
    thread.look_now()
    for monitor in made:
        shown = ask(filled, "GET", f"/api/v1/metric-monitors/{monitor}").json()
        assert shown["value"] is None or math.isfinite(shown["value"]), shown


def test_every_parameter_takes_numbers_at_their_extremes(filled: Tenancy) -> None:
    """Whatever a query parameter is given, an answer is no server error."""
    failed = {}
    for template, operations in the_document()["paths"].items():
        for parameter in operations.get("get", {}).get("parameters", []):
            if parameter["in"] == "query":
                path = re.sub(
                    r"\{(\w+)\}", lambda found: quote(str(filled.ids[TENANT].get(found[1], "1")), safe=""), template
                )
                others = "".join(
                    f"&{other['name']}=shop"
                    for other in operations["get"]["parameters"]
                    if other["in"] == "query" and other.get("required") and other is not parameter
                )
                for number in JSON_NUMBERS:
                    answer = ask(filled, "GET", f"{path}?{parameter['name']}={number[:500]}{others}")
                    if answer.status_code >= 500:
                        failed[f"{path} {parameter['name']}={number[:40]}"] = answer.text[:200]
    assert failed == {}
