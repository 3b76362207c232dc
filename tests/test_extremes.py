"""Numbers at the ends of what a client can send: no page, view, route or monitor fails by them, and none wraps."""

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute

from collector.api.serving.application import routes
from collector.metric_monitor_text import METRICS
from collector.web.site import make_site
from storage.sql import documented_views, views
from tests.access import request
from tests.answers import the_document
from tests.extremes import ENDS, EVERY_TIME, JSON_NUMBERS, extreme_logs, extreme_traces, replaced
from tests.live import until
from tests.storing import START_NS
from tests.tenancy import TRACE, Tenancy, two_tenants
from tests.walking import is_soaking, some_of

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/conventions",
    "collector/live/monitors",
    "collector/metric_monitor_text.py",
    "collector/otlp",
    "collector/units.py",
    "collector/web",
    "rules",
    "storage",
)

TENANT = "acme"
PROTOBUF = {"content-type": "application/x-protobuf"}
GET_ROUTES = [
    route.path
    for route in [*routes(), *make_site().routes]
    if isinstance(route, APIRoute) and "GET" in (route.methods or ())
]
TIMED = [number.to_bytes(16, "big").hex() for number in range(2, 2 + ENDS**2)]  # by start, and then by end
WHOLE = [EVERY_TIME.hex(), (1).to_bytes(16, "big").hex(), "f" * 32, "0" * 30 + "ff"]
AS_TEXT = 5
"""So many of the extremes a parameter is given that is compared as the text that it is: others get other ones."""
READ = {"after", "base", "before", "from", "number", "time", "to", "version"}
"""Parameters in which a text is read as a number or a time."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    """Yield a server with something of everything, and with every number of spans at its extremes."""
    with two_tenants(tmp_path_factory.mktemp("extremes") / "data") as tenancy:
        send(tenancy)
        yield tenancy


@pytest.fixture(scope="module")
def bodies(served: Tenancy) -> tuple[dict[str, str], int]:
    """Send all bodies with every number at its extremes."""
    return send_bodies(served)


@pytest.fixture(scope="module")
def filled(served: Tenancy, bodies: tuple[dict[str, str], int]) -> Tenancy:
    """Return the server, once spans and bodies have every number at its extremes."""
    assert bodies
    return served


def send(tenancy: Tenancy) -> None:
    """Send everything for a tenant, and wait until its traces are summed."""
    key = tenancy.key(TENANT, "ingest")
    for signal, export in (("traces", extreme_traces(START_NS)), ("logs", extreme_logs(START_NS))):
        url = f"http://{tenancy.server.running.otlp_http}/v1/{signal}"
        answer = request(url, "POST", key=key, content=export.SerializeToString(), headers=PROTOBUF)
        assert answer.status_code == 200, answer.text
    spans = sum(len(each.spans) for each in extreme_traces().resource_spans[0].scope_spans)
    stored = f"SELECT count(*) FROM span WHERE tenant = '{TENANT}'"
    until(partial(tenancy.rows, stored), lambda rows: int(str(rows[0][0])) >= spans, within_s=60)
    added_up = "SELECT count(*) FROM changed_trace"
    until(partial(tenancy.rows, added_up), lambda rows: rows == [(0,)], within_s=120)


def ask(tenancy: Tenancy, method: str, path: str, **content: Any) -> Any:
    """Send a request as the tenant's administrator, or as one of the server if a tenant has no access."""
    answer = tenancy.server.ask(method, path, key=tenancy.key(TENANT), **content)
    return tenancy.server.ask(method, path, key=tenancy.key(""), **content) if answer.status_code == 403 else answer


def traces_for(place: int) -> list[str]:
    """Return traces to request from a route: one with spans of every pair of times, and a ninth of those with one.

    A ninth has each start and each end once, and another ninth is for the next route, so that routes together are asked
    about every pair. `make soak` asks each about all.
    """
    diagonals = range(ENDS) if is_soaking() else [place]
    return [*WHOLE, *(TIMED[start * ENDS + (start + each) % ENDS] for each in diagonals for start in range(ENDS))]


