"""The playground over HTTP: the requests to models, their cost and their traces, and who may ask."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.live.judges import playground
from tests.access import OPERATOR_KEY, Closed, a_closed_server, request
from tests.connecting import ENCRYPTION_KEY, a_connection
from tests.live import until
from tests.model_server import MODEL_RETURNED, Hangs, Says, Sends, Status, Step, a_model
from tests.playing import CALL, MESSAGES, PRICE, SPAN, TOOLS, TRACE, Played, a_played_server
from tests.serving import a_server

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/addresses.py",
    "collector/api",
    "collector/conventions",
    "collector/live",
    "collector/otlp",
    "collector/reading",
    "evaluators",
    "storage",
)

COUNTED = """
SELECT rule_id, project, connection_id, outcome, tokens FROM judge_call WHERE tokens IS NOT NULL ORDER BY call_id
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Start one server for all tests."""
    with a_played_server(tmp_path_factory.mktemp("played") / "data") as made:
        yield made


def on_record(played: Played) -> int:
    """Count the calls so far."""
    assert played.running.store.spending.flush(60)
    return len(played.sql(COUNTED))


def settled(played: Played, before: int, more: int) -> list[tuple[object, ...]]:
    """Return the calls on record after the first `before`, once there are `more` of them."""
    return until(lambda: played.sql(COUNTED), lambda rows: len(rows) == before + more)[before:]


def test_models_answer_beside_each_other(played: Played) -> None:
    """Each is sent the conversation, the tools and the parameters in its own protocol, and its answer is returned."""
    played.connect()
    one, two = played.answers(
        "one", "two", messages=MESSAGES, tools=TOOLS, temperature=0.5, topP=0.9, maxOutputTokens=100
    )
    assert [each["message"]["parts"] for each in (one, two)] == [
        [{"type": "text", "content": text}] for text in ("Bitterly.", "Very.")
    ]
    assert [(each["connection"], each["model"], each["failure"]) for each in (one, two)] == [
        ("one", "model-one", None),
        ("two", "model-two", None),
    ]
    ((chat,), (anthropic,)) = played.requests()
    assert [message["role"] for message in chat["messages"]] == ["system", "user", "assistant", "tool"]
    assert (chat["temperature"], chat["top_p"], chat["max_tokens"]) == (0.5, 0.9, 100)
    assert (chat["model"], chat["tools"][0]["function"]["name"]) == ("model-one", "weather")
    assert (anthropic["system"], anthropic["max_tokens"], anthropic["tools"][0]["name"]) == (
        "Be brief.",
        100,
        "weather",
    )
    assert "response_format" not in chat
    assert "output_config" not in anthropic


def test_a_price_asks_nobody(played: Played) -> None:
    """The highest cost is computed from the bytes of each request and the output limit, and no request is sent."""
    played.connect()
    document = played.play("one", "two", priceOnly=True).json()
    most = [each["atMost"] for each in document["answers"]]
    assert [each["outputTokens"] for each in most] == [300, 300]
    for each in (*most, document["atMost"]):
        assert each["costUsd"] == pytest.approx((each["inputTokens"] * 10 + each["outputTokens"] * 100) / 1e6)
    assert document["atMost"]["inputTokens"] == sum(each["inputTokens"] for each in most)
    assert [(each["message"], each["usage"], each["traceId"]) for each in document["answers"]] == [
        (None, None, None)
    ] * 2
    assert played.requests() == [[], []]
    played.connect(price=None)
    assert played.play("one", priceOnly=True).json()["atMost"]["costUsd"] is None


def test_an_answer_is_counted_like_one_of_a_judge(played: Played) -> None:
    """The project and the connection are charged for an answer, under the name `playground` where rules are listed."""
    (one, _), before = played.connect(), on_record(played)
    (answer,) = played.answers("one", project="shop")
    assert answer["usage"]["costUsd"] == pytest.approx((100 * 10 + 20 * 100) / 1e6)
    assert settled(played, before, 1) == [("playground", "shop", one, "answered", 120)]
    paid = {(each.kind, each.identity): each.tokens for each in played.running.context.judging.budgets.today()}
    assert (paid["connection", one], paid["rule", "playground"] >= 120, paid["project", "shop"] >= 120) == (
        120,
        True,
        True,
    )


@pytest.mark.parametrize(
    "budget, why",
    [
        ({"callsPerDay": 0}, "may take 1; the limit is 0 calls a day: raise callsPerDay"),
        ({"tokensPerDay": 300}, " the limit is 300 tokens a day: raise tokensPerDay, or lower"),
        ({"usdPerDay": 0.01}, " the limit is 0.01 USD a day: raise usdPerDay, or lower"),
    ],
)
def test_what_is_over_budget_is_refused(played: Played, budget: dict[str, Any], why: str) -> None:
    """Nothing leaves, the message says whose budget is too small, and the answer beside it is given."""
    connections = played.running.context.judging.connections
    one, _ = played.connect()
    document = a_connection(
        played.models[0].base_url, name="one", model="model-one", price=PRICE, maxOutputTokens=300, budget=budget
    )
    connections.replace(one, document)
    refused, answered = played.answers("one", "two")
    assert (refused["failure"]["kind"], refused["message"], refused["usage"]) == ("over_budget", None, None)
    assert "the budget of connection 'one' is too small for this request" in refused["failure"]["message"]
    assert why in refused["failure"]["message"]
    assert (answered["failure"], [len(each) for each in played.requests()]) == (None, [0, 1])


def test_a_budget_of_calls_holds_for_answers_at_once(played: Played) -> None:
    """Of three answers over a connection that has one call left, one is given."""
    one, _ = played.connect(budget={"callsPerDay": 1})
    answers = played.answers(one, one, one)
    assert sorted(each["failure"]["kind"] if each["failure"] else "given" for each in answers) == [
        "given",
        "over_budget",
        "over_budget",
    ]
    assert len(played.models[0].requests) == 1


def test_an_answer_is_a_trace_that_rules_pass_over(played: Played) -> None:
    """The trace has the question and the answer, links to its origin, and is judged by no rule that would match it."""
    played.connect()
    rule = {"name": "every model", "evaluator": "length", "config": {"maximumOutputLength": 1}}
    conditions = [{"field": "span_type", "op": "=", "value": "llm"}]
    with httpx.Client(trust_env=False, base_url=f"{played.origin}/api/v1/") as client:
        made = client.post("projects/shop/trace-eval-rules", json=rule | {"conditions": conditions})
        assert made.status_code == 201, made.text
        marked = {"field": "resource.tracejury.playground", "op": "exists"}
        of_playground = rule | {"name": "of the playground", "conditions": [*conditions, marked]}
        made_of = client.post("projects/shop/trace-eval-rules", json=of_playground)
        assert made_of.status_code == 201, made_of.text
        origin = {"traceId": TRACE, "spanId": SPAN}
        (answer,) = played.answers("one", project="shop", tools=TOOLS, temperature=0.5, origin=origin)
        path = f"traces/{answer['traceId']}"
        trace = until(lambda: client.get(path), lambda response: response.status_code == 200).json()
        (span,) = until(lambda: client.get(path).json(), lambda document: bool(document["spans"][0]["model"]))["spans"]
        assert (trace["project"], trace["serviceName"]) == ("shop", "tracejury.playground")
        columns = (span["spanType"], span["model"], span["inputTokens"], span["outputTokens"])
        assert columns == ("llm", MODEL_RETURNED, 100, 20)
        assert [message["role"] for message in span["inputMessages"]] == ["system", "user"]
        assert span["outputMessages"][0]["parts"] == [{"type": "text", "content": "Bitterly."}]
        assert span["costUsd"] == pytest.approx((100 * 10 + 20 * 100) / 1e6)
        assert span["attributes"]["gen_ai.request.temperature"] == 0.5
        assert [(each["traceId"], each["spanId"]) for each in span["links"]] == [(TRACE, SPAN)]
        decided = "SELECT rule, decision, clause FROM decisions WHERE trace_id = '{}' ORDER BY rule"
        decisions = until(
            lambda: played.sql(decided.format(answer["traceId"])), lambda rows: len(rows) == 2 and "scored" in str(rows)
        )
        assert [(rule, decision) for rule, decision, _ in decisions] == [
            ("every model", "filtered"),
            ("of the playground", "scored"),
        ]
        assert "tracejury.playground" in str(decisions[0][2])
        for each in (made, made_of):
            assert client.delete(f"projects/shop/trace-eval-rules/{each.json()['id']}").is_success


def test_what_fails_is_told_and_stored(played: Played) -> None:
    """A model that refuses leaves the answer of the other, is asked once, and its trace has the error."""
    played.connect(limits={"attempts": 3})
    played.models[0].script = lambda _: Status(503)
    try:
        failed, answered = played.answers("one", "two")
    finally:
        played.models[0].script = lambda _: Says("Bitterly.")
    assert (failed["failure"]["kind"], answered["failure"], len(played.models[0].requests)) == ("unavailable", None, 1)
    select = f"SELECT status_code, error_type FROM spans WHERE trace_id = '{failed['traceId']}' AND dialect IS NOT NULL"
    assert until(lambda: played.sql(select), bool) == [("ERROR", "unavailable")]


def test_failed_requests_are_made_again_if_wanted(played: Played) -> None:
    """A request is retried as often as the connection allows, and the price shown beforehand includes the retries."""
    played.connect(limits={"attempts": 3})
    once = played.play("one", priceOnly=True).json()["atMost"]
    thrice = played.play("one", priceOnly=True, retries=True).json()["atMost"]
    assert (once["calls"], thrice["calls"]) == (1, 3)
    assert thrice["costUsd"] == pytest.approx(3 * once["costUsd"])
    steps: Iterator[Step] = iter([Status(503), Status(429, headers={"retry-after": "0"}), Says("Yes.")])
    played.models[0].script = lambda _: next(steps)
    try:
        (answer,) = played.answers("one", retries=True)
    finally:
        played.models[0].script = lambda _: Says("Bitterly.")
    assert (answer["failure"], len(played.models[0].requests)) == (None, 3)


def test_nobody_waits_for_ever(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that does not answer is abandoned after the time limit of an answer, and its highest cost counts."""
    monkeypatch.setattr(playground, "CALLS_TIMEOUT_S", 0.3)
    played.connect()
    before = on_record(played)
    played.models[0].script = lambda _: Hangs()
    try:
        (failed,) = played.answers("one")
    finally:
        played.models[0].script = lambda _: Says("Bitterly.")
    assert (failed["failure"]["kind"], "0.3 s" in failed["failure"]["message"]) == ("timeout", True)
    ((_, _, _, outcome, tokens),) = settled(played, before, 1)
    assert (outcome, int(str(tokens)) > 300) == ("cancelled", True)
    assert failed["usage"]["inputTokens"] + failed["usage"]["outputTokens"] == tokens


