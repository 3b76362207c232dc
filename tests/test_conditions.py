"""Lasting states: reported once when they begin and once when they are over, in the log and all operators' views."""

import json
import logging
import random
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from collector.conditions import CANNOT_COMMIT, ServerCondition, ServerConditions
from collector.ingest import Ingest
from collector.meters import Traffic
from collector.otlp.decode import Request, decode
from collector.server_conditions import ServerState, _disk_full, server_conditions
from storage import sql
from storage.errors import Busy
from storage.store import Store
from tests import storing
from tests.disks import small_disks
from tests.live import Live, a_live_server, until
from tests.serving import run
from tests.storing import a_store, commit
from tests.traffic import DOORS, Load, a_batch

MIB = 1 << 20


def condition_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines about conditions."""
    return [record.getMessage() for record in caplog.records if record.name == "collector.conditions"]


def lines(server: Live, name: str) -> list[str]:
    """Return the lines of a server's log about a condition."""
    return [line.partition("collector.conditions: ")[2] for line in server.log.splitlines() if f" {name}" in line]


def begun_and_over(server: Live, name: str) -> None:
    """Wait until the log has one line about its beginning, one about its end, and nothing else of it."""
    first, last = until(lambda: lines(server, name), lambda logged: len(logged) > 1)
    assert first.startswith(f"{name}: ")
    assert last.startswith(f"{name} is over after ")


def test_a_condition_is_told_once_when_it_begins_and_once_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    """However often it is checked, a condition is reported once when it begins and ends, for each subject."""
    standing_now: dict[str, str] = {}
    conditions = ServerConditions([ServerCondition(name="bad", look=lambda: dict(standing_now))])
    conditions.look(0)
    standing_now |= {"a": "a is bad", "b": "b is bad"}
    for second in range(1, 5):
        conditions.look(second)
    assert (conditions.counts, conditions.holds("bad")) == ({"bad": 2}, True)
    standing_now["a"] = "a is worse"
    conditions.look(5)
    del standing_now["a"]
    for second in range(6, 9):
        conditions.look(second)
    assert [(each.about, each.message) for each in conditions.lasting] == [("b", "b is bad")]
    assert condition_lines(caplog) == ["bad: a is bad", "bad: b is bad", "bad is over after 5 s; it was: a is worse"]


def test_what_comes_and_goes_is_one_condition(caplog: pytest.LogCaptureFixture) -> None:
    """A pause that is too short does not end a condition, and one that passes too soon is not reported."""
    holds = iter([True, False, False, True, True, False, True, False, False, False])
    look = ServerCondition(
        name="bad", look=lambda: {"": "it is"} if next(holds) else {}, begins_after_s=1, ends_after_s=2
    )
    conditions = ServerConditions([look])
    held = []
    for second in range(10):
        conditions.look(second)
        held.append(conditions.holds("bad"))
    assert held == [False, False, False, False, True, True, True, True, False, False]
    assert condition_lines(caplog) == ["bad: it is", "bad is over after 5 s; it was: it is"]


def test_what_cannot_be_looked_at_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """A check that fails is reported like a condition, and is repeated only at intervals."""

    def broken() -> Mapping[str, str]:
        raise ValueError("no database")

    conditions = ServerConditions(
        [
            ServerCondition(name="first", look=broken, every_s=10),
            ServerCondition(name="second", look=lambda: {"": "it holds"}),
        ]
    )
    for second in range(3):
        conditions.look(second)
    assert condition_lines(caplog) == ["first: its check failed: ValueError: no database", "second: it holds"]


def watching(store: Store, *, stuck_s: float = 30.0) -> ServerConditions:
    """Watch the conditions of a store without rules."""
    return ServerConditions(
        server_conditions(
            ServerState(
                store=store,
                ingest=Ingest(store, queue_bytes=1 << 20),
                traffic=Traffic(),
                rules=tuple,
                judge_problem=lambda _: None,
                stuck_s=stuck_s,
            )
        )
    )


