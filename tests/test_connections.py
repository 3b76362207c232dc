"""Connections to models: over the API of the real server, from files, and as rules find them."""

import asyncio
import base64
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from collector.app import Running
from collector.connection_text import parse_file_connections
from collector.live.judges.connections import LlmConnections
from collector.secrets import Secrets
from evaluators.case import parse_case
from evaluators.chat.client import ModelCallFailed
from evaluators.errors import BadConfiguration
from evaluators.evaluator import run as evaluate
from evaluators.outcome import Failure
from evaluators.registry import build
from storage.errors import Conflict
from storage.store import Store
from tests.connecting import ENCRYPTION_KEY, QUESTION, SCHEMA, AJob, Hub, a_connection, an_active_rule
from tests.live import until
from tests.model_server import Hangs, Says, Status, a_model
from tests.serving import a_server, run
from tests.storing import a_store

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/addresses.py",
    "collector/api",
    "collector/cli",
    "collector/connection_text.py",
    "collector/live",
    "collector/secrets.py",
    "collector/web",
    "evaluators",
    "storage",
)

PATH = "/api/v1/llm-connections"
KEY = "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz"
OFF = "http://127.0.0.1:9/v1"
GOOD = Says({"ok": True, "score": 1})


@contextmanager
def an_api(data: Path, **settings: Any) -> Iterator[tuple[httpx.Client, Running]]:
    """Start a server, and a client of its API."""
    settings = {"encryption_key": SecretStr(ENCRYPTION_KEY), **settings}
    with (
        a_server(data, **settings) as server,
        httpx.Client(base_url=f"http://{server.http}", trust_env=False, timeout=30) as client,
    ):
        yield client, server


def created(client: httpx.Client, **keys: object) -> dict[str, Any]:
    """Create a connection."""
    answer = client.post(PATH, json=a_connection(OFF, **keys))
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"{PATH}/{document['id']}"
    return document


def test_a_connection_is_made_shown_changed_and_taken_away(tmp_path: Path) -> None:
    """A created connection is returned with an id and a version, until it is deleted."""
    with an_api(tmp_path) as (client, _):
        made = created(client, price={"inputUsdPerMillion": 1, "outputUsdPerMillion": 2}, apiKey=KEY)
        assert made["version"] == 1
        assert (made["origin"], made["credential"], made["protocol"]) == ("API", "apiKey", "CHAT_COMPLETIONS")
        assert made["limits"] == {"inFlight": 64, "timeoutSeconds": 10.0, "attempts": 1, "requestsPerMinute": None}
        assert made["spentToday"] == {"calls": 0, "failedCalls": 0, "tokens": 0, "usd": 0.0, "unpricedCalls": 0}
        assert client.get(f"{PATH}/{made['id']}").json() == made
        assert client.get(PATH).json() == [made]
        changed = client.put(f"{PATH}/{made['id']}", json={**made, "model": "judge-2"}).json()
        assert (changed["version"], changed["model"], changed["credential"]) == (2, "judge-2", "apiKey")
        assert changed["createdAt"] == made["createdAt"] < changed["updatedAt"]
        assert client.delete(f"{PATH}/{made['id']}").status_code == 204
        assert client.get(PATH).json() == []
        for answer in (
            client.get(f"{PATH}/{made['id']}"),
            client.put(f"{PATH}/{made['id']}", json=a_connection(OFF)),
            client.delete(f"{PATH}/{made['id']}"),
            client.post(f"{PATH}/{made['id']}/test"),
        ):
            assert (answer.status_code, answer.json()["error"]) == (404, f"there is no connection {made['id']}")


