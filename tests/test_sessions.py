"""Sessions over HTTP and on the command line: lists, filters, conversations, and who sees them."""

import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from storage.query import sessions
from tests.live import a_client, until
from tests.offline import Offline, an_offline_server
from tests.serving import START_NS, an_export, post, run

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/cli",
    "collector/conventions",
    "collector/conversation.py",
    "collector/reading",
    "collector/web",
    "storage",
)

S = 1_000_000_000


def a_message(role: str, text: str) -> dict[str, Any]:
    """Return a message with one text."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def a_turn(number: int, session: str, messages: Sequence[dict[str, Any]], *, at_s: int, user: str = "ann") -> bytes:
    """Build a trace of a root and a model call, which gets these messages and answers with the last one."""
    export = an_export(f"{number:032x}", "ask", "chat", at_s=at_s)
    root, call = export.resource_spans[0].scope_spans[0].spans
    for span in (root, call):
        del span.attributes[:]
    root.attributes.add(key="session.id").value.string_value = session
    root.attributes.add(key="user.id").value.string_value = user
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(messages[:-1]),
        "gen_ai.output.messages": json.dumps(messages[-1:]),
    }
    for key, text in attributes.items():
        call.attributes.add(key=key).value.string_value = text
    call.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 7
    call.attributes.add(key="gen_ai.usage.cost").value.double_value = 0.25
    return export.SerializeToString()


TALK = [
    a_message("user", "Where is my parcel?"),
    a_message("assistant", "In Oslo."),
    a_message("user", "And 100% sure?"),
    a_message("assistant", "Yes."),
    a_message("user", "Thanks"),
    a_message("assistant", "You are welcome."),
]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield a server with a session of three turns, whose id has a slash, and two of one turn."""
    with an_offline_server(tmp_path_factory.mktemp("sessions") / "data") as server:
        assert server.running is not None
        for body in (
            *(a_turn(n + 1, "chat/1", TALK[: 2 * n + 2], at_s=10 * n) for n in range(3)),
            a_turn(8, "s 2", [a_message("user", "Hi"), a_message("assistant", "Hello")], at_s=5, user="bob"),
            a_turn(9, "s 3", [a_message("user", "ÄPFEL?"), a_message("assistant", "No")], at_s=6),
        ):
            post(f"http://{server.running.otlp_http}/v1/traces", body)
        until(lambda: sum(each["traceCount"] for each in ids(server)), lambda count: count == 5)
        yield server


def ids(api: Offline, **params: Any) -> Any:
    """Return the sessions of an answer."""
    return api.ask("GET", "sessions", params=params)["content"]


def named(api: Offline, **params: Any) -> list[str]:
    """Return the ids of the sessions of an answer."""
    return [each["sessionId"] for each in ids(api, **params)]


def test_sessions_are_listed_by_their_latest_trace(api: Offline) -> None:
    """Sessions are listed newest first, with the sums of their traces, a page at a time."""
    assert named(api) == ["chat/1", "s 3", "s 2"]
    first = ids(api)[0]
    assert (first["traceCount"], first["spanCount"], first["inputTokens"], first["costUsd"]) == (3, 6, 21, 0.75)
    assert (first["userId"], first["projects"], first["firstInput"]) == ("ann", ["shop"], "Where is my parcel?")
    assert first["durationMs"] >= 20_000
    page = api.ask("GET", "sessions", params={"size": 2})
    assert [each["sessionId"] for each in page["content"]] == ["chat/1", "s 3"]
    rest = api.ask("GET", "sessions", params={"size": 2, "before": page["next"]})
    assert ([each["sessionId"] for each in rest["content"]], rest["next"]) == (["s 2"], None)


