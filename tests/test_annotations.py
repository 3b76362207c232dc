"""Annotations by people, applications and their users: stored, kept, shown, promoted and erased."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.access import a_closed_server
from tests.live import until
from tests.offline import Offline, an_offline_server
from tests.paging import Visit
from tests.serving import an_export, post, run
from tests.test_deletions import marks_in

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/cli",
    "collector/conventions",
    "collector/datasets",
    "collector/evaluation",
    "collector/experiments",
    "collector/live",
    "collector/reading",
    "collector/web",
    "storage",
)

TRACE, OTHER, THIRD = "a1" * 16, "b2" * 16, "c3" * 16
SPAN = f"{2:016x}"
SESSIONS = "SELECT count(DISTINCT session_id) FROM traces"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield one server for all, with three traces."""
    with an_offline_server(tmp_path_factory.mktemp("annotations") / "data") as server:
        assert server.running is not None
        for at_s, trace in enumerate((TRACE, OTHER, THIRD)):
            request = an_export(trace, "root", "step", at_s=at_s)
            for span in request.resource_spans[0].scope_spans[0].spans:
                span.attributes.add(key="session.id").value.string_value = f"session of {trace[:2]}"
            post(f"http://{server.running.otlp_http}/v1/traces", request.SerializeToString())
        until(lambda: server.sql(SESSIONS), lambda rows: rows == [[3]])
        yield server


def annotations_of(api: Offline, **params: object) -> list[dict[str, Any]]:
    """List annotations, latest first."""
    annotations: list[dict[str, Any]] = api.ask("GET", "annotations", params=params)
    return annotations


def test_a_changed_vote_keeps_the_one_before_it(api: Offline) -> None:
    """The last vote of an author counts, those before stay in the history, and the same vote twice is one."""
    path = f"traces/{TRACE}/annotation"
    api.ask("GET", path, 404)
    api.ask("PUT", path, json={"verdict": "UNSURE", "by": "Ada"})
    voted = api.ask("PUT", path, json={"verdict": "INCORRECT", "note": "wrong sum", "by": "Ada"})
    assert (voted["verdict"], voted["author"], voted["passed"], voted["projectName"]) == (
        "INCORRECT",
        "Ada",
        False,
        "shop",
    )
    api.ask("PUT", path, json={"verdict": "INCORRECT", "note": "wrong sum", "by": "Ada"})
    counting = annotations_of(api, traceId=TRACE, name="verdict")
    assert [(each["verdict"], each["note"]) for each in counting] == [("INCORRECT", "wrong sum")]
    history = annotations_of(api, traceId=TRACE, name="verdict", history=True)
    assert [(each["verdict"], each["superseded"]) for each in history] == [("INCORRECT", False), ("UNSURE", True)]


def test_several_people_vote_and_an_adjudicator_decides(api: Offline) -> None:
    """Each author has a vote of his own, and what an adjudicator says stands above later votes."""
    path = f"traces/{OTHER}/annotation?spanId={SPAN}"
    for name, verdict in (("Ada", "CORRECT"), ("Bob", "INCORRECT")):
        api.ask("PUT", path, json={"verdict": verdict, "by": name})
    assert api.ask("GET", path)["verdict"] == "INCORRECT"
    api.ask("PUT", path, json={"verdict": "CORRECT", "adjudicates": True, "by": "Eve"})
    api.ask("PUT", path, json={"verdict": "UNSURE", "by": "Bob"})
    assert (api.ask("GET", path)["verdict"], api.ask("GET", path)["source"]) == ("CORRECT", "adjudicator")
    assert len(annotations_of(api, traceId=OTHER, spanId=SPAN)) == 3
    api.ask("GET", f"traces/{OTHER}/annotation", 404)


