"""Two tenants in one server: every route and every view, made from the application's own lists."""

import datetime as dt
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from collector.access.permission import Permission, requirements_of
from collector.cli.connecting import KEY_VARIABLE, URL_VARIABLE
from storage import sql
from tests.access import OPERATOR_KEY
from tests.faces import Golden, Normalizer, compare
from tests.judged import put
from tests.live import until
from tests.serving import run
from tests.tenancy import PROJECT, TENANTS, TOOL_CALL, TRACE, Tenancy, mark_of, two_tenants
from tests.test_access_matrix import OF_THE_WHOLE_SERVER, OPEN, ROUTES

pytestmark = pytest.mark.costly(
    "collector/access", "collector/api", "collector/cli", "collector/mcp", "collector/web", "storage"
)

APART = [
    (method, path, endpoint)
    for method, path, endpoint in ROUTES
    if f"{method} {path}" not in OF_THE_WHOLE_SERVER | OPEN
]
LOOKING = [path for method, path, _ in APART if method == "GET"]
_LAST = (("DELETE", "/api/v1/traces"), ("POST", "/traces/chosen/delete"))  # the others are about what these delete
CHANGING = sorted(((method, path) for method, path, _ in APART if method != "GET"), key=_LAST.__contains__)
PEOPLE = ("acme", "other")

QUESTIONS = {  # what a route wants to be asked, beside its path
    "/api/v1/export/spans": "?from=2026-11-01T00:00:00Z&to=2026-12-01T00:00:00Z",
    "/api/v1/datasets/{dataset_id}/versions/{version}/diff": "?base=1",
    "/api/v1/experiments/{experiment_id}/runs/{candidate_id}/diff": "?baselineRunId={candidate_id}",
    "/api/v1/quality": "?rule=slow",
    "/api/v1/review-queue": "?outcome=passed",
    "/api/v1/session-annotation": "?sessionId={session_id}",
    "/jaeger/api/operations": "?service=service {mark}",
    "/jaeger/api/v3/operations": "?service=service {mark}",
    "/jaeger/api/traces": "?service=service {mark}&start=1&end=1895255200000000",
    "/jaeger/api/v3/traces": "?query.serviceName=service {mark}&query.startTimeMin=1980-01-01T00:00:00Z"
    "&query.startTimeMax=2030-01-01T00:00:00Z",
    "/datasets/{dataset_id}/versions/{version}/diff": "?base=1",
    "/datasets/{dataset_id}/versions/{version}/text": "?item=one",
    "/traces/{trace_id}/spans/{span_id}/text": "?of=tool_result",
    "/traces/{trace_id}/spans/{span_id}/media": "?of=input_messages&at=0.0",
    "/runs/{run_id}/diff": "?baseline={candidate_id}",
    "/traces/chosen/dataset": "?trace={trace_id}",
    "/traces/chosen/evaluate": "?trace={trace_id}",
    "/playground": "?from={trace_id}/{span_id}",
    "/traces/{trace_id}/judge": "?span={span_id}",
    "/traces/{trace_id}/compare": "?with={trace_id}&show=all&pair=1",
    "/quality/compare": "?rule={rule_id}&project=shop",
    "/quality/results": "?rule={rule_id}&project=shop",
}
ELSEWHERE = {  # what only another run, or another span, has
    "/runs/{run_id}/diff": "/runs/{candidate_id}/diff",
    "/traces/{trace_id}/spans/{span_id}/media": "/traces/{trace_id}/spans/1111111111111111/media",
}
ANSWERED = {
    "/api/v1/projects/{project:name}/trace-eval-rules/{rule_id}/baseline": 409,  # nothing is left to judge
    "/traces/{trace_id}/next": 303,
}
NOT_MARKED = {  # the answer has no room for the tenant's mark, or is the same for all
    "/api/v1/datasets/{dataset_id}/versions/{version}",
    "/api/v1/datasets/{dataset_id}/versions/{version}/diff",
    "/api/v1/agents",  # the traces here are older than its time: tests/test_home_agents.py
    "/api/v1/agreement",
    "/api/v1/caller",
    "/api/v1/projects",
    "/jaeger/api/dependencies",
    "/api/v1/projects/{project:name}/trace-eval-rules/{rule_id}/backfills",
    "/api/v1/projects/{project:name}/trace-eval-rules/{rule_id}/calibration",
    "/api/v1/projects/{project:name}/trace-eval-rules/{rule_id}/labelled-examples",
    "/api/v1/projects/{project:name}/trace-eval-rules/{rule_id}/backfills/{backfill_id}",
    "/api/v1/projects/{project:name}/alert-webhooks/{webhook_id}/deliveries",
    "/api/v1/projects/{project:name}/alert-webhooks/{webhook_id}/deliveries/{delivery_id}",
    "/api/v1/review-queues/{queue_id}/progress",
    "/api/v1/review-queues/{queue_id}/entries",
    "/api/v1/quality",
    "/api/v1/jobs",
    "/api/v1/audit",
    "/api/v1/deletions",
    "/api/v1/deletions/{deletion_id}",
    "/audit",
    "/costs",  # as /api/v1/agents: tests/test_web_costs.py
    "/datasets/new",
    "/review/new",
    "/traces/views/new",
    "/traces/chosen/delete",
    "/datasets/{dataset_id}/delete",
    "/datasets/{dataset_id}/versions/{version}/diff",
    "/keys/new",
    "/connections/new",
    "/connections/{connection_id}/delete",
    "/webhooks/new",
    "/jobs",
    "/jobs/retry",
    "/rules",
    "/rules/new",
    *ANSWERED,
    "/alerts",
    "/quality",
    "/quality/compare",
    "/traces/{trace_id}/judge",
}
READING: Final = (  # what prints JSON and changes nothing, and about what
    "alerts list", "alerts show {alert_id}", "annotations list", "connections list", "datasets list",
    "datasets show qa", "deletions", "evaluators exact_match", "experiments list shop",
    "experiments runs shop {experiment_id}",
    "experiments show {run_id}", "jobs list", "keys list", "metric-monitors list", "review list",
    "review progress {queue_id}", "rules list", "saved-views list", "saved-views show {view_id}", "sessions list",
    "sessions show {session_id}", "traces list", "traces show {trace_id}", "webhooks list",
)  # fmt: skip
UNSTEADY: Final = {"/metrics", "/status", "/audit", "/quality", "/api/v1/audit", "/api/v1/status", "/api/v1/lake"}
"""Routes whose answers depend on what else happened, on random ids, or on a lake."""

