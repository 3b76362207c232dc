"""Keys, tenants and the audit of a running server, over its doors."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pyarrow as pa
import pytest

from collector.app import Running, running
from collector.settings import Settings
from storage.errors import Unusable
from tests.access import OPERATOR_KEY, WRONG_KEY, Closed, a_closed_server, call, request
from tests.attacks import HIDDEN
from tests.live import until
from tests.serving import a_server, an_export, run

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/cli",
    "collector/listeners",
    "collector/live/upkeep",
    "collector/mcp",
    "collector/otlp",
    "collector/quack",
    "collector/web",
    "storage/ingest",
    "storage/operation",
    "storage/query",
    "storage/upkeep",
)

PROTOBUF = {"content-type": "application/x-protobuf"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Start a server with keys, a trace of the same id for two tenants, and one without a tenant."""
    with a_closed_server(tmp_path_factory.mktemp("keys") / "data") as closed:
        for name, project in (("ingest of acme", "acme's"), ("ingest of other", "other's"), ("ingest", "shared")):
            send(closed, name, "a" * 32, project)
        send(closed, "ingest of other", "b" * 32, "other's")
        send(closed, "ingest", "c" * 32, "shared")
        assert closed.running.store.wait_committed(10)
        yield closed


@pytest.fixture
def open_server(tmp_path: Path) -> Iterator[Running]:
    """Yield a server that asks for no key."""
    with a_server(tmp_path / "data") as running:
        yield running


def send(server: Closed, name: str, trace_id: str, project: str) -> None:
    """Send a trace of two spans with a key."""
    body = an_export(trace_id, "one", "two", project=project).SerializeToString()
    url = f"http://{server.running.otlp_http}/v1/traces"
    assert request(url, "POST", key=server.keys[name], content=body, headers=PROTOBUF).status_code == 200


def projects(server: Closed, name: str) -> list[tuple[str, str]]:
    """Return the traces that a key sees in the list."""
    listed = server.ask("GET", "/api/v1/traces", key=server.keys[name]).json()["content"]
    return sorted((trace["traceId"][0], trace["project"]) for trace in listed)


def test_each_tenant_sees_its_own_and_the_shared_traces(server: Closed) -> None:
    """The list of a tenant holds no trace of another, and who has no tenant sees all."""
    shared = [("a", "shared"), ("c", "shared")]
    assert projects(server, "viewer of acme") == sorted([("a", "acme's"), *shared])
    assert projects(server, "viewer of other") == sorted([("a", "other's"), ("b", "other's"), *shared])
    everything = sorted([("a", "acme's"), ("a", "other's"), ("b", "other's"), *shared])
    assert projects(server, "viewer") == projects(server, "operator") == everything


def test_the_same_id_in_two_tenants_is_two_traces(server: Closed) -> None:
    """Each tenant gets its own, and who sees all gets the shared one."""
    for name, project in (("viewer of acme", "acme's"), ("viewer of other", "other's"), ("viewer", "shared")):
        trace = server.ask("GET", f"/api/v1/traces/{'a' * 32}", key=server.keys[name]).json()
        assert (trace["project"], trace["spanCount"], len(trace["spans"])) == (project, 2, 2)


def test_who_sees_all_may_look_as_a_tenant(server: Closed) -> None:
    """An unscoped key names the tenant whose trace it wants; a key of another tenant may not, and that is audited."""
    path = f"/api/v1/traces/{'a' * 32}?tenant=acme"
    assert server.ask("GET", path, key=server.keys["viewer"]).json()["project"] == "acme's"
    assert server.ask("GET", path, key=server.keys["viewer of acme"]).json()["project"] == "acme's"
    listed = server.ask("GET", "/api/v1/traces?tenant=acme", key=server.keys["viewer"]).json()["content"]
    assert sorted({trace["tenant"] for trace in listed}) == ["", "acme"]
    for refused in (path, "/api/v1/traces?tenant=acme"):
        assert server.ask("GET", refused, key=server.keys["viewer of other"]).status_code == 403
    until(lambda: entries(server, OPERATOR_KEY, keyName="viewer of other", path="/api/v1/traces", status=403), bool)