def paths(tenancy: Tenancy) -> Iterator[str]:
    """Yield every route that is read, about what there is; those of traces about traces of extremes."""
    ids = {**tenancy.ids[TENANT], "digest": "x", "name": "x", "service": "shop"}
    places = itertools.count()
    for template in GET_ROUTES:
        names = set(re.findall(r"\{(\w+)\}", template))
        traces = traces_for(next(places)) if "trace_id" in names else [""]
        for trace_id in traces:
            known = dict(ids)
            if trace_id:
                known |= {"trace_id": trace_id, "span_id": trace_id[16:]}
            yield re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: quote(str(known.get(match[1], "1")), safe=""), template)  # noqa: B023


BODIES: Final[Mapping[str, Any]] = {
    "POST /api/v1/scores": {"scores": [{"traceId": TRACE, "name": "extreme", "score": 1}]},
    "PUT /api/v1/traces/{trace_id}/annotation": {"name": "extreme", "score": 1},
    "PUT /api/v1/runs/{run_id}/items/{number}/annotation": {"name": "extreme", "score": 1},
    "PUT /api/v1/session-annotation?sessionId={session_id}": {"name": "extreme", "score": 1},
    "POST /api/v1/runs/{run_id}/items": {
        "items": [
            {
                "itemKey": "extreme", "trial": 1, "retries": 0, "tokensIn": 1, "tokensOut": 1, "cachedTokens": 1,
                "reasoningTokens": 1, "costUsd": 1, "latencyMs": 1,
                "evalResults": [{"name": "exact", "score": 1, "threshold": 1, "costUsd": 1, "latencyMs": 1}],
            }
        ]
    },
    "POST /api/v1/runs/{run_id}/evaluations": {
        "name": "extreme", "criteria": "Good.", "connectionId": "judge", "threshold": 1, "minScore": 1, "maxScore": 5,
    },
    "POST /api/v1/projects/shop/runs": {"experimentName": "extreme", "trials": 1, "idleSeconds": 60},
    "POST /api/v1/projects/shop/trace-eval-rules": {
        "name": "extreme", "evaluator": "tool_error", "sampleRate": 1, "threshold": 1,
        "conditions": [{"field": "duration_ms", "op": ">", "value": 5}], "budget": {"callsPerDay": 1, "usdPerDay": 1},
    },
    "POST /api/v1/projects/shop/trace-eval-rules/test": {
        "name": "extreme", "evaluator": "tool_error", "threshold": 1, "sampleRate": 1,
        "conditions": [{"field": "trace.input_tokens", "op": ">", "value": 5}],
    },
    "POST /api/v1/metric-monitors": {
        "name": "extreme", "metric": "span_errors", "above": 1, "escalateAt": 2, "windowSeconds": 60, "minCount": 1,
        "looks": 1,
    },
    "POST /api/v1/experiments/{experiment_id}/gate": {
        "candidateRunId": "{candidate_id}", "baselineRunId": "{run_id}", "margin": 0.1, "alpha": 0.05,
        "severityMargin": 1, "floor": 1, "costMargin": 1, "latencyMargin": 1, "margins": {"exact": 1},
        "thresholds": {"exact": 1},
    },
    "POST /api/v1/review-queues": {
        "name": "extreme", "answer": "score", "low": 0, "high": 1, "reviewers": 1,
        "feeds": [{"ruleId": "{rule_id}", "policy": "uncertainty", "share": 1, "margin": 1}],
    },
    "PUT /api/v1/review-queues/{queue_id}/entries/{entry_id}/vote": {"score": 1},
    "POST /api/v1/sql": {"sql": "SELECT $n FROM spans WHERE input_tokens > $n LIMIT 1", "parameters": {"n": 1}},
    "POST /api/v1/llm-connections": {
        "name": "extreme", "baseUrl": "http://127.0.0.1:9/v1", "model": "m", "apiKey": "sk-1", "temperature": 1,
        "maxOutputTokens": 1, "price": {"inputUsdPerMillion": 1, "outputUsdPerMillion": 1},
        "budget": {"callsPerDay": 1, "tokensPerDay": 1, "usdPerDay": 1},
        "limits": {"attempts": 1, "inFlight": 1, "requestsPerMinute": 1, "timeoutSeconds": 1},
    },
    "POST /api/v1/projects/shop/alert-webhooks": {"url": "http://127.0.0.1:9/", "digestMinutes": 1},
}  # fmt: skip
"""Bodies that are taken as they stand, and hold every number that a body can."""