def test_a_call_of_a_tool_is_an_answer(played: Played) -> None:
    """The model's call is returned as a message part; no tool is called."""
    played.connect()
    function = {"name": "weather", "arguments": json.dumps(CALL["arguments"])}
    message = {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    body = json.dumps({"model": "m", "choices": [{"message": message}], "usage": usage}).encode()
    played.models[0].script = lambda _: Sends(body)
    try:
        (answer,) = played.answers("one", tools=TOOLS)
    finally:
        played.models[0].script = lambda _: Says("Bitterly.")
    assert answer["message"]["parts"] == [CALL]


def test_another_model_has_its_own_price(played: Played) -> None:
    """It is asked over the connection, and costs what the table of prices says, or is refused where USD are limited."""
    played.connect(budget={"usdPerDay": 5})
    fields = {"connectionId": "one", "model": "gpt-4o-mini"}
    (priced,) = played.play(answers=[fields], priceOnly=True).json()["answers"]
    most = priced["atMost"]
    assert most["costUsd"] == pytest.approx((most["inputTokens"] * 0.15 + most["outputTokens"] * 0.6) / 1e6)
    (answer,) = played.answers(answers=[fields])
    assert (answer["failure"], played.models[0].requests[0].body["model"]) == (None, "gpt-4o-mini")
    (unknown,) = played.answers(answers=[fields | {"model": "nobody-knows-it"}])
    assert (unknown["failure"]["kind"], "has no price" in unknown["failure"]["message"]) == ("bad_configuration", True)
    assert len(played.models[0].requests) == 1


@pytest.mark.parametrize(
    "more, field",
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "parts": "x"}]}, "messages"),
        ({"temperature": 3}, "temperature"),
        ({"maxOutputTokens": 0}, "maxOutputTokens"),
        ({"answers": []}, "answers"),
        ({"answers": [{"connectionId": "one"}] * 4}, "answers"),
        ({"origin": {"traceId": "x", "spanId": SPAN}}, "origin.traceId"),
        ({"more": 1}, "more"),
    ],
)
def test_what_is_wrong_is_told_by_field(played: Played, more: dict[str, Any], field: str) -> None:
    """The answer is 400, and no model is asked."""
    played.connect()
    answer = played.play("one", **more)
    assert (answer.status_code, field in {each["field"] for each in answer.json()["errors"]}) == (400, True)
    assert played.requests() == [[], []]