@pytest.mark.parametrize("tail", ["", "/otlp"])
def test_a_trace_of_another_tenant_is_not_there(server: Closed, tail: str) -> None:
    """It is answered as one that never came."""
    path = f"/api/v1/traces/{'b' * 32}{tail}"
    assert server.ask("GET", path, key=server.keys["viewer of acme"]).status_code == 404
    assert server.ask("GET", path, key=server.keys["viewer of other"]).status_code == 200


@pytest.mark.parametrize("name, seen", [("viewer of acme", "as"), ("viewer of other", "os"), ("viewer", "aos")])
def test_jaeger_and_export_keep_tenants_apart(server: Closed, name: str, seen: str) -> None:
    """A tenant finds its own spans and the shared ones, who has no tenant those of all."""
    key, whose = server.keys[name], {"a": "acme's", "o": "other's", "s": "shared"}
    services = server.ask("GET", "/jaeger/api/services", key=key).json()["data"]
    assert services == sorted(whose[each] for each in seen)
    operations = server.ask("GET", "/jaeger/api/operations?service=other's", key=key).json()["data"]
    assert bool(operations) is ("o" in seen)
    assert bool(server.ask("GET", "/jaeger/api/services/other's/operations", key=key).json()["data"]) is ("o" in seen)
    traces = server.ask("GET", "/jaeger/api/traces?service=other's&start=0", key=key).json()["data"]
    assert {trace["traceID"][0] for trace in traces} == ({"a", "b"} if "o" in seen else set())
    assert server.ask("GET", f"/jaeger/api/traces/{'b' * 32}", key=key).is_success is ("o" in seen)
    span = "/api/v1/export/spans?from=1970-01-01T00:00:00Z&to=2200-01-01T00:00:00Z"
    table = pa.ipc.open_stream(server.ask("GET", span, key=key).content).read_all()
    assert sorted(set(table["project"].to_pylist())) == services


def test_a_tenant_keeps_and_deletes_its_own_traces_alone(server: Closed) -> None:
    """Shared traces, and another tenant's, cannot be pinned or deleted with a tenant's key, by id or by filter."""
    editor, admin = server.keys["editor of acme"], server.keys["admin of acme"]
    send(server, "ingest of acme", "d" * 32, "acme's")
    assert server.running.store.wait_committed(10)
    for foreign in ("b", "c"):
        path = f"/api/v1/traces/{foreign * 32}"
        assert server.ask("POST", f"{path}/pin", key=editor).status_code == 404
        assert server.ask("DELETE", path, key=admin).status_code == 404
    own = f"/api/v1/traces/{'d' * 32}"
    assert server.ask("POST", f"{own}/pin", key=editor).json()["pinned"] == ["hand"]
    assert server.ask("DELETE", own, key=editor).status_code == 403
    assert server.ask("DELETE", f"{own}?tenant=other", key=admin).status_code == 403
    for project in ("other's", "shared"):
        gone = server.ask("DELETE", f"/api/v1/traces?project={project}", key=admin).json()
        assert (gone["deletedTraces"], gone["more"]) == (0, False)
    assert server.ask("DELETE", f"{own}?tenant=acme", key=OPERATOR_KEY).json()["deletedTraces"] == 1
    assert server.ask("GET", own, key=admin).status_code == 404


def test_sending_twice_is_once_within_a_tenant(server: Closed) -> None:
    """A tenant that repeats a request adds nothing, to itself or to others."""
    send(server, "ingest of acme", "a" * 32, "acme's")
    assert server.running.store.wait_committed(10)
    count = "SELECT tenant, count(*) FROM spans WHERE trace_id[1] = 'a' GROUP BY 1 ORDER BY 1"
    answer = server.ask("POST", "/api/v1/sql", key=OPERATOR_KEY, json={"sql": count})
    assert answer.json()["rows"] == [["", 2], ["acme", 2], ["other", 2]]


VIEWS = ["spans", "traces", "tool_calls", "logs"]