def send_bodies(tenancy: Tenancy) -> tuple[dict[str, str], int]:
    """Send every body with each of its numbers at each extreme; return which failed, and how many were taken."""
    failed, taken = {}, 0
    ids = dict(tenancy.ids[TENANT])
    for name, body in BODIES.items():
        method, _, path = name.partition(" ")
        named = json.loads(re.sub(r"\{(\w+)\}", lambda match: ids.get(match[1], match[0]), json.dumps(body)))
        for text in replaced(named):
            json_type = {"content-type": "application/json"}
            answer = ask(tenancy, method, filled_in(path, ids), content=text, headers=json_type)
            taken += answer.is_success
            if answer.status_code >= 500:
                failed[f"{name} {text[:300]}"] = answer.text[:200]
    until(
        lambda: tenancy.rows("SELECT count(*) FROM job WHERE state = 'ready'"),
        lambda rows: rows == [(0,)],
        within_s=60,
    )
    return failed, taken


def test_every_body_takes_numbers_at_their_extremes(bodies: tuple[dict[str, str], int]) -> None:
    """With any number of any body at any extreme no request fails; the other tests read the accepted objects."""
    failed, taken = bodies
    assert failed == {}
    assert taken > len(BODIES)


@pytest.mark.property
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
    """Each view can be read as a whole, as text, and aggregated by each of its columns."""
    failed = {}
    for view in [name for name, _ in views()]:
        read = []
        for name, kind in [(str(row[0]), str(row[1])) for row in filled.rows(f"DESCRIBE {view}")]:
            read += [f'count("{name}")', f'max("{name}"::VARCHAR)']
            if kind in {"BIGINT", "INTEGER", "DOUBLE", "HUGEINT", "UINTEGER", "FLOAT"}:
                read += [f'{of}("{name}")' for of in ("sum", "min", "max", "avg")]
        for statement in (f"SELECT * FROM {view}", f"SELECT {', '.join(read)} FROM {view}"):
            try:
                filled.rows(statement)
            except Exception as error:  # noqa: BLE001 - all failures are reported together
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
    """No monitor fails, and none opens an alert because of an unknown value."""
    thread = filled.server.running.pipeline.metric_monitors
    of = {"rule_matches": {"rule": "slow"}, "budget_used": {"project": "shop"}}
    made = []
    for metric in METRICS:
        text = {"name": f"extreme {metric}", "metric": metric, "above": 2**53 - 1, "minCount": 1, **of.get(metric, {})}
        answer = ask(filled, "POST", "/api/v1/metric-monitors", json=text)
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
    thread.look_now()
    for monitor in made:
        shown = ask(filled, "GET", f"/api/v1/metric-monitors/{monitor}").json()
        assert shown["value"] is None or math.isfinite(shown["value"]), shown


def numbers_for(name: str, kind: str, path: str) -> Sequence[str]:
    """Return extremes for a parameter: all if it is read as a number or a time, and else a few."""
    return some_of(JSON_NUMBERS, f"{path} {name}", AS_TEXT) if kind == "string" and name not in READ else JSON_NUMBERS