def test_how_a_model_is_asked_is_part_of_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters, headers and the fallback come back as they were sent; a secret header is read at the call alone."""
    monkeypatch.setenv("GATEWAY_KEY", "gw-secret-value")
    keys = {
        "protocol": "ANTHROPIC",
        "temperature": 0.0,
        "reasoningEffort": "low",
        "headers": {"X-Team": "search"},
        "headerRefs": {"api-key": "GATEWAY_KEY"},
        "fallback": "other",
    }
    with an_api(tmp_path) as (client, running), a_model(GOOD) as model:
        made = created(client, baseUrl=model.base_url, **keys)
        assert made.items() >= keys.items()
        assert "gw-secret-value" not in client.get(f"{PATH}/{made['id']}").text
        assert client.put(f"{PATH}/{made['id']}", json=made).json()["version"] == 2
        assert client.post(f"{PATH}/{made['id']}/test").json()["ok"]
        (request,) = model.requests
        assert (request.headers["api-key"], request.headers["x-team"]) == ("gw-secret-value", "search")
        assert (request.path, request.body["temperature"]) == ("/v1/messages", 0.0)
        connections = running.context.judging.connections
        assert connections.fallback(made["id"]) is None
        other = client.post(PATH, json={**a_connection(OFF), "name": "other"}).json()
        stored = connections.fallback(made["id"])
        assert stored is not None
        assert stored.connection_id == other["id"]
        monkeypatch.delenv("GATEWAY_KEY")
        failed = client.post(f"{PATH}/{made['id']}/test").json()
        assert "the variable GATEWAY_KEY, which headerRefs names, is not set" in failed["failure"]["message"]
        for wrong, key in (
            ({"headers": {"Host": "a"}}, "headers"),
            ({"headers": {"API-KEY": "a"}}, "headers"),
            ({"headerRefs": {"a": "TRACEJURY_API_KEY"}}, "headerRefs.a"),
            ({"temperature": 3.0}, "temperature"),
            ({"reasoningEffort": "a b"}, "reasoningEffort"),
            ({"fallback": made["name"]}, "fallback"),
        ):
            answer = client.put(f"{PATH}/{made['id']}", json={**made, **wrong})
            assert answer.status_code == 400, wrong
            assert any(problem["key"].startswith(key) for problem in answer.json()["problems"]), answer.text


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    """A refusal names each wrong key and the allowed values, and repeats no sent value."""
    bad = {"baseUrl": f"http://{KEY}@host", "credentialRef": KEY, "apikey": KEY, "limits": {"inFlight": KEY}}
    with an_api(tmp_path) as (client, _):
        answer = client.post(PATH, json=bad)
        assert answer.status_code == 400
        keys = {problem["key"] for problem in answer.json()["problems"]}
        assert keys == {"name", "model", "baseUrl", "credentialRef", "apikey", "limits.inFlight"}
        assert KEY not in answer.text
        both = client.post(PATH, json=a_connection(OFF, apiKey=KEY, credentialRef="JUDGE_KEY"))
        assert "apiKey, credentialRef: a connection has one of them at most" in both.json()["error"]
        unpriced = client.post(PATH, json=a_connection(OFF, budget={"usdPerDay": 1}))
        assert "budget.usdPerDay: needs a price" in unpriced.json()["error"]
        for body in (f'{{"apiKey": "{KEY}"', f'["{KEY}"]', f'"{KEY}"', b"\xff", b"", f'{{"apiKey": NaN, "{KEY}"'):
            refused = client.post(PATH, content=body, headers={"content-type": "application/json"})
            assert refused.status_code == 400
            assert KEY not in refused.text
        too_long = client.post(PATH, content=b"[" * (1 << 20 | 1), headers={"content-type": "application/json"})
        assert too_long.status_code == 400
        assert client.post(PATH, content=b"{}").status_code == 415


@pytest.mark.parametrize("variable", ["TRACEJURY_ENCRYPTION_KEY", "tracejury_data", "not a name", "A-B"])
def test_our_own_variables_are_no_keys(tmp_path: Path, variable: str) -> None:
    """The variable of the encryption key cannot be sent to an endpoint."""
    with an_api(tmp_path) as (client, _):
        answer = client.post(PATH, json=a_connection(OFF, credentialRef=variable))
        assert (answer.status_code, answer.json()["problems"][0]["key"]) == (400, "credentialRef")


def test_names_are_unique_among_what_is_there(tmp_path: Path) -> None:
    """A name is taken until its connection is gone, also for one that is renamed."""
    with an_api(tmp_path) as (client, _):
        first, second = created(client), created(client, name="other")
        again = client.post(PATH, json=a_connection(OFF))
        assert (again.status_code, again.json()["error"]) == (409, "there is a connection named 'judge' already")
        assert client.put(f"{PATH}/{second['id']}", json=a_connection(OFF)).status_code == 409
        assert client.put(f"{PATH}/{first['id']}", json=a_connection(OFF)).status_code == 200
        client.delete(f"{PATH}/{first['id']}")
        created(client)


def test_without_an_encryption_key_no_key_is_taken(tmp_path: Path) -> None:
    """If the made key is damaged, the refusal names the file and the variable, and nothing is stored."""
    with an_api(tmp_path, encryption_key=None):
        pass
    (key_file,) = tmp_path.rglob("encryption.key")
    key_file.write_text("damaged")
    with an_api(tmp_path, encryption_key=None) as (client, _):
        answer = client.post(PATH, json=a_connection(OFF, apiKey=KEY))
        assert answer.status_code == 400
        (problem,) = answer.json()["problems"]
        assert problem["key"] == "apiKey"
        assert "encryption.key of the data directory does not hold a key" in problem["message"]
        assert "set TRACEJURY_ENCRYPTION_KEY" in problem["message"]
        assert client.get(PATH).json() == []
        created(client, credentialRef="JUDGE_KEY")


def test_a_key_never_leaves(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No file, log line, reply or error holds the key, however it is written, while the model is asked with it."""
    texts, data = [], tmp_path / "data"
    with a_model([GOOD, Status(401, f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode())]) as model:
        with caplog.at_level(logging.DEBUG), an_api(data, log_level="debug") as (client, server):
            bodies = (
                a_connection(model.base_url, name="a-name-to-be-found", apiKey=KEY),
                a_connection(model.base_url, name="a-name-to-be-found", apiKey=KEY),
                a_connection(OFF, apiKey=f"{KEY} "),
                a_connection(OFF, name=KEY * 9, apiKey=[KEY]),
            )
            texts += [client.post(PATH, json=body).text for body in bodies]
            (made,) = client.get(PATH).json()
            texts += [client.post(f"{PATH}/{made['id']}/test").text for _ in range(2)]
            texts.append(client.put(f"{PATH}/{made['id']}", json={**made, "model": KEY, "apiKey": KEY + "\n"}).text)
            texts.append(client.put(f"{PATH}/{made['id']}", json={**made, "model": "m2"}).text)
            texts.append(client.get(PATH).text)
            everything = client.post("/api/v1/sql", json={"sql": "FROM llm_connection, judge_call"})
            texts += [everything.text, repr(server.pipeline.judging.connections.all()), caplog.text]
            assert server.store.spending.flush(10)
        assert [request.headers["authorization"] for request in model.requests] == [f"Bearer {KEY}"] * 2
    assert "bad key [key]" in texts[5]
    stored = b"\n".join(file.read_bytes() for file in data.rglob("*") if file.is_file())
    assert b"a-name-to-be-found" in stored
    for haystack in (stored, "\n".join(texts).encode()):
        for spelled in (
            KEY.encode(),
            KEY.encode().hex().encode(),
            base64.b64encode(KEY.encode())[:-4],
            KEY[8:30].encode(),
        ):
            assert spelled not in haystack
            assert spelled.upper() not in haystack