@pytest.mark.parametrize("statement", HIDDEN)
def test_only_administrators_look_behind_the_views(server: Closed, statement: str) -> None:
    """Digests of keys and the audit are in no answer to VIEWER and EDITOR keys, however they ask."""
    for name in ("viewer", "editor"):
        answer = server.ask("POST", "/api/v1/sql", key=server.keys[name], json={"sql": statement})
        assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    "statement",
    [
        *(f"SELECT count(*) FROM {view}" for view in VIEWS),
        "WITH mine AS (SELECT * FROM spans) SELECT count(*) FROM mine JOIN traces USING (tenant, trace_id)",
        "SELECT unnest(map_keys(attributes)) FROM Spans LIMIT 1",
        "DESCRIBE spans",
        "SELECT * FROM main.spans",
        "SELECT 1",
        "FROM range(3)",
        "EXPLAIN SELECT * FROM spans",
        "SELECT e.name FROM spans, unnest(events) AS t(e)",
        "SELECT name FROM tool_calls AS api_key",
        "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 3) FROM r",
    ],
)
def test_views_are_open_to_viewers(server: Closed, statement: str) -> None:
    """A key that reads may run any query on the documented views."""
    answer = server.ask("POST", "/api/v1/sql", key=server.keys["viewer"], json={"sql": statement})
    assert answer.status_code == 200, answer.text


def test_a_key_is_told_once(server: Closed) -> None:
    """The list shows only the beginning of the key, and its fields are right."""
    made = server.ask("POST", "/api/v1/api-keys", key=OPERATOR_KEY, json={"name": "once", "role": "VIEWER"}).json()
    listed = server.ask("GET", "/api/v1/api-keys", key=OPERATOR_KEY)
    assert made["key"] not in listed.text
    (shown,) = [key for key in listed.json() if key["id"] == made["id"]]
    assert shown == {name: value for name, value in made.items() if name not in {"key", "warnings"}}
    assert made["key"].startswith(shown["hint"])
    assert (shown["createdBy"], shown["tenantId"], shown["enabled"]) == ("operator", None, True)


def test_a_disabled_key_opens_nothing_at_once(server: Closed) -> None:
    """The next request with it is refused over every door."""
    made = server.ask("POST", "/api/v1/api-keys", key=OPERATOR_KEY, json={"name": "gone", "role": "EDITOR"}).json()
    assert server.ask("GET", "/api/v1/traces", key=made["key"]).status_code == 200
    assert server.ask("POST", f"/api/v1/api-keys/{made['id']}/disable", key=OPERATOR_KEY).json()["enabled"] is False
    assert server.ask("GET", "/api/v1/traces", key=made["key"]).status_code == 401
    assert call(server.running.grpc, key=made["key"]) is grpc.StatusCode.UNAUTHENTICATED
    assert server.ask("DELETE", f"/api/v1/api-keys/{made['id']}", key=OPERATOR_KEY).status_code == 204
    assert server.ask("DELETE", f"/api/v1/api-keys/{made['id']}", key=OPERATOR_KEY).status_code == 404


def test_an_expired_key_opens_nothing(server: Closed) -> None:
    """The expiry may have any time zone, and from then on the key is refused."""
    fields = {"name": "brief", "role": "VIEWER", "expiresAt": "2020-01-01T02:00:00+02:00"}
    made = server.ask("POST", "/api/v1/api-keys", key=OPERATOR_KEY, json=fields).json()
    assert made["expiresAt"] == "2020-01-01T00:00:00.000000000Z"
    assert server.ask("GET", "/api/v1/traces", key=made["key"]).status_code == 401


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00"])
def test_the_ends_of_time_are_told(server: Closed, at: str) -> None:
    """Every date of the calendar is accepted as an expiry, and the answer has one."""
    fields = {"name": "far", "role": "VIEWER", "expiresAt": at}
    made = server.ask("POST", "/api/v1/api-keys", key=OPERATOR_KEY, json=fields)
    assert made.status_code == 201
    assert made.json()["expiresAt"] is not None
    assert (server.ask("GET", "/api/v1/traces", key=made.json()["key"]).status_code == 200) is at.startswith("9")


@pytest.mark.parametrize(
    "body, fields",
    [
        ({}, ["name", "role"]),
        (
            {"name": "", "role": "X", "tenantId": "a b", "expiresAt": "soon"},
            ["name", "role", "tenantId", "expiresAt"],
        ),
        ({"name": "x", "role": "VIEWER", "colour": "blue"}, ["colour"]),
        ({"name": "x\n", "role": "VIEWER", "expiresAt": "2030-01-01T00:00:00"}, ["name", "expiresAt"]),
        *(
            ({"name": "x", "role": "VIEWER", "expiresAt": at}, ["expiresAt"])
            for at in (0, "0", 1e12, "2030-01-01", True)
        ),
        ([], ["body"]),
    ],
)
def test_all_that_is_wrong_is_told_at_once(server: Closed, body: Any, fields: list[str]) -> None:
    """The answer names each field that is wrong."""
    answer = server.ask("POST", "/api/v1/api-keys", key=OPERATOR_KEY, json=body)
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["errors"]] == fields