def test_matching_that_is_far_behind_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once the first span that is not matched has waited for more than a minute, until none does."""
    with a_store(tmp_path) as store:
        conditions = watching(store)
        conditions.look(0)
        old_us = int((time.time() - 700) * 1e6)
        commit(store, decode([Request(body=storing.an_export(3).SerializeToString())], received_at_us=old_us).batch)
        time.sleep(0.6)  # the state of the store is cached for half a second
        conditions.look(20)
        state = store.matching.state()
        store._writer.store(lambda cursor: cursor.execute("UPDATE matching_state SET seq = 9000000000"), 1)
        assert state.seq == -1
        time.sleep(0.6)
        conditions.look(40)
        conditions.look(60)
    first, last = condition_lines(caplog)
    assert first.startswith("matching_behind: 3 spans wait to be matched, the first of them for 11 min 4")
    assert last.startswith("matching_behind is over after 20 s")


def test_a_writer_that_is_stuck_cannot_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One attempt that does not end makes the server unready, and one that ends makes it ready again."""
    with a_store(tmp_path) as store:
        conditions = watching(store, stuck_s=0.2)
        conditions.look(0)
        stuck = store._writer.ask(lambda _: time.sleep(1.5), 0)
        until(lambda: store.writing_s, lambda seconds: seconds is not None and seconds > 0.2)
        for second in (10, 16):
            conditions.look(second)
        assert conditions.holds(CANNOT_COMMIT)
        stuck.result(30)
        until(lambda: store.writing_s, lambda seconds: seconds is None)
        conditions.look(20)
        assert not conditions.holds(CANNOT_COMMIT)
    assert condition_lines(caplog)[0] == "cannot_commit: one transaction has been under way for more than 0.2 s"