RULE: dict[str, object] = {"name": "mine now", "evaluator": "tool_error"}
HOOK: dict[str, object] = {"url": "https://receiver.example/x", "secret": None}
CONNECTION: dict[str, object] = {"name": "mine now", "baseUrl": "https://model.example/v1", "model": "m"}
SENT: dict[str, dict[str, object]] = {  # bodies, by the end of the path
    "trace-eval-rules": RULE,
    "trace-eval-rules/test": RULE,
    "{rule_id}/judge-trial": RULE,
    "{rule_id}/judge": {"traceId": TRACE, "spanId": TOOL_CALL, "priceOnly": True},
    "{rule_id}": RULE,
    "backfills": {"from": "2026-11-20T00:00:00Z"},
    "alert-webhooks": HOOK,
    "{webhook_id}": HOOK,
    "llm-connections": CONNECTION,
    "api/v1/playground": {
        "messages": [{"role": "user", "content": "Hello"}],
        "answers": [{"connectionId": "judge"}],
        "priceOnly": True,
    },
    "{connection_id}": CONNECTION,
    "jobs/retry": {},
    "acknowledge": {"by": "a thief"},
    "api-keys": {"name": "mine now", "role": "VIEWER"},
    "api/v1/traces": {"resourceSpans": []},
    "api/v1/datasets": {"name": "mine now"},
    "datasets/promote": {"datasetName": "qa", "items": [{"traceId": TRACE}]},
    "{experiment_id}/gate": {"candidateRunId": "mine"},
    "{project:name}/runs": {"experimentName": "mine now"},
    "{run_id}/evaluations": {"evaluator": "exact_match"},
    "{run_id}/judge-jobs": {"evaluator": "exact_match"},
    "{run_id}/items": {"items": [{"itemKey": "mine now"}]},
    "{run_id}": {"status": "FAILED"},
    "session-annotation": {"verdict": "CORRECT", "note": "a thief's"},
    "/annotation": {"verdict": "CORRECT", "note": "a thief's"},
    "api/v1/scores": {"scores": [{"traceId": TRACE, "name": "helpful", "label": "up"}]},
    "{dataset_id}": {"description": "mine now"},
    "/review-queues": {"name": "made"},
    "/review-queues/{queue_id}": {"name": "a thief's"},
    "{queue_id}/entries": {"targets": [{"traceId": TRACE}]},
    "{entry_id}/vote": {"label": "CORRECT", "note": "a thief's"},
    "{dataset_id}/versions": {"items": [{"input": "mine now"}]},
    "{dataset_id}/import": {"examples": [{"input": "mine now"}]},
    "/saved-views": {"name": "made", "query": "status=error"},
    "/saved-views/{view_id}": {"name": "a thief's"},
    "/metric-monitors": {"name": "made", "metric": "span_errors", "above": 1},
    "/metric-monitors/{monitor_id}": {"name": "a thief's", "metric": "span_errors", "above": 1},
    "/alert-mutes": {"until": "2100-01-01T00:00:00Z", "rule": "none"},
}
RECEIVER = {"url": "https://receiver.example/x", "template": "unsigned", "events": "alert.opened", "enabled": "on"}
MODEL = {"name": "mine too", "baseUrl": "https://model.example/v1", "model": "m", "protocol": "RESPONSES"}
FORMS: dict[str, dict[str, str]] = {  # what pages send
    "/traces/{trace_id}/judge": {"rule": "a-rule-of-nobody", "span": TOOL_CALL},
    "/traces/{trace_id}/annotate": {"about": "trace", "verdict": "CORRECT"},
    "/traces/views/new": {"name": "mine too", "query": "status=error"},
    "/traces/views/{view_id}/edit": {"name": "a thief's", "version": "1"},
    "/traces/chosen/dataset": {"trace": TRACE, "name": "of chosen traces"},
    "/traces/chosen/evaluate": {"trace": TRACE, "rule": "{rule_id}"},
    "/traces/chosen/delete": {"trace": TRACE},
    "/keys/new": {"name": "mine too", "role": "VIEWER"},
    "/connections/new": MODEL,
    "/connections/{connection_id}/edit": MODEL | {"version": "1"},
    "/webhooks/new": RECEIVER | {"project": "shop"},
    "/webhooks/{webhook_id}/edit": RECEIVER | {"version": "1"},
    "/webhooks/{webhook_id}/switch": {"enabled": "false"},
    "/webhooks/{webhook_id}/secret": {"secret": "chosen-0123456789"},
    "/jobs/retry": {"rule": "", "kind": ""},
    "/review/{queue_id}/entries/{entry_id}/vote": {"label": "CORRECT"},
    "/review/new": {"name": "mine too", "question": "verdict", "answer": "label", "reviewers": "1"},
    "/review/{queue_id}/edit": {"name": "a thief's", "question": "verdict", "reviewers": "1", "version": "1"},
    "/review/{queue_id}/add": {"targets": TRACE},
    "/datasets/new": {"name": "mine too", "description": "", "tags": ""},
    "/runs/{run_id}/items/{number}/promote": {"dataset": "new", "name": "taken over", "expectation": "none"},
    "/alerts/{alert_id}/acknowledge": {"by": "a thief"},
    "/alerts/{alert_id}/mute": {"hours": "1"},
    "/rules/new": {"do": "save", "as": "text", "text": "name: mine too\nevaluator: tool_error\n"},
    "/rules/{rule_id}/edit": {
        "do": "save",
        "as": "text",
        "text": "name: mine too\nevaluator: tool_error\n",
        "version": "1",
    },
    "/rules/{rule_id}/backfills": {"from": "2026-11-20T00:00", "to": "2026-11-21T00:00"},
}