def test_a_key_that_is_refused_is_not_there(server: Closed) -> None:
    """A tenant may not keep ingest open, and no key is left whose text was not returned."""
    fields = {"name": "refused", "role": "INGEST", "ingestOpenUntil": "2030-01-31T00:00:00Z"}
    answer = server.ask("POST", "/api/v1/api-keys", key=server.keys["admin of acme"], json=fields)
    assert (answer.status_code, "keys of no tenant" in answer.text) == (403, True)
    listed = server.ask("GET", "/api/v1/api-keys", key=OPERATOR_KEY).json()
    assert [key for key in listed if key["name"] in {"refused", "export requests without a key"}] == []


def entries(server: Closed, key: str, **filters: object) -> list[dict[str, Any]]:
    """Return the newest entries of the audit that are as wanted."""
    audit = server.ask("GET", "/api/v1/audit?size=1000", key=key).json()["content"]
    return [entry for entry in audit if all(entry[name] == value for name, value in filters.items())]


def test_writes_and_refusals_are_audited(server: Closed) -> None:
    """The audit has caller, action, address and outcome of every write and refusal, and no key."""
    answer = server.ask(
        "POST", "/api/v1/api-keys", key=server.keys["admin"], json={"name": "audited", "role": "VIEWER"}
    )
    server.ask("DELETE", f"/api/v1/api-keys/{WRONG_KEY}", key=server.keys["viewer"])
    call(server.running.grpc)
    made = until(lambda: entries(server, OPERATOR_KEY, keyName="admin", method="POST"), bool)[0]
    assert (made["path"], made["status"], made["address"]) == ("/api/v1/api-keys", 201, "127.0.0.1")
    assert made["requestId"] == answer.headers["x-request-id"]
    refused = until(lambda: entries(server, OPERATOR_KEY, keyName="viewer", method="DELETE"), bool)[0]
    assert (refused["path"], refused["status"]) == ("/api/v1/api-keys/tj_***", 403)
    assert until(lambda: entries(server, OPERATOR_KEY, method="gRPC", status=401), bool)[0]["keyId"] is None
    assert "tj_" not in json.dumps(entries(server, OPERATOR_KEY)).replace("tj_***", "")


def test_a_tenant_sees_its_own_audit(server: Closed) -> None:
    """An administrator of a tenant sees what its keys did, and nothing else."""
    server.ask("DELETE", "/api/v1/api-keys/key_0123456789abcdef", key=server.keys["viewer of acme"])
    until(lambda: entries(server, server.keys["admin of acme"], status=403), bool)
    assert {entry["tenantId"] for entry in entries(server, server.keys["admin of acme"])} == {"acme"}


def test_the_audit_has_pages(server: Closed) -> None:
    """Following `next` yields every entry once, newest first."""
    for number in range(5):
        server.ask("DELETE", f"/api/v1/api-keys/key_{number:016x}", key=OPERATOR_KEY)
    until(lambda: entries(server, OPERATOR_KEY, path=f"/api/v1/api-keys/key_{4:016x}"), bool)
    ids, before = [], ""
    while True:
        page = server.ask("GET", f"/api/v1/audit?size=2{before}", key=OPERATOR_KEY).json()
        ids += [entry["id"] for entry in page["content"]]
        if page["last"]:
            break
        before = f"&before={page['next']}"
    assert ids == sorted(set(ids), reverse=True)
    assert len(ids) >= 5


def test_guessing_is_answered_with_later(tmp_path: Path) -> None:
    """After ten wrong keys an address must wait on every endpoint, but a key that was valid from there need not."""
    with a_closed_server(tmp_path / "data") as server:
        good = server.keys["viewer"]
        source = "127.0.7.7"
        assert server.ask("GET", "/api/v1/traces", key=good, source=source).status_code == 200
        codes = [
            server.ask("GET", "/api/v1/traces", key=f"{WRONG_KEY}{number}", source=source).status_code
            for number in range(12)
        ]
        assert codes == [401] * 10 + [429] * 2
        later = server.ask("GET", "/api/v1/traces", key=server.keys["editor"], source=source)
        assert (later.status_code, 1 <= int(later.headers["retry-after"]) <= 6) == (429, True)
        assert server.ask("GET", "/api/v1/traces", key=good, source=source).status_code == 200
        assert server.ask("GET", "/api/v1/traces", key=server.keys["editor"]).status_code == 200


