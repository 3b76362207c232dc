"""Every route with every kind of key: made from the application's routes, so that no new one is forgotten."""

import itertools
import re
from collections.abc import Iterator

import grpc
import pytest
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from collector.access.permission import GRANTS, Permission, Role, requirements_of
from collector.api.base.routing import check_caller
from collector.api.serving.application import routes
from collector.web.site import make_site
from collector.web.visitor import check_form
from tests.access import TRACE_EXPORT, WRONG_KEY, Closed, a_closed_server, call, request

ROUTES = [
    (method, route.path, route.endpoint)
    for route in [*routes(), *make_site().routes]
    if isinstance(route, APIRoute)
    for method in sorted(route.methods or ())
]
CHANGING = [each for each in ROUTES if each[0] not in {"GET", "HEAD"} and each[1].startswith("/api/")]
NAMES = [f"{method} {path}" for method, path, _ in ROUTES]
KEYS = [role.lower() for role in Role] + [f"{role.lower()} of acme" for role in Role]

# Exceptions from the permission of the method. A new entry is a reviewed decision.
OPEN_PAGES = {  # the routes needed to sign in
    "GET /sign-in",
    "POST /sign-in",
    "POST /sign-out",
    "GET /static/{digest}/{name}",
    "GET /favicon.ico",
}
OPEN = {"GET /health", "GET /ready", "GET /openapi.json", "GET /docs", "GET /llms.txt"} | OPEN_PAGES
SENDING = {"POST /api/v1/traces", "POST /api/v1/scores"}
READING = {"POST /api/v1/sql", "POST /api/v1/experiments/{experiment_id}/gate"}
WRITING = {  # the form, or the question before one
    "GET /rules/new",
    "GET /rules/{rule_id}/edit",
    "GET /playground",
    "GET /traces/{trace_id}/judge",
    "GET /jobs/retry",
    "GET /datasets/new",
    "GET /datasets/{dataset_id}/delete",
    "GET /traces/{trace_id}/promote",
    "GET /traces/views/new",
    "GET /traces/views/{view_id}/edit",
    "GET /traces/views/{view_id}/delete",
    "GET /traces/chosen/dataset",
    "GET /traces/chosen/evaluate",
    "GET /runs/{run_id}/items/{number}/promote",
    "GET /review/new",
    "GET /review/add",
    "GET /review/{queue_id}/add",
    "GET /review/{queue_id}/edit",
    "GET /review/{queue_id}/delete",
}
SEEING_QUEUES = {
    "GET /api/v1/review-queues",
    "GET /api/v1/review-queues/{queue_id}",
    "GET /api/v1/review-queues/{queue_id}/progress",
    "GET /api/v1/review-queues/{queue_id}/entries",
    "GET /api/v1/review-queues/{queue_id}/entries/{entry_id}",
    "GET /review",
    "GET /review/{queue_id}",
    "GET /review/{queue_id}/entries/{entry_id}",
}
REVIEWING = {
    "POST /api/v1/review-queues/{queue_id}/next",
    "PUT /api/v1/review-queues/{queue_id}/entries/{entry_id}/vote",
    "DELETE /api/v1/review-queues/{queue_id}/entries/{entry_id}/vote",
    "POST /api/v1/review-queues/{queue_id}/entries/{entry_id}/skip",
    "POST /review/{queue_id}/next",
    "POST /review/{queue_id}/undo",
    "POST /review/{queue_id}/entries/{entry_id}/vote",
    "POST /review/{queue_id}/entries/{entry_id}/skip",
}
ADMINISTERING = {
    "GET /api/v1/api-keys",
    "POST /api/v1/api-keys",
    "POST /api/v1/api-keys/{key_id}/disable",
    "DELETE /api/v1/api-keys/{key_id}",
    "GET /api/v1/audit",
    "DELETE /api/v1/traces",
    "DELETE /api/v1/traces/{trace_id}",
    "GET /api/v1/deletions",
    "GET /api/v1/deletions/{deletion_id}",
    "POST /traces/{trace_id}/delete",
    "GET /traces/chosen/delete",
    "POST /traces/chosen/delete",
    "GET /keys",
    "GET /keys/new",
    "POST /keys/new",
    "GET /keys/{key_id}/disable",
    "POST /keys/{key_id}/disable",
    "GET /keys/{key_id}/delete",
    "POST /keys/{key_id}/delete",
    "GET /audit",
    "POST /api/v1/llm-connections",
    "PUT /api/v1/llm-connections/{connection_id}",
    "DELETE /api/v1/llm-connections/{connection_id}",
    "POST /api/v1/llm-connections/{connection_id}/test",
    "POST /api/v1/projects/{project:name}/alert-webhooks",
    "PUT /api/v1/projects/{project:name}/alert-webhooks/{webhook_id}",
    "DELETE /api/v1/projects/{project:name}/alert-webhooks/{webhook_id}",
    "POST /api/v1/projects/{project:name}/alert-webhooks/{webhook_id}/test",
    "POST /api/v1/projects/{project:name}/alert-webhooks/{webhook_id}/deliveries/{delivery_id}/replay",
    "GET /connections/new",
    "POST /connections/new",
    "GET /connections/{connection_id}/edit",
    "POST /connections/{connection_id}/edit",
    "GET /connections/{connection_id}/delete",
    "POST /connections/{connection_id}/delete",
    "POST /connections/{connection_id}/test",
    "GET /webhooks/new",
    "POST /webhooks/new",
    "GET /webhooks/{webhook_id}/edit",
    "POST /webhooks/{webhook_id}/edit",
    "GET /webhooks/{webhook_id}/secret",
    "POST /webhooks/{webhook_id}/secret",
    "GET /webhooks/{webhook_id}/delete",
    "POST /webhooks/{webhook_id}/delete",
    "POST /webhooks/{webhook_id}/switch",
    "POST /webhooks/{webhook_id}/test",
    "POST /webhooks/{webhook_id}/deliveries/{delivery_id}/replay",
    "GET /projects/sweep",
    "POST /projects/sweep",
    "POST /projects/backup",
}
ADMINISTERING_ALL = {
    "GET /api/v1/lake",
    "GET /api/v1/projects/{project:name}/trace-eval-rules/{rule_id}/lake",
    "POST /api/v1/backup",
    "POST /api/v1/projects/{project:name}/trace-eval-rules/{rule_id}/judge-case",
    "POST /api/v1/sweep",
}
FIGURES = {"POST /api/v1/sql", "GET /metrics", "GET /api/v1/status"}
OF_THE_WHOLE_SERVER = (ADMINISTERING_ALL | FIGURES) | {  # closed to tenants
    name for name in NAMES if name.partition(" ")[2].startswith(("/projects", "/status"))
}