TAKEN_OVER = {"/runs/{run_id}/items/{number}/promote"}
"""Routes that copy a shared resource, which a tenant may read, into one of its own."""

STEADY = {
    "deletion": "deletion_id, filters, created_at",
    "api_key": "key_id, enabled",
    "alert_webhook": "webhook_id, url, version, deleted_at",
    "metric_monitor": "monitor_id, name, version, deleted_at",
}
"""The columns that change only where somebody changes them."""


@pytest.fixture(scope="module")
def tenancy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    """Start one server for all tests; no test changes what another one reads."""
    with two_tenants(tmp_path_factory.mktemp("tenants") / "data") as made:
        yield made


_NAMED = r"\{([a-z_]+)(?::name)?\}"
_ALIKE = {"trace_id", "span_id", "project", "service", "mark"}
"""Path parameters with the same value for every tenant, or that are only a search term."""


def path_of(template: str, ids: dict[str, str], question: str = "") -> str:
    """Return the path of a template with these ids filled in."""
    values = ids | {"mark": mark_of(ids["tenant"])}
    template = ELSEWHERE.get(template, template)
    return re.sub(_NAMED, lambda named: values[named.group(1)], template + question)


def ask(tenancy: Tenancy, tenant: str, method: str, template: str, of: str) -> httpx.Response:
    """Send a request with a tenant's key about an object of a tenant."""
    path = path_of(template, dict(tenancy.ids[of]), QUESTIONS.get(template, ""))
    sent = FORMS.get(template) if method == "POST" else None
    form = sent and {name: path_of(value, dict(tenancy.ids[of])) for name, value in sent.items()}
    is_json = method != "GET" and "/api/" in template
    body = next((body for end, body in SENT.items() if template.endswith(end)), None) if is_json else None
    question = {"project": "shop"} if (method, template) == ("DELETE", "/api/v1/traces") else None
    return tenancy.server.ask(method, path, key=tenancy.key(tenant), json=body, data=form, params=question)