def test_a_key_that_sends_too_much_is_told_so_in_the_protocols_way(tmp_path: Path) -> None:
    """Over HTTP 429 with `Retry-After`, over gRPC RESOURCE_EXHAUSTED, and another key is not slowed down."""
    with a_closed_server(tmp_path / "data", key_requests_per_second=0.1) as server:
        key = server.keys["ingest"]
        url = f"http://{server.running.otlp_http}/v1/traces"
        assert request(url, "POST", key=key, headers=PROTOBUF).status_code == 200
        later = request(url, "POST", key=key, headers=PROTOBUF)
        assert (later.status_code, 1 <= int(later.headers["retry-after"]) <= 10) == (429, True)
        assert call(server.running.grpc, key=key) is grpc.StatusCode.RESOURCE_EXHAUSTED
        path = "/api/v1/traces"
        assert server.ask("POST", path, key=key, headers=PROTOBUF).status_code == 429
        assert server.ask("POST", path, key=server.keys["editor"], headers=PROTOBUF).status_code == 200


def test_bytes_of_metrics_count_for_a_key(tmp_path: Path) -> None:
    """A key that sends more metrics than its bytes allow waits, although nothing is kept of them."""
    with a_closed_server(tmp_path / "data", key_bytes_per_second=1 << 10) as server:
        url, key = f"http://{server.running.otlp_http}/v1/metrics", server.keys["ingest"]
        metrics = b"\x0a\x00" * (1 << 20)
        assert request(url, "POST", key=key, headers=PROTOBUF, content=metrics).status_code == 200
        assert request(url, "POST", key=key, headers=PROTOBUF).status_code == 429


def test_open_reads_show_what_is_shared(tmp_path: Path) -> None:
    """With `reads: open` shared traces need no key; tenants, SQL and writing stay closed."""
    with a_closed_server(tmp_path / "data", reads="open") as server:
        send(server, "ingest of acme", "a" * 32, "acme's")
        send(server, "ingest", "c" * 32, "shared")
        assert server.running.store.wait_committed(10)
        listed = server.ask("GET", "/api/v1/traces").json()["content"]
        assert [trace["project"] for trace in listed] == ["shared"]
        assert server.ask("GET", f"/api/v1/traces/{'a' * 32}").status_code == 404
        assert server.ask("POST", "/api/v1/sql", json={"sql": "SELECT 1"}).status_code == 401
        assert server.ask("GET", "/api/v1/api-keys").status_code == 401
        assert server.ask("POST", "/api/v1/traces", headers=PROTOBUF).status_code == 401
        assert server.ask("GET", "/api/v1/traces", key=WRONG_KEY).status_code == 401
        assert server.ask("GET", "/api/v1/traces", headers={"host": "evil.example"}).status_code == 403


def test_an_open_server_answers_this_machine_only(open_server: Running) -> None:
    """A page that points its name here, or sends a form, is refused; programs and own pages are not."""
    url = f"http://{open_server.http}/api/v1/traces"
    assert request(url).status_code == 200
    assert request(url, headers={"host": "evil.example"}).status_code == 403
    assert request(url, headers={"host": "evil.example"}, key=WRONG_KEY).status_code == 403
    keys = f"http://{open_server.http}/api/v1/api-keys"
    fields = {"name": "x", "role": "ADMIN"}
    assert request(keys, "POST", headers={"origin": "http://evil.example"}, json=fields).status_code == 403
    form = {"content-type": "text/plain", "origin": f"http://{open_server.http}"}
    assert request(keys, "POST", headers=form, content=json.dumps(fields)).status_code == 415
    otlp = f"http://{open_server.otlp_http}/v1/traces"
    assert request(otlp, "POST", headers=PROTOBUF | {"host": "evil.example"}).status_code == 403
    assert request(otlp, "POST", headers=PROTOBUF | {"origin": "http://evil.example"}).status_code == 403
    assert request(otlp, "POST", headers=PROTOBUF).status_code == 200