def test_what_cannot_be_sent_is_refused_before_anything_leaves(played: Played) -> None:
    """An image, an answer longer than the connection allows, and a missing connection are refused unsent."""
    played.connect()
    parts = [{"type": "blob", "mime_type": "image/png", "content": "AA"}]
    (answer,) = played.answers("one", messages=[{"role": "user", "parts": parts}])
    assert "'blob' cannot be sent" in answer["failure"]["message"]
    (answer,) = played.answers("one", maxOutputTokens=301)
    assert "allows answers of 300 tokens" in answer["failure"]["message"]
    assert (played.play("nobody").status_code, played.requests()) == (404, [[], []])


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Yield a server with keys."""
    settings = {"webhook_private_hosts": ("127.0.0.1",), "encryption_key": ENCRYPTION_KEY}
    with a_closed_server(tmp_path_factory.mktemp("keys") / "data", **settings) as made:
        yield made


def test_a_tenant_asks_over_its_own_connections(closed: Closed) -> None:
    """The answer is a trace of the tenant, another's connection is unknown, and a shared one keeps its model."""
    with a_model(Says("Hello.")) as model:
        connections = closed.running.context.judging.connections
        made = {each: connections.create(a_connection(model.base_url), each) for each in ("", "acme", "other")}
        ids = {tenant: each.connection_id for tenant, each in made.items()}
        shared = connections.create(a_connection(model.base_url, name="shared", shared=True)).connection_id

        def play(key: str, connection: str, **more: Any) -> httpx.Response:
            body = {
                "messages": [{"role": "user", "content": "Hi"}],
                "answers": [{"connectionId": connection, **more}],
            }
            return closed.ask("POST", "/api/v1/playground", key=closed.keys[key], json=body)

        assert [play("editor of acme", ids[each]).status_code for each in ("acme", "other", "")] == [200, 404, 404]
        (answer,) = play("editor of acme", shared).json()["answers"]
        assert answer["failure"] is None
        (refused,) = play("editor of acme", shared, model="gpt-5").json()["answers"]
        assert "only its own model is allowed" in refused["failure"]["message"]
        assert len(model.requests) == 2
        path = f"/api/v1/traces/{answer['traceId']}"
        until(lambda: closed.ask("GET", path, key=closed.keys["viewer of acme"]).status_code, lambda code: code == 200)
        assert closed.ask("GET", path, key=closed.keys["viewer of other"]).status_code == 404