@pytest.fixture(scope="module")
def summing(tenancy: Tenancy) -> str:
    """Return the SQL that sums the rows of each tenant in each table; deliveries change by themselves."""
    tables = tenancy.rows("SELECT table_name FROM duckdb_columns() WHERE column_name = 'tenant' AND NOT internal")
    names = sorted({str(name) for (name,) in tables} - {"audit", "alert_delivery"} - {view for view, _ in sql.views()})
    assert len(names) > 15
    each = (
        f"SELECT '{name}', tenant, count(*), bit_xor(hash({STEADY.get(name, 't')})) FROM {name} AS t GROUP BY tenant"
        for name in names
    )
    return " UNION ALL ".join(each) + " ORDER BY ALL"


def everything(tenancy: Tenancy, summing: str, *tenants: str) -> list[tuple[object, ...]]:
    """Return all rows of some tenants as a number for each table.

    It asks the database itself: what clients' SQL is looked at for would take three times as long as the answer.
    """
    with tenancy.store._database.cursor() as cursor:
        return [row for row in cursor.execute(summing).fetchall() if row[1] in tenants]


def test_the_lists_name_routes() -> None:
    """The lists above name routes that separate tenants, and together all but the few of the whole server."""
    assert set(LOOKING) >= set(QUESTIONS) | NOT_MARKED
    for template, body in SENT.items():
        assert any(path.endswith(template) for _, path in CHANGING), (template, body)
    assert {path for method, path in CHANGING if method == "POST"} >= set(FORMS)
    assert all(requirements_of(endpoint, method).by_tenant for method, _, endpoint in APART)
    assert all(requirements_of(endpoint, method).permission is not Permission.OPEN for method, _, endpoint in APART)


_UNDONE: Final = """
    SELECT deletion_id FROM deletion WHERE finished_at IS NULL
    UNION ALL SELECT backfill_id FROM backfill WHERE "state" = 'running'
    UNION ALL SELECT delivery_id FROM alert_delivery WHERE attempts = 0
"""