def test_a_key_that_is_not_mentioned_stays_with_its_host(tmp_path: Path) -> None:
    """A new address that would receive a stored key needs the key again."""
    with an_api(tmp_path) as (client, server):
        made = created(client, apiKey=KEY)
        place = f"{PATH}/{made['id']}"

        def key() -> str | None:
            connections = server.pipeline.judging.connections
            return connections.usable(connections.get(made["id"])).key

        moved = client.put(place, json=a_connection("http://127.0.0.1:10/v1"))
        assert moved.status_code == 400
        assert "baseUrl leads to another host" in moved.json()["error"]
        assert client.put(place, json=a_connection("http://127.0.0.1:9/v2")).json()["credential"] == "apiKey"
        assert key() == KEY
        assert client.put(place, json=a_connection("http://127.0.0.1:10/v1", apiKey="sk-2")).status_code == 200
        assert key() == "sk-2"
        assert client.put(place, json=a_connection(OFF, credentialRef="JUDGE_KEY")).json()["credential"] == (
            "credentialRef"
        )
        assert client.put(place, json=a_connection(OFF)).json()["credential"] is None
        client.put(place, json=a_connection(OFF, apiKey=KEY))
        assert client.put(place, json=a_connection(OFF, apiKey=None)).json()["credential"] is None
        assert key() is None