def test_sessions_are_found_by_what_one_trace_of_them_has(api: Offline) -> None:
    """Text in any case of letters, the user, the project and the time; a percent sign is a percent sign."""
    assert named(api, text="PARCEL") == ["chat/1"]
    assert named(api, text="äpfel") == ["s 3"]
    assert named(api, text="100% s") == ["chat/1"]
    assert named(api, text="1%0") == []
    assert named(api, user="bob") == ["s 2"]
    assert named(api, project="shop", user="ann") == ["chat/1", "s 3"]
    assert named(api, project="other") == []
    assert named(api, user="bob", text="parcel") == []
    start = api.ask("GET", "sessions/s 3")["startTime"]
    assert named(api, **{"from": start}) == ["chat/1", "s 3"]
    assert named(api, to=start) == ["chat/1", "s 2"]


@pytest.mark.costly("collector/api/traces", "storage")
@pytest.mark.parametrize("newest", [1, 4, 9, 1_000])
def test_sessions_of_a_project_are_found_whatever_else_is_newer(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, newest: int
) -> None:
    """Page by page, as a list in Python has them, though only the newest traces are looked at first."""
    monkeypatch.setattr(sessions, "_NEWEST_TRACES", newest)
    draw = random.Random(newest)
    made = [
        (number, f"s{draw.randrange(9)}", draw.choice(["shop", "farm"]), draw.randrange(12)) for number in range(40)
    ]
    with an_offline_server(tmp_path_factory.mktemp("projects") / "data") as server:
        assert server.running is not None
        for number, session, project, at_s in made:
            export = an_export(f"{number + 1:032x}", "ask", project=project, at_s=at_s)
            span = export.resource_spans[0].scope_spans[0].spans[0]
            span.attributes.add(key="session.id").value.string_value = session
            post(f"http://{server.running.otlp_http}/v1/traces", export.SerializeToString())
        until(lambda: sum(each["traceCount"] for each in ids(server, size=100)), lambda count: count == len(made))
        latest = {session: max(at_s for _, other, _, at_s in made if other == session) for _, session, _, _ in made}
        for project in ("shop", "farm", "none"):
            own = {session for _, session, other, _ in made if other == project}
            expected = sorted(own, key=lambda session: (-latest[session], session))
            listed, place = list[str](), dict[str, str]()
            while True:
                page = server.ask("GET", "sessions", params={"project": project, "size": 2, **place})
                listed += [each["sessionId"] for each in page["content"]]
                if page["next"] is None:
                    break
                place = {"before": page["next"]}
            assert listed == expected


def test_a_text_is_looked_for_in_the_newest_traces(api: Offline) -> None:
    """The search covers the requested number of traces, returns the start of the oldest, and continues before that."""
    assert api.ask("GET", "sessions", params={"text": "parcel", "newest": 5})["searchedTo"] is not None
    assert api.ask("GET", "sessions", params={"text": "parcel", "newest": 6})["searchedTo"] is None
    first = api.ask("GET", "sessions", params={"text": "hello", "newest": 2})
    assert (first["content"], first["next"]) == ([], None)
    rest = api.ask("GET", "sessions", params={"text": "hello", "newest": 5, "to": first["searchedTo"]})
    assert [each["sessionId"] for each in rest["content"]] == ["s 2"]
    assert api.ask("GET", "sessions", params={"newest": 1})["searchedTo"] is None


def test_a_session_is_one_conversation(api: Offline) -> None:
    """Each message stands at its first turn, and the running cost ends at the total."""
    document = api.ask("GET", "sessions/chat/1")
    turns = document["turns"]
    texts = [[message["parts"][0]["content"] for message in turn["messages"]] for turn in turns]
    assert texts == [[m["parts"][0]["content"] for m in TALK[at : at + 2]] for at in (0, 2, 4)]
    assert [turn["number"] for turn in turns] == [1, 2, 3]
    assert [turn["traceId"] for turn in turns] == [f"{n:032x}" for n in (1, 2, 3)]
    assert [turn["costSoFarUsd"] for turn in turns] == [0.25, 0.5, 0.75]
    assert (document["earlier"], document["truncated"]) == (None, False)