@pytest.fixture(scope="module", name="normalizer")
def a_normalizer(tenancy: Tenancy) -> Normalizer:
    """Return the names of ids, equal for the tenant's and the shared objects, once all work is done."""
    until(lambda: tenancy.rows(_UNDONE), lambda rows: rows == [])
    names = {value: name for tenant in ("", "acme") for name, value in tenancy.ids[tenant].items()}
    return Normalizer(names | {mark_of(tenant): "mark" for tenant in ("", "acme")})


def test_what_commands_print(tenancy: Tenancy, normalizer: Normalizer, golden: Golden) -> None:
    """Each command that lists or shows, for people and as JSON."""
    texts: dict[str, str] = defaultdict(str)
    env = {KEY_VARIABLE: tenancy.key("acme"), URL_VARIABLE: f"http://{tenancy.server.running.http}", "COLUMNS": "200"}
    for template in READING:
        command = [part.format(**tenancy.ids["acme"]) for part in template.split()]
        shown, document = (run(*command, *more, env=env) for more in ((), ("--json",)))
        assert (shown.exit_code, document.exit_code) == (0, 0), shown.output
        texts[template.split()[0]] += f"$ {template}\n{normalizer.printed(shown.stdout)}"
        texts[template.split()[0]] += f"$ {template} --json\n{normalizer.document(document.stdout)}"
    compare(golden, "printed", texts)


def test_what_routes_answer(tenancy: Tenancy, normalizer: Normalizer, golden: Golden) -> None:
    """Documents of the API, and outlines of pages with their texts, links and forms, equal the golden files."""
    texts: dict[str, dict[str, str]] = {"api": {}, "pages": {}}
    closed = {path for method, path, _ in ROUTES if f"{method} {path}" in OF_THE_WHOLE_SERVER and method == "GET"}
    for template in [*LOOKING, *sorted(closed)]:
        if template in UNSTEADY or template in ANSWERED:
            continue
        path = path_of(template, dict(tenancy.ids["acme"]), QUESTIONS.get(template, ""))
        answer = tenancy.server.ask("GET", path, key=OPERATOR_KEY if template in closed else tenancy.key("acme"))
        assert answer.status_code == 200, answer.text
        kind = answer.headers["content-type"].partition(";")[0]
        name = template.strip("/").replace(":name", "").replace("/", ".") or "home"
        if kind == "text/html":
            texts["pages"][name] = normalizer.page(answer.text)
        elif kind == "application/json" and template.startswith("/api/"):
            texts["api"][name.removeprefix("api.v1.")] = normalizer.document(answer.text)
    compare(golden, "api", texts["api"])
    compare(golden, "pages", texts["pages"])


@pytest.mark.parametrize("template", LOOKING)
def test_each_route_shows_a_tenant_its_own(tenancy: Tenancy, template: str) -> None:
    """With ids of its own in the path, a tenant gets an answer with its own mark and never the other tenant's."""
    for mine, yours in (PEOPLE, PEOPLE[::-1]):
        answer = ask(tenancy, mine, "GET", template, of=mine)
        assert answer.status_code == ANSWERED.get(template, 200), answer.text
        assert (mark_of(mine).encode() in answer.content) is (template not in NOT_MARKED), answer.text
        assert mark_of(yours).encode() not in answer.content
        hidden = set(tenancy.ids[yours].values()) - set(tenancy.ids[mine].values()) - {tenancy.ids[yours]["job_id"]}
        assert [each for each in hidden if len(each) > len(yours) and each in answer.text] == []
        matches = re.findall(rb'"tenant(?:Id)?":"([a-z]+)"', answer.content)
        assert set(matches) <= {mine.encode()}


