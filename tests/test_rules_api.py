"""Rules over HTTP, against the real server."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.api.documents.rule_documents import READ_ONLY
from collector.app import Running
from rules.tree import MAX_CHARACTERS
from tests.judged import put
from tests.live import a_client, until
from tests.serving import a_server, an_export, post, run
from tests.storing import files_no_larger_than

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/cli",
    "collector/conventions",
    "collector/evaluation",
    "collector/live",
    "collector/local_api.py",
    "collector/reading",
    "evaluators",
    "rules",
    "storage",
)

SEEDS = {
    "name": "helpfulness",
    "enabled": True,
    "matchType": "SPAN_NAME",
    "matchKey": None,
    "matchValue": "llm.generate",
    "connectionId": "local",
    "evaluatorName": "helpfulness",
    "criteria": "The response correctly and helpfully answers the question.",
    "minScore": 0,
    "maxScore": 1,
    "threshold": 0.5,
}
OURS = {
    "name": "refunds",
    "target": "TRACE",
    "conditions": {"any": [{"field": "tool_name", "op": "=", "value": "refund"}]},
    "evaluator": "tool_error",
    "config": {"threshold": 0.9},
    "sampleRate": 0.5,
    "compareBy": "git.commit",
    "budget": {"callsPerDay": 5},
    "tools": [{"name": "refund"}],
    "expected": {"output": "done"},
}
FOLDER_RULE = "name: of a file\nevaluator: tool_error\n"
TRACE = "0" * 31 + "1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server with a trace of the project shop and a folder with a shared rule and an invalid one."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / "file.yaml").write_text(FOLDER_RULE)
    (folder / "wrong.yaml").write_text("name: x\n\nevaluatr: tool_error\n")
    with a_server(tmp_path_factory.mktemp("server") / "data", rules=folder) as server:
        post(f"http://{server.http}/api/v1/traces", an_export(TRACE, "agent", "refund").SerializeToString())
        assert server.store.wait_committed(10)
        server.pipeline.judging.connections.create({"name": "local", "baseUrl": "http://127.0.0.1:9/v1", "model": "m"})
        yield server


@pytest.fixture
def api(server: Running) -> Iterator[httpx.Client]:
    """Yield a client of the API; the rules that it made are gone afterwards."""
    with a_client() as client:
        client.base_url = httpx.URL(f"http://{server.http}/api/v1")
        yield client
        for rule in client.get("/trace-eval-rules").json()["content"]:
            if rule["origin"] == "API":
                client.delete(f"/projects/{rule['project'] or '*'}/trace-eval-rules/{rule['id']}").raise_for_status()


def made(api: httpx.Client, project: str = "shop", **keys: object) -> dict[str, Any]:
    """Create a rule."""
    answer = api.post(f"/projects/{project}/trace-eval-rules", json=OURS | keys)
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_a_rule_of_the_seeds_goes_in_and_comes_out(api: httpx.Client) -> None:
    """Each of their fields is in the answer as it was sent, under an address that answers the same."""
    answer = api.post("/projects/shop/trace-eval-rules", json=SEEDS)
    assert answer.status_code == 201
    document = answer.json()
    assert {key: document[key] for key in SEEDS} == SEEDS
    assert (document["evaluator"], document["target"], document["sampleRate"]) == ("llm_judge", "SPAN", 1.0)
    place = answer.headers["location"]
    assert place == f"/api/v1/projects/shop/trace-eval-rules/{document['id']}"
    assert api.get(place.removeprefix("/api/v1")).json() == document
    assert document in api.get("/projects/shop/trace-eval-rules").json()
    assert [project["id"] for project in api.get("/projects").json()] == [document["projectId"]]


def test_every_key_of_ours_goes_in_and_comes_out(api: httpx.Client) -> None:
    """The answer has the keys that were sent, with the rule's own fields."""
    document = made(api)
    assert {key: document[key] for key in OURS} == OURS
    assert (document["origin"], document["file"], document["version"]) == ("API", None, 1)
    assert document["clauses"][-4] == 'any of (tool_name = "refund")'
    assert len(document["digest"]) == 12
    assert document.keys() >= READ_ONLY