sources = (f"127.0.{high}.{low}" for high, low in itertools.product(range(1, 255), range(1, 255)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Start one server for all tests."""
    with a_closed_server(tmp_path_factory.mktemp("matrix") / "data") as closed:
        yield closed


def required_permission(name: str) -> Permission:
    """Return the permission that a route should require."""
    for names, permission in (
        (OPEN, Permission.OPEN),
        (SENDING, Permission.SEND),
        (READING, Permission.READ),
        (WRITING, Permission.WRITE),
        (SEEING_QUEUES, Permission.SEE_QUEUES),
        (REVIEWING, Permission.REVIEW),
        (ADMINISTERING | ADMINISTERING_ALL, Permission.ADMINISTER),
    ):
        if name in names:
            return permission
    return Permission.READ if name.startswith("GET ") else Permission.WRITE


def path_of(template: str) -> str:
    """Return a path of a route, with the id of a missing object."""
    return re.sub(r"\{[^}]+\}", "key_0123456789abcdef", template)


def test_the_tables_name_routes() -> None:
    """Every exception in these tables is a route."""
    assert set(NAMES) >= (
        OPEN | SENDING | READING | WRITING | SEEING_QUEUES | REVIEWING | ADMINISTERING | OF_THE_WHOLE_SERVER
    )


def test_every_route_checks_who_asks() -> None:
    """Of the API and of the pages, and pages check also the form that was sent."""

    def called(routes: list[BaseRoute]) -> list[set[object]]:
        made = [route for route in routes if isinstance(route, APIRoute)]
        assert len(made) == len(routes)
        return [{each.call for each in route.dependant.dependencies} for route in made]

    assert all(calls >= {check_caller} for calls in called(routes()))
    assert all(calls >= {check_caller, check_form} for calls in called(make_site().routes))


@pytest.mark.parametrize("method, path, endpoint", ROUTES, ids=NAMES)
def test_a_route_asks_for_what_the_tables_say(method: str, path: str, endpoint: object) -> None:
    """A route declares no other need than is written down here."""
    need = requirements_of(endpoint, method)
    name = f"{method} {path}"
    assert need.permission is required_permission(name)
    assert need.by_tenant == (name not in OF_THE_WHOLE_SERVER | OPEN)


@pytest.mark.costly("collector/access", "collector/api", "collector/mcp", "collector/web")
@pytest.mark.parametrize("method, path", [each[:2] for each in ROUTES], ids=NAMES)
def test_every_route_lets_in_whom_it_should(server: Closed, method: str, path: str) -> None:
    """Without a key and with a wrong one the answer is 401, with one that is too small 403, and else neither."""
    name = f"{method} {path}"
    permission = required_permission(name)
    without_key = server.ask(method, path_of(path)).status_code
    wrong = server.ask(method, path_of(path), key=WRONG_KEY, source=next(sources)).status_code
    assert [code in {401, 403} for code in (without_key, wrong)] == [permission is not Permission.OPEN] * 2 or (
        name in OPEN_PAGES  # forms without their token
    )
    assert permission is Permission.OPEN or (without_key, wrong) == (401, 401)
    for key, role in zip(KEYS, [*Role, *Role], strict=True):
        status = server.ask(method, path_of(path), key=server.keys[key]).status_code
        may = permission in GRANTS[role] and ("of" not in key or name not in OF_THE_WHOLE_SERVER)
        assert (status == 403) is not may, (key, status)
        assert status != 401
        assert status < 500


@pytest.mark.parametrize(
    "method, path", [(method, path) for method, path, _ in CHANGING if path != "/api/v1/traces" or method != "POST"]
)
def test_a_change_with_an_unknown_parameter_is_refused(server: Closed, method: str, path: str) -> None:
    """A condition that is spelled wrong changes nothing, because without it more would be changed or deleted."""
    address = re.sub(r"\{\w+\}", "1", path) + "?project=shop&befor=2026-01-01"
    answer = server.ask(method, address, key=server.keys["admin"], json={})
    assert answer.status_code == 400
    assert {"befor"} <= {each["field"] for each in answer.json()["errors"]} <= {"befor", "project"}
    assert "befor: unknown query parameter; " in answer.json()["detail"]


@pytest.mark.costly("collector/access", "collector/api", "collector/mcp", "collector/web")
@pytest.mark.parametrize("path", [path for method, path, _ in ROUTES if method == "GET"])
def test_a_read_with_an_unknown_parameter_is_refused(server: Closed, path: str) -> None:
    """A condition that is spelled wrong would list everything; pages, probes and the paths of Jaeger ignore it."""
    answer = server.ask("GET", f"{path_of(path)}?projekt=shop", key=server.keys["admin"])
    unknown = "projekt: unknown query parameter; " in answer.text
    assert (answer.status_code, unknown) == (400, True) if path.startswith("/api/") else not unknown


@pytest.mark.parametrize("query, field", [("project=a&project=b", "project"), ("size=1&size=2", "size")])
def test_a_read_with_a_repeated_condition_is_refused(server: Closed, query: str, field: str) -> None:
    """The last of several would win in silence; a parameter that is a list takes several."""
    answer = server.ask("GET", f"/api/v1/traces?{query}&attribute=a%3D1&attribute=b%3D2", key=server.keys["admin"])
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["errors"]] == [field]


@pytest.mark.parametrize(
    "query", ["project=", "project=a&project=b", "before=2020-01-01T00:00:00Z&before=2027-01-01T00:00:00Z"]
)
def test_a_deletion_by_an_unclear_condition_is_refused(server: Closed, query: str) -> None:
    """An empty value, as of an unset variable, deletes nothing, and neither does the last of several."""
    answer = server.ask("DELETE", f"/api/v1/traces?{query}", key=server.keys["admin"])
    assert answer.status_code == 400
    name = query.partition("=")[0]
    assert answer.json()["detail"].startswith(f"{name}: the query parameter is ")


def test_what_is_no_route_is_nobodys_business(server: Closed) -> None:
    """Without a key, unknown paths are 401 too, so that responses do not reveal which exist."""
    assert server.ask("GET", "/api/v1/nothing").status_code == 401
    assert server.ask("GET", "/api/v1/nothing", key=server.keys["viewer"]).status_code == 404
    assert server.ask("PATCH", "/api/v1/api-keys", key=server.keys["admin"]).status_code == 405


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
def test_the_doors_take_spans_from_whom_they_should(server: Closed, signal: str) -> None:
    """OTLP over HTTP and over gRPC take what INGEST, EDITOR and ADMIN keys send, and nothing else."""
    url = f"http://{server.running.otlp_http}/v1/{signal}"
    service = {"traces": "trace.v1.Trace", "logs": "logs.v1.Logs", "metrics": "metrics.v1.Metrics"}[signal]
    path = f"/opentelemetry.proto.collector.{service}Service/Export"
    protobuf = {"content-type": "application/x-protobuf"}
    refused = request(url, "POST", headers=protobuf | {"x-request-id": "mine"})
    assert (refused.status_code, refused.headers["x-request-id"]) == (401, "mine")
    assert request(url, "POST", headers=protobuf, key=WRONG_KEY, source=next(sources)).status_code == 401
    assert call(server.running.grpc, path=path) is grpc.StatusCode.UNAUTHENTICATED
    for key, role in zip(KEYS, [*Role, *Role], strict=True):
        may = Permission.SEND in GRANTS[role]
        status = request(url, "POST", headers=protobuf, key=server.keys[key]).status_code
        assert status == (200 if may else 403), key
        code = call(server.running.grpc, key=server.keys[key], path=path)
        assert code is (grpc.StatusCode.OK if may else grpc.StatusCode.PERMISSION_DENIED), key


def test_a_wrong_key_over_grpc_is_told_so(server: Closed) -> None:
    """The status is UNAUTHENTICATED, which exporters do not retry."""
    assert call(server.running.grpc, key=WRONG_KEY, path=TRACE_EXPORT) is grpc.StatusCode.UNAUTHENTICATED


def test_a_refusal_says_what_the_seeds_say(server: Closed) -> None:
    """The body holds their sentence, and the header says which kind of key is missing."""
    answer = server.ask("GET", "/api/v1/traces")
    assert answer.json()["error"] == "Invalid or missing API key"
    assert answer.headers["www-authenticate"] == "Bearer"