@pytest.mark.parametrize("template", [path for path in LOOKING if "{" in path + QUESTIONS.get(path, "")])
def test_each_route_hides_what_is_anothers(tenancy: Tenancy, template: str) -> None:
    """With another tenant's id in the path, the answer is as if it did not exist; who sees all gets both."""
    for mine, yours in (PEOPLE, PEOPLE[::-1]):
        answer = ask(tenancy, mine, "GET", template, of=yours)
        assert mark_of(yours).encode() not in answer.content
        same = set(re.findall(_NAMED, template + QUESTIONS.get(template, ""))) <= _ALIKE
        assert answer.status_code == 404 or (same and answer.status_code == ANSWERED.get(template, 200)), answer.text
        path = path_of(template, dict(tenancy.ids[yours]), QUESTIONS.get(template, ""))
        as_whom = f"&tenant={yours}" if template.startswith("/quality/") else ""  # which shows one tenant at a time
        seen = tenancy.server.ask("GET", path + as_whom, key=OPERATOR_KEY)
        assert seen.status_code == ANSWERED.get(template, 200), seen.text


def test_an_export_in_lines_shows_a_tenant_its_own(tenancy: Tenancy) -> None:
    """The other form of an export has a tenant's spans and the shared ones, and all of them for who sees all."""
    path = "/api/v1/export/spans"
    question = f"{QUESTIONS[path]}&format=otlp-json"
    for tenant in TENANTS:
        answer = tenancy.server.ask("GET", path + question, key=tenancy.key(tenant))
        assert answer.status_code == 200, answer.text
        marked = {each for each in TENANTS if mark_of(each).encode() in answer.content}
        assert marked == ({"", tenant} if tenant else set(TENANTS))


def test_each_view_tells_whose_each_row_is(tenancy: Tenancy) -> None:
    """Every view but those of pending work has rows of both tenants, and no row mixes the two."""
    for view in {name for name, _ in sql.views()} - {
        *("changed_part", "changed_trace", "trace_roll_up", "undecided"),
        "run_evaluation_state",  # by run alone, whose view has the tenant
        "backfill_results",  # of jobs over the lake, where test_lake_backfill.py has two tenants
    }:
        rows = tenancy.rows(f"SELECT tenant, v::VARCHAR FROM {view} AS v")
        assert {tenant for tenant, _ in rows} == set(TENANTS), view
        for tenant, row_text in rows:
            assert not any(mark_of(each) in str(row_text) for each in TENANTS if each != tenant), (
                view,
                tenant,
                row_text,
            )


def test_a_rule_judges_its_tenant_and_a_shared_rule_everybody(tenancy: Tenancy) -> None:
    """Each tenant has verdicts of its rules and of shared ones; traces without a tenant, of the latter alone."""
    of = {tenant: {tenancy.ids[tenant][key] for key in ("rule_id", "trace_rule_id")} for tenant in TENANTS}
    judging = {(tenant, rule) for tenant in TENANTS for rule in of[tenant] | of[""]}
    for table in ("evaluation AS t", "decision JOIN span AS t USING (seq)"):
        rows = tenancy.rows(f"SELECT DISTINCT t.tenant, rule_id FROM {table} JOIN rule_revision USING (revision)")
        assert set(rows) == judging
    streams = tenancy.rows(
        "SELECT tenant, rule_id, count(*) FROM monitor_state WHERE NOT starts_with(fingerprint, 'scores:') GROUP BY ALL"
    )
    assert {count for *_, count in streams} == {1}
    assert {(tenant, rule) for tenant, rule, _ in streams} == judging