def test_another_encryption_key_breaks_connections_and_nothing_else(tmp_path: Path) -> None:
    """The server starts, reports the error when the key is needed, and accepts a new key."""
    with an_api(tmp_path) as (client, _):
        made = created(client, apiKey=KEY)
    for wrong in (SecretStr("another passphrase"), None):
        with an_api(tmp_path, encryption_key=wrong) as (client, server):
            document = client.post(f"{PATH}/{made['id']}/test").json()
            assert document["ok"] is False
            assert document["failure"]["kind"] == "bad_configuration"
            assert "TRACEJURY_ENCRYPTION_KEY is not" in document["failure"]["message"]
            with pytest.raises(BadConfiguration, match="connection 'judge'"):
                server.pipeline.judging.judges.connection_of(an_active_rule())
    with an_api(tmp_path) as (client, server):
        connections = server.pipeline.judging.connections
        assert connections.usable(connections.get(made["id"])).key == KEY


def test_the_variable_is_read_at_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A credentialRef needs its variable when a judge is asked, not before, and the next judge has the new value."""
    with a_model(GOOD) as model, an_api(tmp_path) as (client, _):
        made = client.post(PATH, json=a_connection(model.base_url, credentialRef="JUDGE_KEY_OF_TEST")).json()
        place = f"{PATH}/{made['id']}/test"
        assert "the variable JUDGE_KEY_OF_TEST" in client.post(place).json()["failure"]["message"]
        for value in ("sk-first", "sk-second"):
            monkeypatch.setenv("JUDGE_KEY_OF_TEST", value)
            assert client.post(place).json()["ok"] is True
        assert [request.headers["authorization"] for request in model.requests] == [
            "Bearer sk-first",
            "Bearer sk-second",
        ]


def test_connections_of_the_settings_are_read_only(tmp_path: Path) -> None:
    """A file's connection keeps its id, cannot be changed over the API, and goes with its line."""
    files = {"judge": {"baseUrl": OFF, "model": "m"}, "second": {"baseUrl": OFF, "model": "m"}}
    with an_api(tmp_path, llm_connections=files) as (client, _):
        first, second = client.get(PATH).json()
        assert (first["name"], first["origin"], first["version"]) == ("judge", "FILE", 1)
        refused = client.put(f"{PATH}/{first['id']}", json=a_connection(OFF))
        assert refused.status_code == client.delete(f"{PATH}/{first['id']}").status_code == 409
        assert "llm_connections" in refused.json()["error"]
        assert client.post(PATH, json=a_connection(OFF)).status_code == 409
    with an_api(tmp_path, llm_connections={"second": {**files["second"], "model": "m2"}}) as (client, _):
        (only,) = client.get(PATH).json()
        assert (only["id"], only["model"], only["version"]) == (second["id"], "m2", 2)
    with an_api(tmp_path, llm_connections=files) as (client, _):
        assert [each["id"] for each in client.get(PATH).json()] == [first["id"], second["id"]]