@pytest.mark.property
def test_every_parameter_takes_numbers_at_their_extremes(filled: Tenancy) -> None:
    """Whatever a query parameter is given, an answer is not a server error."""
    failed = {}
    for template, operations in the_document()["paths"].items():
        for parameter in operations.get("get", {}).get("parameters", []):
            if parameter["in"] == "query":
                path = re.sub(
                    r"\{(\w+)\}", lambda match: quote(str(filled.ids[TENANT].get(match[1], "1")), safe=""), template
                )
                others = "".join(
                    f"&{other['name']}=shop"
                    for other in operations["get"]["parameters"]
                    if other["in"] == "query" and other.get("required") and other is not parameter
                )
                kind = json.dumps(parameter["schema"])
                kind = "string" if '"string"' in kind and "date-time" not in kind else "other"
                for number in numbers_for(parameter["name"], kind, template):
                    answer = ask(filled, "GET", f"{path}?{parameter['name']}={number[:500]}{others}")
                    if answer.status_code >= 500:
                        failed[f"{path} {parameter['name']}={number[:40]}"] = answer.text[:200]
    assert failed == {}


@pytest.mark.property
def test_every_path_takes_numbers_at_their_extremes(filled: Tenancy) -> None:
    """Whatever stands in an address in place of a number, an answer is not a server error."""
    failed = {}
    for template in GET_ROUTES:
        for name in re.findall(r"\{(\w+)\}", template):
            for number in numbers_for(name, "string", template):
                ids = {**filled.ids[TENANT], name: number[:500]}
                answer = ask(filled, "GET", filled_in(template, ids))
                if answer.status_code >= 500:
                    failed[f"{template} {name}={number[:40]}"] = answer.text[:200]
    assert failed == {}


def filled_in(template: str, ids: dict[str, str]) -> str:
    """Return a path of a route, about things with these ids."""
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: quote(str(ids.get(match[1], "1")), safe=""), template)


def test_every_number_of_the_contract_has_bounds() -> None:
    """A number in a request has a least and a greatest value; a value of an SQL parameter alone has none."""
    document = the_document()
    unbounded = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            bodies = operation.get("requestBody", {}).get("content", {}).values()
            for each in [*bodies, *operation.get("parameters", ())]:
                for number in numbers_in(each["schema"], document["components"]["schemas"]):
                    if len({each.removeprefix("exclusive").lower() for each in number} & {"minimum", "maximum"}) < 2:
                        unbounded.add(f"{method} {path}")
    assert unbounded == {"post /api/v1/sql"}


FITTING = {
    "amount", "calls", "count", "error_count", "failed", "not_passed", "passed", "scored", "skipped", "span_count",
    "spans", "summed_span_count", "traces", "unpriced_calls",
    "tool_call_count", "votes", "memory_usage_bytes", "judge_calls",  # counts of rows, or of what the server did
    "evaluation_days.input_tokens", "evaluation_days.output_tokens",  # of replies, which say 10^12 at the most
}  # fmt: skip
"""Columns whose sum fits into 64 bits, whatever clients and models say."""


def test_no_sum_is_cast_to_a_type_that_it_may_not_fit() -> None:
    """A sum of what clients chose is cut or cast with TRY_CAST in SQL, because a cast that fails fails the question."""
    unsure = set()
    for file in sorted(Path("storage").rglob("*.sql")):
        for summed, of_row in SUM.findall(file.read_text()) if "schema" not in file.parts else ():
            known = {summed, f"{file.stem}.{summed}"} & FITTING
            if not known or of_row:
                unsure.add(f"{file.name}: {summed}{of_row}")
    assert unsure == set()


SUM = re.compile(
    r"(?<!TRY_CAST\()(?<!least\(coalesce\()\bsum\((?:\w+\.)?(\w+)([^()]*(?:\([^()]*\)[^()]*)*)\).*?::(?:BIGINT|INTEGER)\b"
)


def numbers_in(schema: Any, schemas: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas of numbers in a schema, those that it refers to included."""
    if schema.get("type") in ("integer", "number"):
        yield schema
    inner = [each for key in ("anyOf", "oneOf", "allOf") for each in schema.get(key, ())]
    inner += [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    inner.append(schemas.get(schema.get("$ref", "").rpartition("/")[2]))
    for each in inner if depth < 12 else ():  # a schema of JSON refers to itself
        if isinstance(each, dict):
            yield from numbers_in(each, schemas, depth + 1)
