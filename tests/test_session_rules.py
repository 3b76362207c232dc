"""Rules about sessions on a server: the judged sessions, the pages with their results, and dry runs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import a_client, until
from tests.offline import Offline, an_offline_server
from tests.serving import post, run
from tests.test_sessions import TALK, a_message, a_turn

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/children",
    "collector/cli",
    "collector/conventions",
    "collector/evaluation",
    "collector/live",
    "collector/reading",
    "collector/web",
    "evaluators",
    "rules",
    "storage",
)

RULE = {
    "name": "short answers",
    "target": "SESSION",
    "settle": 1,
    "evaluator": "length",
    "config": {"maximumOutputLength": 15},
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield a server with a rule about sessions, one session that passes, and one that does not."""
    settings = {"settle_after_root_seconds": 0.1}
    with an_offline_server(tmp_path_factory.mktemp("session-rules") / "data", **settings) as server:
        server.ask("POST", "projects/shop/trace-eval-rules", 201, json=RULE)
        assert server.running is not None
        for body in (
            *(a_turn(n + 1, "chat/1", TALK[: 2 * n + 2], at_s=10 * n) for n in range(3)),
            a_turn(8, "s 2", [a_message("user", "Hi"), a_message("assistant", "Hello")], at_s=5, user="bob"),
        ):
            post(f"http://{server.running.otlp_http}/v1/traces", body)
        until(lambda: server.sql("SELECT count(*) FROM evaluations"), lambda rows: rows == [[2]])
        yield server


def verdicts(api: Offline, session: str) -> Any:
    """Return the evaluations of a session as a whole."""
    return api.ask("GET", f"sessions/{session}")["evaluations"]


def test_a_session_is_judged_as_a_whole(api: Offline) -> None:
    """Once, over the last answer of all its turns; the verdict stands at the session and at none of its turns."""
    document = api.ask("GET", "sessions/chat/1")
    assert [(one["outcome"], one["passed"], one["rule"]) for one in document["evaluations"]] == [
        ("scored", False, "short answers")
    ]
    assert [turn["evaluations"] for turn in document["turns"]] == [[], [], []]
    assert [(one["decision"], one["rule"]) for one in document["decisions"]] == [("scored", "short answers")]
    assert [one["passed"] for one in verdicts(api, "s 2")] == [True]
    trace = api.ask("GET", f"traces/{3:032x}")
    assert (trace["evaluations"], trace["decisions"]) == ([], [])


def test_results_about_sessions_tell_which(api: Offline) -> None:
    """In SQL, among the jobs, and on the command line, with the latest trace of the session."""
    rows = api.sql("SELECT session_id, trace_id, span_id FROM evaluations WHERE rule = 'short answers' ORDER BY 1")
    assert rows == [["chat/1", f"{3:032x}", None], ["s 2", f"{8:032x}", None]]
    jobs = api.ask("GET", "jobs")["content"]
    assert sorted(job["sessionId"] for job in jobs) == ["chat/1", "s 2"]
    assert "session chat/1" in run("jobs", "list", "--server", api.url).output
    shown = run("sessions", "show", "chat/1", "--server", api.url).output
    assert shown.index("short answers: scored 0") < shown.index("TURN 1")


def test_pages_show_what_was_judged_of_a_session(api: Offline) -> None:
    """Its own page above its turns, and the pages of rules and jobs with a link to it."""
    (rule,) = api.ask("GET", "projects/shop/trace-eval-rules")
    with a_client() as client:
        page = client.get(f"{api.url}/sessions/chat/1").text
        assert page.index("Session verdicts") < page.index("short answers") < page.index("turn-1")
        for path in (f"rules/{rule['id']}", "jobs?state="):
            text = client.get(f"{api.url}/{path}").text
            assert 'href="/sessions/chat%2F1"' in text, path
            assert f"/traces/{3:032x}" not in text, path
        assert "settled after" in client.get(f"{api.url}/rules/{rule['id']}").text


def test_an_example_of_a_session_is_what_was_judged_of_it(api: Offline) -> None:
    """Labelled sessions have the input of their first turn and the output of their last one, not those of a trace."""
    (rule,) = (each for each in api.ask("GET", "projects/shop/trace-eval-rules") if each["name"] == RULE["name"])
    for session in ("chat%2F1", "s%202"):
        api.ask("PUT", f"session-annotation?sessionId={session}", json={"verdict": "INCORRECT", "by": "Ada"})
    examples = api.ask("GET", f"projects/shop/trace-eval-rules/{rule['id']}/labelled-examples")["examples"]
    texts = {each["traceId"]: (each["input"], each["output"]) for each in examples}
    assert texts == {f"{3:032x}": ("Where is my parcel?", "You are welcome."), f"{8:032x}": ("Hi", "Hello")}


def test_a_rule_about_sessions_is_tried_out_before(api: Offline, tmp_path: Path) -> None:
    """The dry run returns the number of sessions it would judge, which, and since when; the form has its fields."""
    tried = api.ask(
        "POST",
        "projects/shop/trace-eval-rules/test",
        json=RULE | {"name": "a draft"},
        params={"lastSeconds": 31_536_000},
    )
    assert (tried["lookedAt"], tried["cost"]["evaluations"]) == (2, 2)
    assert sorted(one["sessionId"] for one in tried["examples"]) == ["chat/1", "s 2"]
    assert {one["traceId"] for one in tried["examples"]} == {f"{3:032x}", f"{8:032x}"}
    file = tmp_path / "rule.yaml"
    file.write_text(json.dumps(RULE | {"name": "a draft"}))
    output = run("rules", "test", str(file), "--last", "365d", "--server", api.url).output
    assert "2 sessions started" in output
    assert "chat/1" in output


def test_a_backfill_judges_sessions_of_the_past(api: Offline) -> None:
    """Each that has a span in the time, once, whatever its traces are; a second run finds nothing to decide."""
    later = RULE | {"name": "later", "config": {"maximumOutputLength": 50}}
    made = api.ask("POST", "projects/shop/trace-eval-rules", 201, json=later)
    path = f"projects/shop/trace-eval-rules/{made['id']}/backfills"
    body = {"from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    for decided in (2, 0):
        api.ask("POST", path, 201, json=body)
        until(lambda: api.ask("GET", path)[0], lambda backfill: backfill["state"] == "done")
        assert api.ask("GET", path)[0]["lookedAt"] == decided
    until(lambda: verdicts(api, "chat/1"), lambda judged: sorted(one["passed"] for one in judged) == [False, True])
    assert api.sql("SELECT count(*) FROM evaluations WHERE rule = 'later'") == [[2]]