@pytest.mark.parametrize("keys", [SEEDS, OURS], ids=["seeds", "ours"])
def test_an_answer_sent_back_changes_nothing(api: httpx.Client, keys: dict[str, Any]) -> None:
    """A client that reads a rule, changes one key and sends all of it back, changes that key only."""
    document = api.post("/projects/shop/trace-eval-rules", json=keys).json()
    place = f"/projects/shop/trace-eval-rules/{document['id']}"
    again = api.put(place, json=document)
    assert again.status_code == 200
    same = {"version", "updatedAt"}
    assert {key: value for key, value in again.json().items() if key not in same} == {
        key: value for key, value in document.items() if key not in same
    }
    edited = api.put(place, json=document | {"compareBy": "deployment"}).json()
    assert edited["revision"] > document["revision"]
    assert {key for key in document if edited[key] != document[key]} <= same | {"compareBy", "revision", "digest"}
    disabled = api.put(place, json=edited | {"enabled": False}).json()
    assert (disabled["enabled"], disabled["revision"]) == (False, edited["revision"])


def test_a_project_is_a_name_or_an_id_and_made_by_its_first_rule(api: httpx.Client) -> None:
    """Whatever it is called: the id leads to the same rules, and names with a slash are names."""
    for name in ("new/with slash", "ß😀", "x" * 200):
        assert api.get(f"/projects/{name}/trace-eval-rules").status_code == 404
        document = made(api, name)
        listed = api.get(f"/projects/{document['projectId']}/trace-eval-rules").json()
        assert document in listed
        assert document["project"] == name
        assert api.get(f"/projects/{name}/trace-eval-rules/{document['id']}").json() == document
    assert "no project" in api.get("/projects/nowhere/trace-eval-rules").json()["error"]


def test_a_project_that_only_traces_name_is_there(api: httpx.Client) -> None:
    """It has no rule of its own, and those about all are about it."""
    names = [rule["name"] for rule in api.get("/projects/shop/trace-eval-rules").json()]
    assert names == ["of a file"]
    assert "shop" in [project["name"] for project in api.get("/projects").json()]


def test_rules_about_all_projects_have_an_address(api: httpx.Client) -> None:
    """A star stands for all of them."""
    document = made(api, "*")
    assert (document["project"], document["projectId"]) == (None, None)
    listed = api.get("/projects/*/trace-eval-rules").json()
    assert [rule["name"] for rule in listed] == ["of a file", "refunds"]
    answer = api.post("/projects/*/trace-eval-rules", json=OURS | {"name": "b", "project": "shop"})
    assert answer.json()["problems"][0]["key"] == "project"


def test_everything_wrong_is_told_at_once(api: httpx.Client) -> None:
    """A 400 names each key, and nothing is stored."""
    before = api.get("/trace-eval-rules").json()["content"]
    keys = {"name": "", "target": "SESSIONS", "sampleRate": 2, "budget": {"calls": 1}, "evaluatr": "x"}
    answer = api.post("/projects/shop/trace-eval-rules", json=keys)
    assert answer.status_code == 400
    problems = answer.json()["problems"]
    assert {problem["key"] for problem in problems} == {
        "name",
        "evaluator",
        "target",
        "sampleRate",
        "budget.calls",
        "evaluatr",
    }
    for problem in problems:
        assert problem["message"] in answer.json()["error"]
    assert api.get("/trace-eval-rules").json()["content"] == before