def test_a_vote_is_taken_back_and_may_be_given_again(api: Offline) -> None:
    """Deleting an annotation is idempotent, leaves the history, and the next vote counts."""
    path = f"traces/{OTHER}/annotation"
    for _ in range(2):
        api.ask("DELETE", path, 204)
    api.ask("PUT", path, json={"verdict": "CORRECT"})
    for _ in range(2):
        api.ask("DELETE", path, 204)
    api.ask("GET", path, 404)
    assert api.ask("PUT", path, json={"verdict": "CORRECT"})["author"] == "anonymous"
    history = [each for each in annotations_of(api, traceId=OTHER, history=True) if each["target"] == "trace"]
    assert [each["withdrawn"] for each in history] == [False, True, False]
    api.ask("PUT", path, json={"verdict": "CORRECT", "by": "Zoe"})
    api.ask("DELETE", f"{path}?by=Zoe", 204)
    left = [each["author"] for each in annotations_of(api, traceId=OTHER) if each["target"] == "trace"]
    assert left == ["anonymous"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"note": "no answer"},
        {"verdict": "MAYBE"},
        {"verdict": "CORRECT", "label": "good"},
        {"score": "NaN"},
        {"verdict": "CORRECT", "note": "x" * 10_001},
    ],
)
def test_what_is_no_vote_is_refused(api: Offline, body: dict[str, object]) -> None:
    """A vote has one answer within the limits."""
    api.ask("PUT", f"traces/{TRACE}/annotation", 400, json=body)


def test_votes_are_about_what_is_there(api: Offline) -> None:
    """A trace, span or item that is not stored cannot be voted on."""
    vote = {"verdict": "CORRECT"}
    api.ask("PUT", f"traces/{'0' * 32}/annotation", 404, json=vote)
    api.ask("PUT", f"traces/{TRACE}/annotation?spanId={'f' * 16}", 404, json=vote)
    run_id = api.begin()
    api.ask("PUT", f"runs/{run_id}/items/77/annotation", 404, json=vote)


def test_applications_and_their_users_score(api: Offline) -> None:
    """Thumbs and scores of any name are stored once, even before their trace, and returned with their types."""
    thumb = {"traceId": TRACE, "name": "helpful", "label": "up", "source": "user", "author": "user-7"}
    number = {"traceId": "9" * 32, "name": "similarity", "score": 0.25, "comment": "by a script"}
    session = {"sessionId": f"session of {THIRD[:2]}", "name": "solved", "label": "no", "source": "user"}
    assert api.ask("POST", "scores", 201, json={"scores": [thumb, number, session]}) == {
        "tenant": "",
        "stored": 3,
        "unchanged": 0,
    }
    assert api.ask("POST", "scores", 201, json={"scores": [thumb]}) == {"tenant": "", "stored": 0, "unchanged": 1}
    rows = api.sql(
        "SELECT name, target, label, score, passed, source, author, project FROM annotations "
        "WHERE name IN ('helpful', 'similarity', 'solved') ORDER BY name"
    )
    assert rows == [
        ["helpful", "trace", "up", None, True, "user", "user-7", "shop"],
        ["similarity", "trace", None, 0.25, None, "application", "anonymous", None],
        ["solved", "session", "no", None, False, "user", "anonymous", "shop"],
    ]
    for wrong in (
        {"name": "helpful", "label": "up"},
        {"traceId": TRACE, "name": "empty"},
        {"traceId": TRACE, "sessionId": "s", "name": "two", "score": 1},
    ):
        api.ask("POST", "scores", 400, json={"scores": [thumb | {"author": "user-8"}, wrong]})
    assert annotations_of(api, traceId=TRACE, name="empty") == []
    assert [each["author"] for each in annotations_of(api, traceId=TRACE, name="helpful")] == ["user-7"], (
        "all or nothing"
    )
    api.ask("POST", "scores", 404, json={"scores": [{"sessionId": "unheard of", "name": "solved", "label": "no"}]})