def test_only_who_may_write_may_ask(closed: Closed) -> None:
    """A viewer, a reviewer, a sender and a caller without a key are refused; nothing leaves."""
    with a_model(Says("Hello.")) as model:
        connections = closed.running.context.judging.connections
        name = connections.create(a_connection(model.base_url, name="for roles")).connection_id
        body = {"messages": [{"role": "user", "content": "Hi"}], "answers": [{"connectionId": name}]}
        refused = [
            closed.ask("POST", "/api/v1/playground", key=closed.keys[key], json=body).status_code
            for key in ("viewer", "reviewer", "ingest")
        ]
        assert (refused, closed.ask("POST", "/api/v1/playground", json=body).status_code) == ([403] * 3, 401)
        assert model.requests == []
        assert closed.ask("POST", "/api/v1/playground", key=closed.keys["editor"], json=body).status_code == 200


def test_a_private_address_of_a_tenant_is_not_asked(tmp_path: Path) -> None:
    """The rules about where connections of tenants lead hold in the playground."""
    with a_model(Says("Hello.")) as model:
        document = a_connection(model.base_url.replace("127.0.0.1", "localhost"))
        for allowed, failed in ((("localhost",), None), ((), "unreachable")):
            settings = {"webhook_private_hosts": allowed, "encryption_key": ENCRYPTION_KEY, "api_key": OPERATOR_KEY}
            with a_server(tmp_path / "data", **settings) as running:
                connections = running.context.judging.connections
                known = connections.all("acme") or [connections.create(document, "acme")]
                url = f"http://{running.http}/api/v1/"
                fields = {"name": f"of {failed}", "role": "EDITOR", "tenantId": "acme"}
                key = request(f"{url}api-keys", "POST", key=OPERATOR_KEY, json=fields).json()["key"]
                body = {
                    "messages": [{"role": "user", "content": "Hi"}],
                    "answers": [{"connectionId": known[0].connection_id}],
                }
                (answer,) = request(f"{url}playground", "POST", key=key, json=body).json()["answers"]
                assert (answer["failure"] and answer["failure"]["kind"]) == failed
        assert len(model.requests) == 1