@pytest.mark.parametrize(
    "content, kind, status, message",
    [
        (b"{", "application/json", 400, "is not JSON"),
        (b"[]", "application/json", 400, "a rule is a mapping"),
        (b"\xff", "application/json", 400, "is not UTF-8"),
        (b"", "application/json", 400, "is not JSON"),
        (b'{"name": "a", "name": "b"}', "application/json", 400, "occurs twice"),
        (b'{"id": "x", "name": "a", "name": "b"}', "application/json", 400, "occurs twice"),
        (b"[" * 50_000, "application/json", 400, "nested"),
        (b" " * (4 * MAX_CHARACTERS + 1), "application/json", 413, "at most"),
        (json.dumps(OURS).encode(), "text/plain", 415, "application/json"),
        (json.dumps(OURS).encode(), "application/x-www-form-urlencoded", 415, "application/json"),
        (json.dumps(OURS | {"evaluator": "code_judge"}).encode(), "application/json", 400, "script"),
        (
            json.dumps({"name": "a", "evaluator": "code_judge", "config": {"script": ["true"]}}).encode(),
            "application/json; charset=utf-8",
            400,
            "only a rule from a file",
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bodies_that_are_no_rule_are_refused(
    api: httpx.Client, content: bytes, kind: str, status: int, message: str
) -> None:
    """Each with its status and a reason; what a page of another site could send without asking is not taken."""
    answer = api.post("/projects/shop/trace-eval-rules", content=content, headers={"content-type": kind})
    assert (answer.status_code, message in answer.json()["error"]) == (status, True), answer.text


def test_a_rule_can_be_sent_as_yaml(api: httpx.Client) -> None:
    """As it stands in a file; its problems have lines."""
    headers = {"content-type": "application/yaml"}
    text = "# why\nname: of yaml\nevaluator: tool_error\n"
    answer = api.post("/projects/shop/trace-eval-rules", content=text, headers=headers)
    assert (answer.status_code, answer.json()["name"]) == (201, "of yaml")
    wrong = api.post("/projects/shop/trace-eval-rules", content=f"{text}target: X", headers=headers)
    assert [(problem["line"], problem["key"]) for problem in wrong.json()["problems"]] == [(4, "target")]


def test_names_that_are_taken_and_rules_that_are_not_there(api: httpx.Client) -> None:
    """Conflicts are 409 and say with what; missing is 404; a rule from a file can be read, and not written."""
    document = made(api)
    assert api.post("/projects/shop/trace-eval-rules", json=OURS).status_code == 409
    other = made(api, name="other")
    assert api.put(f"/projects/shop/trace-eval-rules/{other['id']}", json=OURS).status_code == 409
    made(api, "bank")
    for place in (
        "shop/trace-eval-rules/nope",
        f"bank/trace-eval-rules/{document['id']}",
        "nowhere/trace-eval-rules/x",
    ):
        for answer in (
            api.get(f"/projects/{place}"),
            api.put(f"/projects/{place}", json=OURS),
            api.delete(f"/projects/{place}"),
        ):
            assert answer.status_code == 404, answer.text
    (of_file,) = [rule for rule in api.get("/projects/shop/trace-eval-rules").json() if rule["origin"] == "FILE"]
    place = f"/projects/shop/trace-eval-rules/{of_file['id']}"
    assert api.get(place).json()["file"] == "file.yaml"
    for answer in (api.put(place, json=of_file), api.delete(place)):
        assert (answer.status_code, "comes from the file file.yaml" in answer.json()["error"]) == (409, True)
    assert api.post("/projects/*/trace-eval-rules", json=OURS | {"name": "of a file"}).status_code == 409


def test_a_deleted_rule_is_gone(api: httpx.Client, server: Running) -> None:
    """A deleted rule is neither listed nor active, and a second delete is 404."""
    document = made(api)
    place = f"/projects/shop/trace-eval-rules/{document['id']}"
    assert document["id"] in {active.rule_id for active in server.pipeline.rules.active()}
    assert api.delete(place).status_code == 204
    assert document["id"] not in {active.rule_id for active in server.pipeline.rules.active()}
    assert [api.get(place).status_code, api.delete(place).status_code] == [404, 404]


def test_a_rule_can_be_tried_before_it_is_in_force(api: httpx.Client, server: Running) -> None:
    """A trial reports the matches and the cost of a rule, or its decisions on one trace, and stores nothing."""
    before = server.pipeline.rules.kept()
    keys = {"name": "a", "evaluator": "tool_error", "conditions": [{"field": "name", "op": "=", "value": "refund"}]}
    window = {"lastSeconds": 3_600 * 24 * 3_000}
    tried = api.post("/projects/shop/trace-eval-rules/test", json=keys, params=window).json()
    assert [(each["decision"], each["count"]) for each in tried["decisions"]] == [("filtered", 1), ("matched", 1)]
    newest = api.post("/projects/shop/trace-eval-rules/test", json=keys, params=window | {"newest": 1}).json()
    assert newest["lookedAt"] < tried["lookedAt"]
    assert newest["windowSeconds"] < tried["windowSeconds"] == window["lastSeconds"]
    assert api.post("/projects/shop/trace-eval-rules/test", json=keys, params={"newest": 0}).status_code == 400
    trace = {"trace": TRACE}
    explained = api.post("/projects/shop/trace-eval-rules/test", json=keys, params=trace).json()
    assert [span["decision"] for span in explained["spans"]] == ["filtered", "matched"]
    elsewhere = api.post("/projects/bank/trace-eval-rules/test", json=keys, params=trace).json()
    assert {span["clause"] for span in elsewhere["spans"]} == {'project = "bank"'}
    assert api.post("/projects/shop/trace-eval-rules/test", json=keys, params={"trace": "f" * 32}).status_code == 404
    assert api.post("/projects/shop/trace-eval-rules/test", json=OURS | {"target": 5}).status_code == 400
    assert server.pipeline.rules.kept() == before


def test_names_are_harmless_on_a_terminal(api: httpx.Client, server: Running) -> None:
    """Control characters of a rule and its project are escaped in output, and unchanged over the API."""
    name, project = "a\x1b[2J\u202eb\n", "p\x07\u2028"
    document = api.post("/projects/p%07%E2%80%A8/trace-eval-rules", json=OURS | {"name": name}).json()
    assert (document["name"], document["project"]) == (name, project)
    shown = run("rules", "list", "--server", server.http).stdout
    assert "a\\x1b[2J\\u202eb\\n" in shown
    assert "\x1b" not in shown
    api.delete(f"/projects/{document['projectId']}/trace-eval-rules/{document['id']}").raise_for_status()


def test_many_at_once_make_one_rule_of_a_name(api: httpx.Client) -> None:
    """Of concurrent requests for one name, one makes the rule and the others are refused."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: api.post("/projects/shop/trace-eval-rules", json=OURS), range(16)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 15


def test_all_rules_are_listed_with_what_they_did_and_what_is_wrong(api: httpx.Client, server: Running) -> None:
    """Decisions and evaluations of the last day, what judges took today, and each problem of a file."""
    document = made(api)
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    old = now - dt.timedelta(hours=25)
    number = document["revision"]
    for outcome, at in ((0, now), (0, now), (1, now), (2, now), (2, old)):
        put(server.store, "decision", revision=number, seq=1, outcome=outcome, clause=1, decided_at=at)
    for job, (outcome_kind, passed) in enumerate((("scored", True), ("scored", False), ("failed", None))):
        more: dict[str, Any] = {
            "revision": number,
            "seq": 1,
            "trace_id": TRACE,
            "outcome": outcome_kind,
            "passed": passed,
        }
        put(server.store, "evaluation", job_id=job, **more, created_at=now)
    call = {"day": now.date(), "rule_id": document["id"], "reserved_tokens": 100, "reserved_usd": 0.5}
    put(server.store, "judge_call", call_id=1, tokens=40, usd=0.25, outcome="answered", **call)
    put(server.store, "judge_call", call_id=2, tokens=0, usd=0.0, outcome="unavailable", **call)
    put(server.store, "judge_call", call_id=3, tokens=100, usd=0.5, outcome="timeout", **call)
    put(server.store, "judge_call", call_id=4, **call)  # under way
    listed = api.get("/trace-eval-rules").json()
    (rule,) = [rule for rule in listed["content"] if rule["id"] == document["id"]]
    assert rule["activity"] == {
        "decisions": {"filtered": 2, "sampled_out": 1, "matched": 1, "undecided": 0},
        "evaluations": {"passed": 1, "not_passed": 1, "failed": 1, "skipped": 0},
        "spentToday": {"calls": 2, "failedCalls": 1, "tokens": 140, "usd": 0.75, "unpricedCalls": 0},
    }
    assert [(problem["file"], problem["line"], problem["key"]) for problem in listed["problems"]] == [
        ("wrong.yaml", 1, "evaluator"),
        ("wrong.yaml", 3, "evaluatr"),
    ]
    shown = run("rules", "list", "--server", server.http).stdout
    assert "1 of 4" in shown
    assert "SKIPPED" in shown
    assert "$0.75, 1 failed call" in " ".join(shown.split())
    assert "wrong.yaml:3: evaluatr: unknown key; did you mean evaluator?" in shown
    assert json.loads(run("rules", "list", "--server", server.http, "--json").stdout) == listed
    only = json.loads(run("rules", "list", "--project", "bank", "--server", server.http, "--json").stdout)
    assert [rule["name"] for rule in only["content"]] == ["of a file"]


def test_a_rule_is_run_over_history(tmp_path: Path) -> None:
    """A run is started over the API and the command line, with its progress; wrong bounds and names are refused."""
    with a_server(tmp_path / "data") as server, a_client() as api:
        api.base_url = httpx.URL(f"http://{server.http}/api/v1")
        document = made(api)
        place = f"/projects/shop/trace-eval-rules/{document['id']}/backfills"
        bounds = {"from": "2026-11-20T00:00:00Z", "to": "2026-11-21T00:00:00+01:00"}
        answer = api.post(place, json=bounds)
        assert answer.status_code == 201, answer.text
        started = answer.json()
        assert (started["from"], started["to"]) == ("2026-11-20T00:00:00.000000000Z", "2026-11-20T23:00:00.000000000Z")
        assert (started["lookedAt"], started["revision"]) == (0, document["revision"])
        one = answer.headers["location"].removeprefix("/api/v1")
        done = until(lambda: api.get(one).json(), lambda run: run["state"] == "done")
        assert api.get(place).json() == [done]
        assert api.delete(one).status_code == 409
        for wrong in (
            {"from": "x"},
            {},
            {"from": "2026-11-20T00:00:00"},
            {"from": "2027-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
        ):
            assert api.post(place, json=wrong).status_code == 400
        assert api.get(f"{place}/nope").status_code == 404
        shown = run("rules", "backfill", "refunds", "--from", "7d", "--server", server.http)
        assert (shown.exit_code, "0 looked at, 0 matched" in shown.stdout) == (0, True), shown.stderr
        assert len(api.get(place).json()) == 2
        made(api, "bank")
        twice = run(
            "rules", "backfill", "refunds", "--from", "2026-11-01", "--to", "2026-11-02", "--server", server.http
        )
        assert (twice.exit_code, "2 rules are called refunds" in twice.stderr) == (1, True)
        named = run("rules", "backfill", "refunds", "--project", "bank", "--from", "1h", "--server", server.http)
        assert named.exit_code == 0
        assert run("rules", "backfill", "nope", "--from", "1h", "--server", server.http).exit_code == 1
        assert run("rules", "backfill", "refunds", "--from", "soon", "--server", server.http).exit_code == 2


def test_a_run_is_followed_to_its_end(tmp_path: Path) -> None:
    """The command line reports the progress of a run until it has ended."""
    with a_server(tmp_path / "data") as server, a_client() as api:
        api.base_url = httpx.URL(f"http://{server.http}/api/v1")
        made(api, "*")
        shown = run("rules", "backfill", "refunds", "--from", "1h", "--follow", "--server", server.http)
        assert shown.exit_code == 0
        assert shown.stdout.splitlines()[-1].endswith("done, 0 looked at, 0 matched")


def test_a_data_directory_lists_its_rules_without_a_server(tmp_path: Path) -> None:
    """The stored rules are listed, and listing does not delete the rules of files."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "a.yaml").write_text(FOLDER_RULE)
    with a_server(tmp_path / "data", rules=folder):
        pass
    for _ in range(2):
        (rule,) = json.loads(run("rules", "list", "--data", tmp_path / "data", "--json").stdout)["content"]
        assert (rule["name"], rule["file"], rule["enabled"]) == ("of a file", "a.yaml", True)
    empty = tmp_path / "empty"
    with a_server(empty):
        pass
    assert "no rules here" in run("rules", "list", "--data", empty).stdout


def test_a_server_that_cannot_write_says_come_again(tmp_path: Path) -> None:
    """While the disk is full a new rule is 503 with a delay, and not active; afterwards it is accepted."""
    with a_server(tmp_path / "data") as server, a_client() as api:
        place = f"http://{server.http}/api/v1/projects/shop/trace-eval-rules"
        with files_no_larger_than(1):
            answer = api.post(place, json=OURS)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5"), answer.text
        assert server.pipeline.rules.active() == ()
        assert api.post(place, json=OURS).status_code == 201
        assert [active.rule.name for active in server.pipeline.rules.active()] == ["refunds"]