def test_health_is_open_to_every_name(open_server: Running) -> None:
    """A probe may call the server as it likes."""
    assert request(f"http://{open_server.http}/health", headers={"host": "10.1.2.3"}).status_code == 200


@pytest.mark.parametrize("door", ["grpc", "otlp_http", "http"])
def test_an_open_server_stays_on_this_machine(tmp_path: Path, door: str) -> None:
    """Without a key no door opens to other machines, unless that is said to be meant."""
    addresses = {"grpc": "127.0.0.1:0", "otlp_http": "127.0.0.1:0", "http": "127.0.0.1:0"} | {door: "0.0.0.0:0"}

    async def start(**more: object) -> None:
        async with running(Settings.model_validate({"data": tmp_path / "data"} | addresses | more)):
            pass

    with pytest.raises(Unusable, match="TRACEJURY_API_KEY"):
        asyncio.run(start())
    asyncio.run(start(insecure_open=True))
    asyncio.run(start(api_key=OPERATOR_KEY))


def test_the_first_key_closes_the_server(open_server: Running) -> None:
    """From the answer on, a key is needed, and the audit names its creator: a caller without a key."""
    url = f"http://{open_server.http}/api/v1/api-keys"
    assert request(url, "POST", json={"name": "x", "role": "VIEWER"}).status_code == 409
    made = request(url, "POST", json={"name": "x", "role": "ADMIN"}).json()
    assert made["createdBy"] is None
    assert request(url).status_code == 401
    assert request(f"{url}/{made['id']}/disable", "POST", key=made["key"]).status_code == 409
    assert [key["id"] for key in request(url, key=made["key"]).json()] == [made["id"]]


def test_the_commands_send_the_key_of_the_environment(server: Closed) -> None:
    """`keys` makes, lists, disables and deletes; other commands read; and without a key they say so."""
    options = ("--server", f"http://{server.running.http}")
    env = {"TRACEJURY_API_KEY": OPERATOR_KEY}
    made = run("keys", "create", "by command", "--role", "viewer", "--tenant", "acme", *options, env=env)
    key = made.stdout.strip()
    assert key.startswith("tj_")
    assert run("traces", "list", *options, env={"TRACEJURY_API_KEY": key}).exit_code == 0
    listed = run("keys", "list", "--json", *options, env=env)
    assert key not in listed.output
    (key_id,) = [each["id"] for each in json.loads(listed.stdout) if each["name"] == "by command"]
    assert key_id in run("keys", "list", *options, env=env).stdout
    assert run("keys", "disable", key_id, *options, env=env).exit_code == 0
    refused = run("traces", "list", *options, env={"TRACEJURY_API_KEY": key})
    assert (refused.exit_code, "TRACEJURY_API_KEY" in refused.output) == (1, True)
    assert run("keys", "delete", key_id, *options, env=env).exit_code == 0
    assert run("keys", "delete", key_id, *options, env=env).exit_code == 1
    assert run("traces", "list", *options, env={"TRACEJURY_API_KEY": ""}).exit_code == 1


def test_who_has_the_files_sees_all_tenants(tmp_path: Path) -> None:
    """Commands on a data directory that no server holds show the traces of every tenant."""
    with a_closed_server(tmp_path / "data") as server:
        send(server, "ingest of acme", "a" * 32, "acme's")
        send(server, "ingest", "c" * 32, "shared")
        assert server.running.store.wait_committed(10)
    listed = json.loads(run("traces", "list", "--json", "--data", tmp_path / "data").stdout)
    assert sorted(trace["project"] for trace in listed) == ["acme's", "shared"]
    assert run("traces", "show", "a" * 32, "--data", tmp_path / "data").exit_code == 0


def test_a_refused_request_costs_little(server: Closed) -> None:
    """An unauthorized body is not read: the answer to a request without a key does not wait for it."""
    with httpx.Client(trust_env=False, timeout=30) as client:
        answer = client.post(f"http://{server.running.otlp_http}/v1/traces", content=bytes(1 << 20), headers=PROTOBUF)
    assert answer.status_code == 401


