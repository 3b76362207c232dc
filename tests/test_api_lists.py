"""Lists of what people made, over HTTP: whole up to a bound, else in parts that say where to go on."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from collector.api.base.pages import MAX_ITEMS, MAX_PAGE
from collector.cli.client import ServerClient
from tests.access import OPERATOR_KEY, a_closed_server
from tests.live import a_client

PROJECT = "/api/v1/projects/shop"
NUMBER = 5
RULE = {"evaluator": "tool_error", "conditions": {"any": [{"field": "name", "op": "=", "value": "none"}]}}
LISTS = (
    "/api/v1/projects",
    "/api/v1/trace-eval-rules",
    f"{PROJECT}/trace-eval-rules",
    f"{PROJECT}/trace-eval-rules/{{rule}}/backfills",
    "/api/v1/alert-webhooks",
    f"{PROJECT}/alert-webhooks",
    "/api/v1/llm-connections",
    "/api/v1/api-keys",
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Yield a client of a server with some of everything that is listed."""
    data = tmp_path_factory.mktemp("server") / "data"
    with a_closed_server(data, webhook_private_hosts=("127.0.0.1",)) as server, a_client() as client:
        client.base_url = httpx.URL(f"http://{server.running.http}")
        client.headers["authorization"] = f"Bearer {OPERATOR_KEY}"
        for number in range(NUMBER):
            rule, connection = RULE | {"name": f"r{number}"}, {"name": f"c{number}", "model": "m"}
            made = [
                client.post(f"/api/v1/projects/project {number}/trace-eval-rules", json=rule),
                client.post(f"{PROJECT}/trace-eval-rules", json=rule),
                client.post(f"{PROJECT}/alert-webhooks", json={"url": "http://127.0.0.1:9/alerts"}),
                client.post("/api/v1/llm-connections", json=connection | {"baseUrl": "http://127.0.0.1:9/v1"}),
                client.post(
                    f"{PROJECT}/trace-eval-rules/{_rule(client)}/backfills", json={"from": "2026-01-01T00:00:00Z"}
                ),
            ]
            assert [answer.status_code for answer in made] == [201] * len(made), [answer.text for answer in made]
        yield client


def _rule(client: httpx.Client) -> str:
    return str(client.get(f"{PROJECT}/trace-eval-rules").json()[0]["id"])


def content(answer: httpx.Response) -> list[Any]:
    """Return the entries of a list response."""
    document = answer.raise_for_status().json()
    entries: list[Any] = document if isinstance(document, list) else document["content"]
    return entries


def names(entries: list[Any]) -> list[str]:
    """Return the values that identify entries; the fields of an entry may change between two responses."""
    return [str(each.get("id") or each["name"]) for each in entries]


@pytest.mark.parametrize("path", LISTS)
def test_a_list_comes_in_parts(client: httpx.Client, path: str) -> None:
    """Pages of two, each with a link to the next, make the whole list, which has no such link."""
    place = path.format(rule=_rule(client))
    whole = client.get(place)
    assert len(content(whole)) >= NUMBER
    assert "link" not in whole.headers
    answer, parts = client.get(place, params={"size": 2}), []
    while True:
        parts.append(names(content(answer)))
        if "next" not in answer.links:
            break
        answer = client.get(answer.url.join(answer.links["next"]["url"]))
    assert {len(part) for part in parts[:-1]} == {2}
    assert [name for part in parts for name in part] == names(content(whole))
    assert content(client.get(place, params={"page": MAX_PAGE, "size": MAX_ITEMS})) == []


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("part", ["page=-1", f"page={MAX_PAGE + 1}", "size=0", f"size={MAX_ITEMS + 1}", "size=x"])
def test_a_part_that_there_cannot_be_is_refused(client: httpx.Client, path: str, part: str) -> None:
    """With the parameter that is wrong."""
    answer = client.get(f"{path.format(rule=_rule(client))}?{part}")
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [part.split("=", maxsplit=1)[0]]


def test_no_list_is_forgotten(client: httpx.Client) -> None:
    """What answers with an array has a page and a size; the lists of the Jaeger paths have Jaeger's parameters."""
    paths = client.get("/openapi.json").json()["paths"]
    forgotten = []
    for path, methods in paths.items():
        answer = methods.get("get", {"responses": {}})["responses"].get("200", {})
        schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
        parameters = {parameter["name"] for parameter in methods.get("get", {}).get("parameters", [])}
        if schema.get("type") == "array" and not {"page", "size"} <= parameters:
            forgotten.append(path)
    assert forgotten == []


def test_commands_see_the_whole_list(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands follow the links to further pages, and only on the server they asked first."""
    asking, sizes = ServerClient(client), []

    def two(request: httpx.Request) -> None:
        if "size" not in request.url.params:
            request.url = request.url.copy_merge_params({"size": "2"})
        sizes.append(request.url.params["size"])

    monkeypatch.setitem(client.event_hooks, "request", [two])
    whole = asking.whole("/api/v1/alert-webhooks")
    assert len(names(whole)) == len(set(names(whole))) == NUMBER
    assert sizes == ["2"] * 3