def test_an_item_of_a_run_is_voted_on_and_promoted_with_its_correction(api: Offline) -> None:
    """The seeds' way: an item, an annotation with the right answer, and a promotion that takes it over."""
    run_id = api.begin()
    failing = {"name": "exact", "score": 0, "threshold": 1}
    item = {"inputs": {"q": "2+2?"}, "expectedOutputs": {"output": "5"}, "actualOutputs": {"output": "3"}}
    api.report(run_id, {"itemKey": "sum", **item, "evalResults": [failing]})
    number = api.sql(f"SELECT item_number FROM run_items WHERE run_id = '{run_id}'")[0][0]
    path = f"runs/{run_id}/items/{number}/annotation"
    vote = {"verdict": "INCORRECT", "overriddenExpectedOutput": {"output": "4"}, "note": "it is 4"}
    assert api.ask("PUT", path, json=vote)["overriddenExpectedOutput"] == {"output": "4"}
    api.dataset()
    api.ask("POST", "datasets/promote", 201, json={"datasetName": "qa", "items": [{"itemResultId": str(number)}]})
    assert [each["expectedOutputs"] for each in api.items()] == [{"output": "4"}]
    overruled = {"verdict": "CORRECT", "by": "Eve", "adjudicates": True}
    for name, expected in (("agreed", "4"), ("overruled", "5")):
        api.ask("PUT", path, json={"verdict": "INCORRECT", "by": "Bob"} if name == "agreed" else overruled)
        api.dataset(name)
        item_of = {"datasetName": name, "items": [{"itemResultId": str(number)}]}
        api.ask("POST", "datasets/promote", 201, json=item_of)
        assert [each["expectedOutputs"] for each in api.items(name)] == [{"output": expected}]
    api.end(run_id)
    api.ask("DELETE", f"runs/{run_id}", 204)
    assert api.sql(f"SELECT count(*) FROM annotation WHERE run_id = '{run_id}'") == [[0]]


def test_the_page_takes_votes_and_the_form_of_promotion_has_the_correction(api: Offline) -> None:
    """A vote on the page of a trace is stored, shown beside its span, and offered when the trace is promoted."""
    with Visit(api.url) as visit:
        page = f"/traces/{THIRD}"
        fields = {"about": "trace", "tenant": "", "span": f"{1:016x}", "expected": "a polite no"}
        sent = visit.send(page, f"{page}/annotate", verdict="INCORRECT", note="<b>rude</b>", **fields)
        assert sent.status_code == 303, sent.text
        shown = visit.get(page).text
        assert "INCORRECT" in shown
        assert "&lt;b&gt;rude&lt;/b&gt;" in shown
        form = visit.get(f"{page}/promote").text
        assert "a polite no</textarea>" in form
        assert visit.send(page, f"{page}/annotate", verdict="PERHAPS", **fields).status_code == 400
        visit.send(page, f"{page}/annotate", verdict="none", **fields)
        assert "INCORRECT" not in visit.get(page).text.partition('id="votes"')[2].partition("<form")[0]


def test_the_command_line_votes_and_lists(api: Offline) -> None:
    """Votes made on the command line are listed there, with their history on request."""
    for verdict in ("unsure", "correct"):
        voted = run("annotations", "add", THIRD, verdict, "--name", "tone", "--note", "calm", "--server", api.url)
        assert voted.exit_code == 0, voted.output
    listed = run("annotations", "list", "--trace", THIRD, "--name", "tone", "--server", api.url).output
    assert "CORRECT" in listed
    assert "UNSURE" not in listed
    history = run("annotations", "list", "--trace", THIRD, "--name", "tone", "--history", "--server", api.url)
    assert "UNSURE (superseded)" in history.output