def test_a_backup_and_a_schema_step_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are logged when they begin and when they are done, and schema steps only for an existing database."""
    caplog.set_level(logging.INFO)
    with a_store(tmp_path) as store:
        assert not [line for line in caplog.messages if "schema step" in line]
        with (tmp_path / "copy").open("w+b") as copy:
            store.backup(copy)
    steps = [*sql.migrations(), (4711, "next", "SELECT 1")]
    monkeypatch.setattr(sql, "migrations", lambda: steps)
    with a_store(tmp_path):
        pass
    work = [line.partition(" after ")[0] for line in caplog.messages if line.startswith(("a backup", "schema step"))]
    step = "schema step 4711 (next)"
    assert work == ["a backup begins", "a backup is done", f"{step} begins", f"{step} is done"]


def ready(server: Live) -> tuple[int, str]:
    """Query readiness: status and text."""
    answer = server.client.get(f"{server.http}/ready")
    return answer.status_code, answer.json()["status"]


def standing(server: Live) -> list[str]:
    """Return the names of the conditions that last, as `tracejury status` shows them."""
    document = json.loads(run("status", "--json", "--server", server.http).stdout)
    return [each["name"] for each in document["server"]["conditions"]]


@pytest.mark.costly(
    "collector/conditions.py",
    "collector/listeners",
    "collector/ingest.py",
    "collector/server_conditions.py",
    "storage/ingest",
)
def test_a_server_that_is_overloaded_is_ready(tmp_path: Path, seed: int) -> None:
    """While it refuses spans for some seconds it says that it is ready, and the log has two lines about it."""
    env = {"TRACEJURY_BACKLOG_BYTES": 1024, "TRACEJURY_COMMIT_INTERVAL_MS": 1000}
    with a_live_server(tmp_path / "data", env=env) as server:
        with Load(server, seed, spans=20) as load:
            assert until(lambda: standing(server), lambda conditions: conditions != []) == ["turned_away"]
            assert "turned_away since" in run("status", "--server", server.http).stdout
            assert ready(server) == (200, "ready")
            load.stop()
        begun_and_over(server, "turned_away")


def test_a_server_that_cannot_commit_is_not_ready(tmp_path: Path, seed: int) -> None:
    """While its disk is full it says so after some seconds, in the log, in the numbers and to load balancers."""
    disk = tmp_path / "disk"
    env = {"TRACEJURY_BACKLOG_BYTES": 4 * MIB}
    source = random.Random(seed)
    with (
        small_disks({disk: 160 * MIB}) as disks,
        a_live_server(disk / "data", env=env, before=disks.inside) as server,
        DOORS["HTTP"](server) as send,
    ):
        assert send(a_batch(source, 10).body).kind == "taken"
        disks.fill(disk)
        assert send(a_batch(source, 10).body).kind == "later"
        assert ready(server) == (200, "ready")
        until(lambda: ready(server), lambda seen: seen == (503, "failing"))
        numbers = server.client.get(f"{server.http}/metrics").text
        assert 'tracejury_conditions{name="cannot_commit"} 1.0' in numbers
        disks.give_back(disk)
        until(lambda: ready(server), lambda seen: seen == (200, "ready"))
        for name in ("disk_full", CANNOT_COMMIT, "turned_away"):
            begun_and_over(server, name)


RULE = "name: helpful\ncriteria: It helps.\nconnectionId: main\nconditions: [{field: span_type, op: '=', value: llm}]\n"


def shown(server: Live) -> Sequence[str]:
    """Collect what operators see of the rules: list and status in the terminal, and three pages."""
    commands = [run(*command, "--server", server.http).stdout for command in (("rules", "list"), ("status",))]
    (rule,) = server.client.get(f"{server.http}/api/v1/trace-eval-rules").json()["content"]
    paths = ("/status", "/rules", f"/rules/{rule['id']}")
    return [*commands, *(server.client.get(server.http + path).text for path in paths)]


def test_a_rule_whose_judge_has_no_key_is_shown_as_what_it_is(tmp_path: Path) -> None:
    """In the lists, the status, the pages, the numbers and the log, until its connection has a key."""
    url = "http://127.0.0.1:9/v1"
    connection = {"name": "main", "baseUrl": url, "model": "m", "credentialRef": "NO_SUCH_KEY"}
    with a_live_server(tmp_path / "data", env={"SUCH_A_KEY": "sk-1"}) as server:
        made = server.client.post(f"{server.http}/api/v1/llm-connections", json=connection).json()
        answer = server.client.post(
            f"{server.http}/api/v1/projects/*/trace-eval-rules", content=RULE, headers={"content-type": "text/yaml"}
        )
        problem = "connection 'main': the variable NO_SUCH_KEY, which credentialRef names, is not set for the server"
        assert answer.json()["problem"] == problem
        listed, status, status_page, rules_page, rule_page = shown(server)
        assert f"helpful judges nothing: {problem}" in listed
        assert "1 active rule, 0 disabled, 1 judges nothing" in status
        assert f"helpful judges nothing: {problem}" in status
        assert all("NO_SUCH_KEY" in page for page in (status_page, rule_page))
        assert "evaluates nothing" in rules_page
        until(lambda: server.log, lambda log: f"judge_unable: the rule 'helpful' judges nothing: {problem}" in log)
        assert 'tracejury_conditions{name="judge_unable"} 1.0' in server.client.get(f"{server.http}/metrics").text
        right = connection | {"credentialRef": "SUCH_A_KEY"}
        changed = server.client.put(f"{server.http}/api/v1/llm-connections/{made['id']}", json=right)
        assert changed.status_code == 200, changed.text
        after = shown(server)
        assert not any("judges nothing" in page or "NO_SUCH_KEY" in page for page in after)
        assert "evaluates nothing" not in after[3]  # the page of the rule says so of deleting it
        begun_and_over(server, "judge_unable")


def test_a_deletion_without_room_for_a_checkpoint_says_how_much_to_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion and the condition name the needed and the free space, and the remedy if nothing can make room."""
    with a_store(tmp_path) as store:
        commit(store, storing.a_batch(storing.an_export(10)))
        assert store.lack_of_room is None
        monkeypatch.setattr("storage.engine.room._CHECKPOINT_BYTES", 1 << 50)
        needed = (
            r"it needs 1073741824 MiB, and \d+ MiB are left on the disk of .*; free \d+ MiB there, but remove nothing"
        )
        with pytest.raises(Busy, match=needed):
            store._writer.between(store._database.checkpoints.make)
        (text,) = _disk_full(store).values()
        assert re.search(f"Deletions and expiry make no room without a checkpoint: {needed}", str(text))
