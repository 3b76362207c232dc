"""`ETag` and `If-Match` of rules, connections and webhooks, over HTTP and at the same time."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.app import Running
from collector.live.judges.connections import LlmConnections
from collector.live.rules.active_rules import ActiveRules
from collector.secrets import Secrets
from rules.rule_text import parse_json
from storage.alerting.outbox import DeliveryAttempt, SwitchOffPolicy
from storage.errors import Stale, WriteConflict
from tests.alerting import a_finding
from tests.serving import a_server
from tests.storing import a_store

PROJECT = "/api/v1/projects/shop"
RULE: dict[str, Any] = {"name": "versions", "evaluator": "tool_error"}
CONNECTION = {"name": "versions", "baseUrl": "https://model.example/v1", "model": "m"}
HOOK = {"url": "https://receiver.example/x"}
KINDS: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = {  # where, what, and how it is changed
    "rule": (f"{PROJECT}/trace-eval-rules", RULE, [RULE | {"sampleRate": rate / 8} for rate in range(8)]),
    "connection": ("/api/v1/llm-connections", CONNECTION, [CONNECTION | {"model": f"m{n}"} for n in range(8)]),
    "webhook": (f"{PROJECT}/alert-webhooks", HOOK, [HOOK | {"enabled": bool(n % 2)} for n in range(8)]),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server that asks for no key."""
    with a_server(tmp_path_factory.mktemp("versions") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def api(server: Running) -> Iterator[httpx.Client]:
    """Yield a client of its API."""
    with httpx.Client(base_url=f"http://{server.http}", trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture
def made(api: httpx.Client, kind: str) -> Iterator[str]:
    """Yield the path of one that was made, of version 1."""
    where, document, _ = KINDS[kind]
    answer = api.post(where, json=document)
    assert (answer.status_code, answer.headers["etag"]) == (201, '"1"'), answer.text
    path = f"{where}/{answer.json()['id']}"
    yield path
    assert api.delete(path).status_code in {204, 404}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stale_version_is_neither_replaced_nor_deleted(api: httpx.Client, made: str, kind: str) -> None:
    """412 and nothing changed; with the version that it has, with `*`, or with none, it is."""
    _, _, changes = KINDS[kind]

    def put(change: dict[str, Any], tag: str | None = None) -> tuple[int, str | None]:
        answer = api.put(made, json=change, headers={} if tag is None else {"if-match": tag})
        return answer.status_code, answer.headers.get("etag")

    assert put(changes[1], '"1"') == (200, '"2"')
    before = api.get(made)
    assert (before.headers["etag"], before.json()["version"]) == ('"2"', 2)
    assert put(changes[2], '"1"') == (412, None)
    assert api.delete(made, headers={"if-match": '"1"'}).status_code == 412
    assert api.get(made).json() == before.json()
    assert put(changes[2], '"1", "2"') == (200, '"3"')
    assert put(changes[3], "*") == (200, '"4"')
    assert put(changes[4]) == (200, '"5"')
    assert put(changes[5], "yesterday's")[0] == 412
    assert api.delete(made, headers={"if-match": '"5"'}).status_code == 204
    assert put(changes[6], '"5"')[0] == 404


@pytest.mark.parametrize("kind", KINDS)
def test_of_those_who_saw_the_same_one_succeeds(api: httpx.Client, made: str, kind: str) -> None:
    """Changes of one version that come at the same time are one, and 412 for all others."""
    _, _, changes = KINDS[kind]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda change: api.put(made, json=change, headers={"if-match": '"1"'}), changes[1:]))
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 6
    assert api.get(made).headers["etag"] == '"2"'


@pytest.mark.parametrize("kind", ["webhook"])
def test_what_we_switch_off_is_another_version(server: Running, api: httpx.Client, made: str) -> None:
    """Who saw a receiver that was on does not overwrite that it was switched off meanwhile; failures alone are none."""
    webhook_id = made.rpartition("/")[2]
    for number, (disable, version) in enumerate(((None, 1), ("it is gone", 2))):
        finding = a_finding(number)
        assert server.store.alerts.open(finding, finding.baseline.count)
        failed = DeliveryAttempt(
            delivery_id=server.store.outbox.deliveries(webhook_id)[0].delivery_id,
            webhook_id=webhook_id,
            type="alert.opened",
            replays=0,
            state="failed",
            at_ns=1_000_000,
            next_at_ns=1_000_000,
            status=410,
            error="gone",
            disable=disable,
        )
        server.store.outbox.record([failed], SwitchOffPolicy(failing_ns=2**62))
        assert api.get(made).headers["etag"] == f'"{version}"'
    assert api.put(made, json=HOOK, headers={"if-match": '"1"'}).status_code == 412


def test_the_version_is_compared_where_it_is_written(tmp_path: Path) -> None:
    """A change of a row between its read and the write is detected, also for a request without a version."""
    with a_store(tmp_path) as store:
        rules = ActiveRules(store.rulebook)
        made = rules.create("shop", parse_json(json.dumps(RULE)), json.dumps(RULE)).stored
        late = store.rulebook._change()
        late.delete(late.living(made.rule_id))
        changed = RULE | {"sampleRate": 0.5}
        rules.replace("shop", made.rule_id, parse_json(json.dumps(changed)), json.dumps(changed))
        with pytest.raises(WriteConflict):
            store._writer.store(late.write, 1)
        assert [rule.version for rule in store.rulebook.rules()] == [2]
        one, another = (LlmConnections(store.connections, Secrets(None), dict[str, str]().get) for _ in range(2))
        connection_id = one.create(CONNECTION).connection_id
        another._read_all()
        assert one.replace(connection_id, CONNECTION, seen={1}).row.version == 2
        with pytest.raises(Stale):
            another.replace(connection_id, CONNECTION, seen={1})
        assert another.replace(connection_id, CONNECTION).row.version == 3