def test_turns_come_in_pages_from_the_latest_on(api: Offline) -> None:
    """Earlier turns follow by `earlier`; numbers and cost are those among all turns."""
    latest = api.ask("GET", "sessions/chat/1", params={"size": 2})
    assert [(turn["number"], turn["costSoFarUsd"]) for turn in latest["turns"]] == [(2, 0.5), (3, 0.75)]
    earlier = api.ask("GET", "sessions/chat/1", params={"size": 2, "before": latest["earlier"]})
    assert [(turn["number"], turn["costSoFarUsd"]) for turn in earlier["turns"]] == [(1, 0.25)]
    assert earlier["earlier"] is None


def test_what_is_no_session_is_told(api: Offline) -> None:
    """A missing session is 404, and an invalid position is 400."""
    api.ask("GET", "sessions/nowhere", 404)
    api.ask("GET", "sessions", 400, params={"before": "x"})
    api.ask("GET", "sessions", 400, params={"before": "1"})
    api.ask("GET", "sessions/chat/1", 400, params={"before": "1/2"})
    assert "to:" in str(api.ask("GET", "sessions", 400, params={"to": "yesterday"}))


def test_a_session_is_closed_when_nothing_comes_and_open_again_when_something_does(tmp_path: Path) -> None:
    """The time is that of its last span, and the setting says how long is idle."""
    with an_offline_server(tmp_path / "data", session_idle_seconds=60) as server:
        assert server.running is not None
        door = f"http://{server.running.otlp_http}/v1/traces"

        def states() -> list[str]:
            return [each["state"] for each in ids(server)]

        since_s = (time.time_ns() - START_NS) // S
        post(door, a_turn(1, "s", TALK[:2], at_s=since_s - 3_600))
        until(states, lambda shown: shown == ["closed"])
        post(door, a_turn(2, "s", TALK[:4], at_s=since_s))
        until(states, lambda shown: shown == ["open"])
        assert server.ask("GET", "sessions/s")["state"] == "open"


def test_the_command_line_lists_sessions_and_shows_one(api: Offline) -> None:
    """Sessions are listed as a table and as JSON, and one is shown turn by turn, with the way to its earlier turns."""
    where = ("--server", api.url)
    listed = run("sessions", "list", "--user", "ann", *where)
    assert (listed.exit_code, "chat/1" in listed.output, "s 2" in listed.output) == (0, True, False)
    assert [each["sessionId"] for each in json.loads(run("sessions", "list", "--json", *where).output)] == named(api)
    assert run("sessions", "list", "--text", "nowhere", *where).output == "no sessions here\n"
    shown = run("sessions", "show", "chat/1", "--turns", "2", *where).output
    assert "TURN 2" in shown
    assert "And 100% sure?" in shown
    assert "Where is my parcel?" not in shown
    place = api.ask("GET", "sessions/chat/1", params={"size": 2})["earlier"]
    assert f"--before {place}" in shown
    assert "Where is my parcel?" in run("sessions", "show", "chat/1", "--before", place, *where).output
    assert run("sessions", "show", "nowhere", *where).exit_code == 1


def test_pages_list_sessions_and_show_one(api: Offline) -> None:
    """The list has filters and links to the conversation, which links to its traces; a missing session is reported."""
    with a_client() as client:
        page = client.get(f"{api.url}/sessions", params={"text": "parcel"}).text
        assert 'href="/sessions/chat%2F1"' in page
        assert "s 2" not in page
        shown = client.get(f"{api.url}/sessions/chat/1").text
        assert shown.count("Where is my parcel?") == 1
        assert f'href="/traces/{1:032x}"' in shown
        assert client.get(f"{api.url}/sessions/nowhere").status_code == 404
        assert client.get(f"{api.url}/sessions?before=x").status_code == 400
        assert "/sessions/chat%2F1" in client.get(f"{api.url}/traces/{1:032x}").text