def test_a_file_does_not_take_the_name_of_a_connection_of_the_api(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection made over the API stays active, and the log says that the file's is ignored."""
    with an_api(tmp_path) as (client, _):
        made = created(client)
    with an_api(tmp_path, llm_connections={"judge": {"baseUrl": OFF, "model": "m"}}) as (client, _):
        assert [each["id"] for each in client.get(PATH).json()] == [made["id"]]
    assert "'judge' is ignored" in caplog.text


def test_a_connection_that_a_rule_names_stays(tmp_path: Path) -> None:
    """Deleting it is refused with the names of the enabled rules that name it, by name or by id."""
    with a_store(tmp_path) as store:
        hub = Hub(store)
        by_id = hub.connections.create(a_connection(OFF))
        by_name = hub.connections.create(a_connection(OFF, name="other"))
        for name, connection, enabled in (
            ("one", by_id.connection_id, True),
            ("two", "other", True),
            ("three", "other", False),
        ):
            _store_rule(store, name, connection, enabled=enabled)
        for blocked, rule in ((by_id, "'one'"), (by_name, "'two'")):
            with pytest.raises(Conflict, match=f"enabled rules name this connection: {rule};"):
                hub.connections.delete(blocked.connection_id)
        assert len(hub.connections.all()) == 2
        assert hub.connections.replace(by_id.connection_id, a_connection(OFF, name="by id")).row.name == "by id"
        with pytest.raises(Conflict, match="'two'"):
            hub.connections.replace(by_name.connection_id, a_connection(OFF, name="renamed"))


def test_a_rule_finds_its_connection(tmp_path: Path) -> None:
    """By id, by name, or as the only one, or the one called default; else the failure says what to do."""
    with a_store(tmp_path) as store:
        hub = Hub(store)

        def connection_of(**rule: object) -> str:
            return hub.judges.connection_of(an_active_rule(**rule))  # type: ignore[arg-type] # keys of the rule

        with pytest.raises(BadConfiguration, match="no connection is configured; create one"):
            connection_of()
        first = hub.connections.create(a_connection(OFF)).connection_id
        assert connection_of() == connection_of(connectionId="judge") == connection_of(connectionId=first) == first
        other = hub.connections.create(a_connection(OFF, name="other", limits={"inFlight": 3})).connection_id
        with pytest.raises(BadConfiguration, match="no connection is named, and there are 2"):
            connection_of()
        with pytest.raises(BadConfiguration, match="there is no connection 'nowhere'; there are: 'judge', 'other'"):
            connection_of(connectionId="nowhere")
        default = hub.connections.create(a_connection(OFF, name="default")).connection_id
        assert connection_of() == default
        assert [hub.judges.in_flight(each) for each in (first, other, "gone")] == [64, 3, 1]


def test_judges_share_a_model_until_the_connection_changes(tmp_path: Path) -> None:
    """Limits hold for all judges of a connection together, and a change reaches the next judge, not those under way."""
    with a_model(GOOD) as old, a_model(GOOD) as new, a_store(tmp_path) as store:
        hub = Hub(store)
        made = hub.connections.create(a_connection(old.base_url))

        async def ask() -> None:
            active = an_active_rule()
            under_way = hub.judges.judge(active, AJob())
            await hub.ask(active)
            hub.connections.replace(made.connection_id, a_connection(new.base_url, model="judge-2"))
            await hub.ask(active)
            await under_way(QUESTION, SCHEMA)
            assert under_way.model == "judge-1"
            del under_way
            await hub.ask(active)
            await asyncio.sleep(0)

        hub.run(ask())
        assert ([each.body["model"] for each in old.requests], len(new.requests)) == (["judge-1"] * 2, 2)


def test_how_long_to_wait_reaches_the_failure(tmp_path: Path) -> None:
    """A Retry-After that is too long for the client is passed on to the scheduler of the next attempt."""
    with a_model(Status(429, headers={"retry-after": "77"})) as server, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(a_connection(server.base_url))
        active = an_active_rule()

        async def judge() -> Any:
            evaluator = build(active.rule.evaluator, active.rule.configuration, hub.judges.judge(active, AJob()))
            return await evaluate(evaluator, parse_case({"inputs": {"input": "a"}, "actualOutputs": {"output": "b"}}))

        outcome = hub.run(judge())
        assert isinstance(outcome, Failure)
        assert (outcome.kind, outcome.retry_after_s) == ("rate_limited", 77)


def test_the_command_lists_and_tries_connections(tmp_path: Path) -> None:
    """Over a server and over its directory alike, with an exit code that says whether the model answers."""
    price = {"inputUsdPerMillion": 1, "outputUsdPerMillion": 2}
    with a_model([GOOD, GOOD, Says("I am well, thank you"), Status(500), GOOD]) as model:
        with an_api(tmp_path) as (client, server):
            where = ("--server", f"http://{server.http}")
            assert run("connections", "list", *where).stdout.startswith("no connections here")
            made = client.post(PATH, json=a_connection(model.base_url, price=price)).json()
            client.post(PATH, json=a_connection(OFF, name="\x1b[31mred", credentialRef="JUDGE_KEY")).raise_for_status()
            tried = run("connections", "test", "judge", *where)
            assert tried.exit_code == 0
            assert "judge works: gpt-4o-mini-2024-07-18, " in tried.stdout
            assert "100 tokens in, 20 out, $0.0001" in tried.stdout
            assert json.loads(run("connections", "test", made["id"], "--json", *where).stdout)["ok"] is True
            rubbish, broken = (run("connections", "test", "judge", *where) for _ in range(2))
            assert (rubbish.exit_code, broken.exit_code) == (1, 1)
            assert "judge does not work: bad_reply: the reply has no complete JSON object" in rubbish.stdout
            assert "judge does not work: unavailable: status 500: scripted" in broken.stdout
            missing = run("connections", "test", "nobody", *where)
            assert missing.exit_code == 1
            assert "no connection nobody here; there are: \\x1b[31mred, judge" in missing.stderr
            listed = run("connections", "list", *where).stdout
            assert "\x1b" not in listed
            assert [line.split()[0] for line in listed.splitlines()[1:3]] == ["\\x1b[31mred", "judge"]
            assert json.loads(run("connections", "list", "--json", *where).stdout)[1]["spentToday"]["calls"] == 3
        assert (
            json.loads(run("connections", "list", "--json", "--data", tmp_path).stdout)[1]["spentToday"]["calls"] == 3
        )
        assert run("connections", "test", "judge", "--data", tmp_path).exit_code == 0


def test_a_trial_counts_and_stops_at_the_budget(tmp_path: Path) -> None:
    """Trying a connection costs what any call costs."""
    with a_model(GOOD) as model, an_api(tmp_path) as (client, _):
        made = client.post(PATH, json=a_connection(model.base_url, budget={"callsPerDay": 1})).json()
        assert client.post(f"{PATH}/{made['id']}/test").json()["ok"] is True
        assert client.post(f"{PATH}/{made['id']}/test").json()["failure"]["kind"] == "over_budget"
        assert len(model.requests) == 1


def test_the_cost_of_calls_without_a_price_is_shown_as_unknown(tmp_path: Path) -> None:
    """API, commands, pages and metrics say that a cost is unknown or a lower bound, and that a limit in USD is void."""
    price = {"inputUsdPerMillion": 10_000, "outputUsdPerMillion": 10_000}
    rule = {
        "name": "helpful",
        "criteria": "Is it helpful?",
        "connectionId": "judge",
        "budget": {"usdPerDay": 1, "allowUnpriced": True},
    }
    with a_model(GOOD) as model, an_api(tmp_path) as (client, _):
        where = ("--server", str(client.base_url))
        document = a_connection(model.base_url)
        path = f"{PATH}/{client.post(PATH, json=document).json()['id']}"
        client.post("/api/v1/projects/*/trace-eval-rules", json=rule).raise_for_status()
        client.post(f"{path}/test").raise_for_status()
        spent = client.get(path).json()["spentToday"]
        assert (spent["calls"], spent["unpricedCalls"], spent["usd"]) == (1, 1, 0)
        unknown, bound = "cost unknown; 1 call without a price", "at least $1.20; 1 call without a price"
        assert unknown in run("connections", "list", *where).stdout
        until(lambda: run("status", *where).stdout, lambda shown: unknown in shown)
        for page in ("/status", "/connections", path.replace("/api/v1/llm-connections", "/connections")):
            assert unknown in client.get(page).text
        assert "tracejury_judge_unpriced_calls_total 1" in client.get("/metrics").text
        until(lambda: run("status", *where).stdout, lambda shown: "usdPerDay of rule 'helpful' limits nothing" in shown)
        client.put(path, json=document | {"price": price}).raise_for_status()
        client.post(f"{path}/test").raise_for_status()
        assert bound in run("connections", "list", *where).stdout
        until(lambda: client.get("/api/v1/status").json()["server"]["conditions"], lambda conditions: not conditions)
        assert client.get("/api/v1/status").json()["spentToday"]["unpricedCalls"] == 1


def test_a_document_of_another_version_does_not_stop_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that cannot be parsed is left out, and the log says so."""
    with a_store(tmp_path) as store:
        Hub(store).connections.create(a_connection(OFF))
        Hub(store).connections.create(a_connection(OFF, name="odd"))

        def write(cursor: Any) -> None:
            cursor.execute("UPDATE llm_connection SET document = '{}' WHERE \"name\" = 'odd'")

        store.connections._writer.store(write, 1)
        assert [each.row.name for each in Hub(store).connections.all()] == ["judge"]
    assert "the connection 'odd' cannot be used" in caplog.text


def test_files_are_adopted_once(tmp_path: Path) -> None:
    """Reading the same settings again changes no version."""
    files = parse_file_connections({"judge": {"baseUrl": OFF, "model": "m", "budget": {"callsPerDay": 3}}})
    with a_store(tmp_path) as store:
        for _ in range(3):
            connections = LlmConnections(store.connections, Secrets(None), lambda _: None)
            connections.adopt(files)
            (only,) = connections.all()
            assert only.row.version == 1


def test_changes_are_told(tmp_path: Path) -> None:
    """Followers are notified of each change once it can be seen, and of no refusal."""
    with a_store(tmp_path) as store:
        connections, seen = Hub(store).connections, list[list[str]]()
        connections.follow(lambda: seen.append([each.text.model for each in connections.all()]))
        made = connections.create(a_connection(OFF))
        with pytest.raises(Conflict):
            connections.create(a_connection(OFF))
        connections.replace(made.connection_id, a_connection(OFF, model="judge-2"))
        connections.delete(made.connection_id)
        assert seen == [["judge-1"], ["judge-2"], []]


def test_a_hanging_connection_holds_up_no_other(tmp_path: Path) -> None:
    """While one endpoint is silent, another answers, also under the same budget of the project."""
    with a_model(Hangs()) as silent, a_model(GOOD) as good, a_store(tmp_path) as store:
        hub = Hub(store)
        hub.connections.create(
            a_connection(silent.base_url, name="silent", limits={"timeoutSeconds": 2, "attempts": 1})
        )
        hub.connections.create(a_connection(good.base_url, name="good"))

        async def ask() -> None:
            waiting = asyncio.create_task(hub.ask(an_active_rule(connectionId="silent")))
            await asyncio.sleep(0.05)
            async with asyncio.timeout(1.5):
                await asyncio.gather(*(hub.ask(an_active_rule(connectionId="good")) for _ in range(20)))
            with pytest.raises(ModelCallFailed, match="no answer within 2 s"):
                await waiting

        hub.run(ask())


def _store_rule(store: Store, name: str, connection: str, *, enabled: bool) -> None:
    """Store as much of a rule as names its connection."""
    document = json.dumps({"name": name, "evaluator": "llm_judge", "connectionId": connection})
    now = datetime.now(UTC).replace(tzinfo=None)
    number = int.from_bytes(name.encode()[:3], "big")
    rule = (name, name, "API", "", enabled, number, 1, now, now)
    revision: tuple[object, ...] = (number, name, "", name, "SPAN", "llm_judge", document, [], now)

    def write(cursor: Any) -> None:
        cursor.execute(f"INSERT INTO rule ({_RULE}) VALUES ('', ?, ?, ?, ?, ?, ?, ?, ?, ?)", rule)
        cursor.execute(f"INSERT INTO rule_revision ({_REVISION}) VALUES ('', ?, ?, ?, ?, ?, ?, ?, ?, ?)", revision)

    store.connections._writer.store(write, 2)


_RULE = 'tenant, rule_id, "name", origin, "text", enabled, revision, "version", created_at, updated_at'
_REVISION = "tenant, revision, rule_id, digest, rule, target, evaluator, document, clauses, created_at"