def test_the_first_key_names_whom_it_locks_out(open_server: Running) -> None:
    """The command prints the addresses of exporters and of readers that came without a key, and of whom no more."""
    body = an_export("a" * 32, "one").SerializeToString()
    url = f"http://{open_server.otlp_http}/v1/traces"
    assert request(url, "POST", content=body, headers=PROTOBUF).status_code == 200
    made = run("keys", "create", "first", "--role", "admin", "--server", f"http://{open_server.http}")
    assert made.exit_code == 0, made.output
    assert "exporters are refused from now on: give each a key with the role INGEST" in made.stderr
    assert made.stderr.count("In the last hour without a key: 127.0.0.1") == 2
    assert request(url, "POST", content=body, headers=PROTOBUF).status_code == 401
    key = made.stdout.strip()
    second = run(
        *("keys", "create", "second", "--role", "viewer", "--server", f"http://{open_server.http}"),
        env={"TRACEJURY_API_KEY": key},
    )
    assert "note:" not in second.stderr


def test_the_first_key_locks_out_no_open_reads(tmp_path: Path) -> None:
    """With `reads: open` the warning leaves out who only reads."""
    with a_server(tmp_path / "data", reads="open") as server:
        api = f"http://{server.http}/api/v1"
        assert request(f"{api}/traces", source="127.0.0.2").status_code == 200
        (warning,) = request(f"{api}/api-keys", "POST", json={"name": "x", "role": "ADMIN"}).json()["warnings"]
        assert request(f"{api}/traces", source="127.0.0.2").status_code == 200
    assert "refused from now on, except to read: " in warning
    assert warning.endswith("without a key: 127.0.0.1")


def test_ingest_is_kept_open_until_a_time(open_server: Running) -> None:
    """Exporters without a key are taken until then, pages are not, and the opening is a key that can be deleted."""
    body = an_export("a" * 32, "one").SerializeToString()
    url = f"http://{open_server.otlp_http}/v1/traces"
    server = ("--server", f"http://{open_server.http}")
    assert request(url, "POST", content=body, headers=PROTOBUF).status_code == 200
    made = run("keys", "create", "first", "--role", "admin", "--keep-ingest-open", "1h", *server)
    assert made.exit_code == 0, made.output
    assert "exporters are taken without a key until" in made.stderr
    key = made.stdout.strip()
    for address in (url, f"http://{open_server.http}/v1/traces"):
        assert request(address, "POST", content=body, headers=PROTOBUF).status_code == 200
    elsewhere = PROTOBUF | {"origin": "https://elsewhere.example"}
    assert request(url, "POST", content=body, headers=elsewhere).status_code == 403
    assert request(url, "POST", content=body, headers=PROTOBUF | {"authorization": "Basic x"}).status_code == 401
    assert call(open_server.grpc) is grpc.StatusCode.OK
    assert request(f"http://{open_server.http}/api/v1/traces", "GET").status_code == 401
    listed = json.loads(run("keys", "list", "--json", *server, env={"TRACEJURY_API_KEY": key}).output)
    (opening,) = [each for each in listed if each["name"] == "export requests without a key"]
    run("keys", "delete", opening["id"], *server, env={"TRACEJURY_API_KEY": key})
    assert request(url, "POST", content=body, headers=PROTOBUF).status_code == 401


def test_an_opening_outlasts_a_restart(tmp_path: Path) -> None:
    """Exporters without a key are taken after a restart too, until the time that was given, and pages are not."""
    body = an_export("a" * 32, "one").SerializeToString()
    with a_server(tmp_path / "data") as server:
        address = f"http://{server.http}"
        made = run("keys", "create", "first", "--role", "admin", "--keep-ingest-open", "1h", "--server", address)
        assert made.exit_code == 0, made.output
    with a_server(tmp_path / "data") as server:
        export = request(f"http://{server.otlp_http}/v1/traces", "POST", content=body, headers=PROTOBUF)
        assert export.status_code == 200
        assert request(f"http://{server.http}/api/v1/traces", "GET").status_code == 401


def test_the_key_of_a_tenant_says_that_it_sees_shared_traces(server: Closed) -> None:
    """A key that reads for a tenant names how many traces of no tenant it sees; one that only sends says nothing."""
    for role, notes in (("VIEWER", 1), ("INGEST", 0)):
        body = {"name": f"of a tenant {role}", "role": role, "tenantId": "new"}
        made = server.ask("POST", "/api/v1/api-keys", key=server.keys["operator"], json=body).json()
        assert len(made["warnings"]) == notes
        assert notes == 0 or "also sees the 2 traces of no tenant" in made["warnings"][0]