def test_matches_of_a_shared_rule_are_counted_by_tenant(tenancy: Tenancy) -> None:
    """A monitor of the metric `rule_matches` counts matches in its own tenant only, of spans and of traces."""
    window = {"from_us": 0, "until_us": time.time_ns() // 1000}
    for tenant in TENANTS:
        for rule in ("rule_id", "trace_rule_id"):
            values = window | {"tenant": tenant, "rule": tenancy.ids[""][rule]}
            assert tenancy.store.metric_monitors.numbers("metric_of_matches", values).count == 1, (tenant, rule)


def test_a_trace_shows_its_tenant_who_judged_it(tenancy: Tenancy) -> None:
    """The document of one trace id differs by who asks: verdicts of his own rules, and of the shared ones."""
    for tenant in PEOPLE:
        trace = tenancy.server.ask("GET", f"/api/v1/traces/{TRACE}", key=tenancy.key(tenant)).json()
        rules = {each["ruleId"] for part in (trace, *trace["spans"]) for each in part["evaluations"]}
        expected = {tenancy.ids[of][key] for of in (tenant, "") for key in ("rule_id", "trace_rule_id")}
        assert rules == expected


def test_activity_is_told_by_tenant(tenancy: Tenancy) -> None:
    """The activity of a shared rule is shown to a tenant only for the tenant's own spans."""
    rule = tenancy.ids[""]["rule_id"]

    def passed(tenant: str) -> int:
        listed = tenancy.server.ask("GET", "/api/v1/trace-eval-rules", key=tenancy.key(tenant)).json()["content"]
        (activity,) = [each["activity"] for each in listed if each["id"] == rule]
        assert sum(activity["decisions"].values()) == 2 * activity["evaluations"]["passed"]
        return int(activity["evaluations"]["passed"])

    assert (passed("acme"), passed("other"), passed("")) == (1, 1, 3)


def test_what_is_shared_is_shown_and_kept(tenancy: Tenancy) -> None:
    """A tenant sees shared rules and alerts, and may not change them; connections and receivers it does not see."""
    ids = tenancy.ids[""]
    rule, alert = f"{PROJECT}/trace-eval-rules/{ids['rule_id']}", f"/api/v1/alerts/{ids['alert_id']}"
    hidden = (f"/api/v1/llm-connections/{ids['connection_id']}", f"{PROJECT}/alert-webhooks/{ids['webhook_id']}")

    def status(method: str, path: str, **content: Any) -> int:
        return tenancy.server.ask(method, path, key=tenancy.key("acme"), **content).status_code

    assert [status("GET", path) for path in (rule, alert)] == [200, 200]
    assert [status("DELETE", rule), status("POST", f"{alert}/acknowledge", json={})] == [403, 403]
    assert [status("GET", f"{rule}/backfills")] == [403]
    assert [status("GET", path) for path in hidden] == [404, 404]


def test_the_commands_work_with_the_key_of_a_tenant(tenancy: Tenancy) -> None:
    """The commands show the tenant's own resources, and explain why those of the server are refused."""
    where = ("--server", f"http://{tenancy.server.running.http}")
    env = {"TRACEJURY_API_KEY": tenancy.key("acme")}
    marked = (("traces", "list"), ("rules", "list"), ("connections", "list"), ("webhooks", "list"), ("keys", "list"))
    named = (("jobs", "list"), ("alerts", "list"), ("monitors",))
    for commands, mine, yours in ((marked, mark_of("acme"), mark_of("other")), (named, '"acme"', '"other"')):
        for command in commands:
            result = run(*command, *where, "--json", env=env)
            assert result.exit_code == 0, result.output
            assert mine in result.output
            assert yours not in result.output
    for command in (("status",), ("sql", "SELECT 1"), ("sweep",)):
        result = run(*command, *where, env=env)
        assert result.exit_code == 1
        assert "not for keys with a tenant" in result.output


@pytest.mark.parametrize("method, template", [each for each in CHANGING if "_id}" in each[1]])
def test_nobody_changes_what_is_anothers(tenancy: Tenancy, summing: str, method: str, template: str) -> None:
    """Asked about another's things by an administrator of a tenant, no route changes a row of another tenant."""
    same = set(re.findall(_NAMED, template)) <= _ALIKE
    before = everything(tenancy, summing, "", "other")
    for of in ("other", ""):
        answer = ask(tenancy, "acme", method, template, of=of)
        if not same:
            right = {404} if of else {303} if template in TAKEN_OVER else {403, 404}
            assert answer.status_code in right, answer.text
    assert everything(tenancy, summing, "", "other") == before


@pytest.mark.parametrize("method, template", [each for each in CHANGING if "_id}" not in each[1]])
def test_what_is_made_belongs_to_its_maker(tenancy: Tenancy, summing: str, method: str, template: str) -> None:
    """Routes without an id in the path change rows of the asker's tenant alone."""
    before = everything(tenancy, summing, "", "acme")
    answer = ask(tenancy, "other", method, template, of="other")
    assert answer.status_code in {200, 201, 204, 303}, answer.text
    assert everything(tenancy, summing, "", "acme") == before
    place = answer.headers.get("location", "").removeprefix(f"http://{tenancy.server.running.http}")
    if place.startswith(("/connections/", "/webhooks/", "/rules/")):
        statuses = [
            tenancy.server.ask("GET", place, key=tenancy.key(tenant)).status_code for tenant in ("other", "acme")
        ]
        assert statuses == [200, 404]
    if answer.status_code == 201 and "json" in answer.headers["content-type"]:
        assert answer.json().get("tenant", answer.json().get("tenantId")) == "other"


def test_a_page_of_a_shared_connection_offers_no_change(tenancy: Tenancy) -> None:
    """A tenant may view a shared connection, is offered neither a test nor a change, and is refused both."""
    shared = CONNECTION | {"name": "for all", "shared": True}
    made = tenancy.server.ask("POST", "/api/v1/llm-connections", key=OPERATOR_KEY, json=shared).json()["id"]
    place = f"/connections/{made}"

    def ask(method: str, path: str) -> httpx.Response:
        return tenancy.server.ask(method, path, key=tenancy.key("acme"))

    listed = ask("GET", "/connections").text
    assert (made in listed, tenancy.ids[""]["connection_id"] in listed) == (True, False)
    page = ask("GET", place)
    assert (page.status_code, f"{place}/" in page.text, "Only the operator can change it" in page.text) == (
        200,
        False,
        True,
    )
    assert [ask("GET", f"{place}/{action}").status_code for action in ("edit", "delete")] == [403] * 2
    assert [ask("POST", f"{place}/{action}").status_code for action in ("test", "edit", "delete")] == [403] * 3


def test_a_tenant_has_its_own_failures_evaluated_again(tenancy: Tenancy, summing: str) -> None:
    """The page counts the tenant's failures, lists shared ones too, and its forms change the tenant's own alone."""
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    jobs = {tenant: 900_000 + number for number, tenant in enumerate(TENANTS)}
    for tenant, job_id in jobs.items():
        rule = tenancy.ids[tenant]["rule_id"]
        ((revision,),) = tenancy.rows(f"SELECT max(revision) FROM rule_revision WHERE rule_id = '{rule}'")
        why = {"outcome": "failed", "error_kind": "broken", "reason": f"it broke {mark_of(tenant)}"}
        of = {"tenant": tenant, "project": "shop", "trace_id": TRACE, "span_id": TOOL_CALL}
        put(tenancy.store, "evaluation", job_id=job_id, revision=revision, seq=1, created_at=now, **of, **why)

    def ask(method: str, path: str, key: str = "", **content: Any) -> httpx.Response:
        return tenancy.server.ask(method, path, key=key or tenancy.key("acme"), **content)

    page = ask("GET", "/jobs").text
    assert [page.count(f"it broke {mark_of(tenant)}") for tenant in TENANTS] == [1, 2, 0]
    assert [f'action="/jobs/{job_id}/retry"' in page for job_id in jobs.values()] == [False, True, False]
    every = ask("GET", "/jobs", OPERATOR_KEY).text
    assert [every.count(f"it broke {mark_of(tenant)}") for tenant in TENANTS] == [2, 2, 2]
    assert f"/traces/{TRACE}?tenant=other" in every
    assert "1 failed evaluation will be retried" in ask("GET", "/jobs/retry").text
    before = everything(tenancy, summing, "", "other")
    for tenant in ("", "other"):
        assert ask("POST", f"/jobs/{jobs[tenant]}/retry").status_code == 404
    assert ask("POST", "/jobs/retry", data={"rule": "slow"}).status_code == 303
    assert everything(tenancy, summing, "", "other") == before
    repeated = tenancy.rows(f"SELECT job_id FROM superseded WHERE job_id IN {tuple(jobs.values())}")
    assert repeated == [(jobs["acme"],)]