def test_who_may_vote_and_who_may_score(tmp_path: Path) -> None:
    """The key is the author; the key of an application scores and reads nothing, and a reader's key cannot score."""
    with a_closed_server(tmp_path / "data") as server:
        scores = {"scores": [{"traceId": TRACE, "name": "helpful", "label": "down", "source": "user"}]}
        assert server.ask("POST", "/api/v1/scores", key=server.keys["ingest"], json=scores).status_code == 201
        assert server.ask("POST", "/api/v1/scores", key=server.keys["viewer"], json=scores).status_code == 403
        assert server.ask("GET", "/api/v1/annotations", key=server.keys["ingest"]).status_code == 403
        (thumb,) = server.ask("GET", "/api/v1/annotations", key=server.keys["viewer"]).json()
        assert thumb["author"] == "ingest"
        assert server.ask("GET", "/api/v1/annotations", key=server.keys["viewer of acme"]).json() == [thumb]
        of_acme = server.ask("POST", "/api/v1/scores", key=server.keys["ingest of acme"], json=scores)
        assert of_acme.json() == {"tenant": "acme", "stored": 1, "unchanged": 0}
        seen = server.ask("GET", "/api/v1/annotations", key=server.keys["viewer of other"]).json()
        assert [each["tenant"] for each in seen] == [""]


@pytest.mark.costly(
    "collector/conventions",
    "collector/datasets",
    "collector/evaluation",
    "collector/experiments",
    "collector/live/upkeep",
    "collector/reading",
    "storage",
)
def test_what_was_said_leaves_with_its_trace_and_from_the_disk(tmp_path: Path) -> None:
    """After a deletion by session nothing of a note, a correction or a comment is in any file."""
    marks = ["zebra crossing of notes", "zebra crossing of corrections", "zebra crossing of comments"]
    data = tmp_path / "data"
    with an_offline_server(data) as api:
        assert api.running is not None
        request = an_export(TRACE, "root")
        span = request.resource_spans[0].scope_spans[0].spans[0]
        span.attributes.add(key="session.id").value.string_value = "the session"
        post(f"http://{api.running.otlp_http}/v1/traces", request.SerializeToString())
        post(f"http://{api.running.otlp_http}/v1/traces", an_export(OTHER, "root").SerializeToString())
        until(lambda: api.sql(SESSIONS.replace(" FROM", ", count(*) FROM")), lambda rows: rows == [[1, 2]])
        vote = {"verdict": "INCORRECT", "note": marks[0], "overriddenExpectedOutput": marks[1]}
        api.ask("PUT", f"traces/{TRACE}/annotation", json=vote)
        api.ask("PUT", f"traces/{OTHER}/annotation", json={"verdict": "CORRECT", "note": "stays"})
        thumb = {"sessionId": "the session", "name": "helpful", "label": "down", "comment": marks[2]}
        api.ask("POST", "scores", 201, json={"scores": [thumb]})
        assert marks_in(data, marks) == set(marks), "else looking for them proves nothing"
        deleted = api.answer("DELETE", "traces", params={"sessionId": "the session"})
        assert deleted.status_code in {200, 202}, deleted.text
        done = "SELECT count(*) FROM deletion WHERE state <> 'done'"
        until(lambda: api.sql(done), lambda rows: rows == [[0]])
        assert [each["note"] for each in annotations_of(api)] == ["stays"]
        assert marks_in(data, marks) == set()


def test_scores_of_traces_that_never_came_leave_in_the_end(tmp_path: Path) -> None:
    """A sweep three months later deletes scores of a missing trace, and keeps the others."""
    with an_offline_server(tmp_path / "data") as api:
        assert api.running is not None
        post(f"http://{api.running.otlp_http}/v1/traces", an_export(TRACE, "root").SerializeToString())
        until(lambda: api.ask("GET", "traces")["content"], lambda traces: len(traces) == 1)
        api.ask("POST", f"traces/{TRACE}/pin")
        scores = [{"traceId": trace, "name": "helpful", "label": "up"} for trace in (TRACE, OTHER)]
        api.ask("POST", "scores", 201, json={"scores": scores})
        retention, now_us = api.running.store.retention, time.time_ns() // 1000
        retention.sweep(now_us=now_us)
        assert len(annotations_of(api)) == 2
        retention.sweep(now_us=now_us + 100 * 86_400 * 10**6)
        assert [each["traceId"] for each in annotations_of(api)] == [TRACE]
