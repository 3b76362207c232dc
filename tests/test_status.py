"""The status of a server, over HTTP and in the terminal."""

import datetime as dt
import json
import re
import time
from pathlib import Path
from typing import Any

from storage.query.overview import GlanceAt
from tests.judged import put
from tests.live import a_client, until
from tests.serving import a_server, an_export, post, run

TRACE = "0" * 31 + "1"


def test_an_empty_server_is_up_to_date(tmp_path: Path) -> None:
    """Nothing is behind, nothing is to be done, nothing failed, and nothing was spent."""
    with a_server(tmp_path / "data") as server:
        document = json.loads(run("status", "--json", "--server", server.http).stdout)
        shown = run("status", "--server", server.http)
    expected = {"state": "ready", "overloaded": False, "backlogBytes": 0, "dropped": [], "conditions": []}
    assert document["server"] == expected | {"lake": None}
    assert document["spans"] == {"stored": 0, "alreadyPresent": 0, "setAside": 0}
    for lag in ("traces", "matching"):
        assert document[lag] == {"spansBehind": 0, "secondsBehind": 0.0}
    assert document["jobs"] == {
        "ready": 0,
        "waiting": 0,
        "held": 0,
        "claimed": 0,
        "tried": 0,
        "oldestAt": None,
        "oldestSeconds": None,
    }
    assert document["last24h"] == {"scored": 0, "failed": 0, "skipped": 0}
    assert document["spentToday"] == {"calls": 0, "failedCalls": 0, "tokens": 0, "usd": 0.0, "unpricedCalls": 0}
    assert shown.exit_code == 0
    assert "0 active rules, 0 disabled" in shown.stdout


def test_what_is_to_be_done_what_failed_and_what_was_spent_is_counted(tmp_path: Path) -> None:
    """Jobs by state with the oldest that waits, outcomes of a day, judge calls of today, and problems of files."""
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "a.yaml").write_text("name: a\nevaluator: tool_error\nenabled: false\n")
    (rules / "b.yaml").write_text("name: b\nevaluator: tool_eror\n")
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    ago = {seconds: now - dt.timedelta(seconds=seconds) for seconds in (60, 600, 90_000)}
    with a_server(tmp_path / "data", rules=rules) as server:
        server.pipeline.workers._ledger.close()  # which would take the job that is ready
        server.pipeline.matcher.close()  # which would settle the trace
        store = server.store
        target: dict[str, Any] = {"revision": 1, "seq": 1, "trace_id": TRACE}
        put(store, "job", job_id=1, **target, created_at=ago[60])
        put(store, "job", job_id=2, **target, created_at=ago[600], not_before=now + dt.timedelta(hours=1))
        put(store, "job", job_id=3, **target, created_at=ago[90_000], state="claimed")
        for job, (outcome, at) in enumerate((("scored", 60), ("failed", 600), ("failed", 90_000)), start=4):
            put(store, "evaluation", job_id=job, **target, outcome=outcome, created_at=ago[at])
        for _ in range(2):  # its spans came in several commits
            put(store, "trace_open", trace_id=TRACE)
        put(store, "judge_call", call_id=1, day=now.date(), reserved_tokens=9, reserved_usd=0.5)  # under way
        put(store, "judge_call", call_id=2, day=now.date(), tokens=5, usd=0.25, outcome="answered")
        put(store, "judge_call", call_id=3, day=now.date() - dt.timedelta(days=1), tokens=5, usd=0.25)
        for call, outcome in enumerate(("unavailable", "rate_limited", "lost", "unsent"), start=4):
            put(store, "judge_call", call_id=call, day=now.date(), tokens=0, usd=0.0, outcome=outcome)
        put(store, "judge_call", call_id=8, day=now.date(), tokens=9, usd=0.5, outcome="timeout")
        document = json.loads(run("status", "--json", "--server", server.http).stdout)
        shown = run("status", "--server", server.http).stdout
    jobs = document["jobs"]
    assert (jobs["ready"], jobs["waiting"], jobs["claimed"], document["openTraces"]) == (1, 1, 1, 1)
    assert 600 <= jobs["oldestSeconds"] < 700
    assert document["last24h"] == {"scored": 1, "failed": 1, "skipped": 0}
    assert document["spentToday"] == {"calls": 2, "failedCalls": 3, "tokens": 14, "usd": 0.75, "unpricedCalls": 0}
    assert (document["rules"]["inForce"], document["rules"]["disabled"]) == (0, 1)
    (problem,) = document["rules"]["problems"]
    assert (problem["file"], problem["line"], problem["key"]) == ("b.yaml", 2, "evaluator")
    for line in (
        "1 trace not settled",
        "2 waiting, 1 under way, the oldest for 10 min",
        "$0.75",
    ):
        assert line in shown
    assert "b.yaml:2: evaluator: there is no evaluator 'tool_eror'; did you mean tool_error?" in shown
    without = json.loads(run("status", "--json", "--data", tmp_path / "data").stdout)
    assert (without["server"], without["rules"]["disabled"], without["jobs"]["ready"]) == (None, 1, 1)
    assert "not running" in run("status", "--data", tmp_path / "data").stdout


def write_four_rules(folder: Path) -> None:
    """Write a rule that judges, one without its connection, one after a disabled rule, and that rule."""
    folder.mkdir()
    (folder / "a.yaml").write_text("name: good\nevaluator: tool_error\n")
    (folder / "b.yaml").write_text("name: mute\nevaluator: llm_judge\ncriteria: Is it good?\nconnectionId: gone\n")
    (folder / "c.yaml").write_text("name: late\nevaluator: tool_error\nafter: {rule: idle, outcome: failed}\n")
    (folder / "d.yaml").write_text("name: idle\nevaluator: tool_error\nenabled: false\n")


def test_all_faces_count_alike(tmp_path: Path) -> None:
    """Results that were replaced count nowhere; all faces have the same numbers of results, jobs and silent rules."""
    folder = tmp_path / "rules"
    write_four_rules(folder)
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.timedelta(seconds=60)
    with a_server(tmp_path / "data", rules=folder) as server, a_client() as client:
        server.pipeline.workers._ledger.close()  # which would take the jobs
        store = server.store
        revisions = {kept.stored.name: kept.stored.revision for kept in server.pipeline.rules.kept()}
        place: dict[str, Any] = {"revision": revisions["good"], "seq": 1, "trace_id": TRACE, "created_at": now}
        results = [("scored", True)] * 4 + [("scored", False)] * 3 + [("failed", None)] * 2 + [("skipped", None)] * 5
        for job, (outcome, passed) in enumerate(results * 2):
            put(store, "evaluation", job_id=job, **place, outcome=outcome, passed=passed, started_at=now)
            if job >= len(results):
                put(store, "superseded", job_id=job)
        jobs: list[dict[str, Any]] = [{"state": state} for state in ("ready", "ready", "held", "claimed")]
        jobs += [{"attempts": 2}, {"error_kind": "unavailable"}, {"not_before": now + dt.timedelta(hours=1)}]
        for job, columns in enumerate(jobs, start=100):
            put(store, "job", job_id=job, **place, **columns)

        def page(path: str) -> str:
            return " ".join(re.sub(r"<[^>]*>", " ", client.get(f"http://{server.http}{path}").text).split())

        rules = json.loads(run("rules", "list", "--json", "--server", server.http).stdout)["content"]
        by_name = {rule["name"]: rule for rule in rules}
        status = json.loads(run("status", "--json", "--server", server.http).stdout)
        listed, shown = (run(*words, "--server", server.http).stdout for words in (("rules", "list"), ("status",)))
        metrics = client.get(f"http://{server.http}/metrics").text
        home, rules_page, status_page = (page(path) for path in ("/", "/rules", "/status"))
        until_ns = time.time_ns()
        at = GlanceAt(before_ns=0, from_ns=1, until_ns=until_ns, project=None, tenant=None)
        (sums,) = store.overview.glance(at, step_ns=until_ns).rules
        home_counts = (sums.passed, sums.not_passed, sums.broken, sums.skipped)
        values = store.rule_record.waiting()
    assert by_name["good"]["activity"]["evaluations"] == {"passed": 4, "not_passed": 3, "failed": 2, "skipped": 5}
    assert status["last24h"] == {"scored": 7, "failed": 2, "skipped": 5}
    assert "7 scored, 5 skipped" in shown
    (line,) = [line for line in listed.splitlines() if line.startswith("good")]
    assert "4 of 7" in line
    assert line.split()[-3:] == ["2", "5", "-"]
    assert "7 4 57.1 % 2 5 7" in rules_page
    assert home_counts == (4, 3, 2, 5)
    assert "Scored 7" in status_page
    assert {name: status["jobs"][name] for name in ("ready", "waiting", "held", "claimed", "tried")} == {
        "ready": 4,
        "waiting": 1,
        "held": 1,
        "claimed": 1,
        "tried": 2,
    }
    assert "5 waiting (2 to be tried again), 1 held, 1 under way" in shown
    assert sum(values.values()) == len(jobs)
    assert 'tracejury_jobs{state="ready"} 4.0' in metrics
    silent = {rule["name"] for rule in rules if rule["problem"]}
    assert silent == {each["name"] for each in status["rules"]["unable"]} == {"mute", "late"}
    assert rules_page.count("evaluates nothing") == 2
    assert listed.count(" judges nothing: ") == shown.count(" judges nothing: ") == 2
    assert "3 active rules, 1 disabled, 2 judge nothing" in shown
    for seen in (home, status_page):
        assert "2 rules evaluate nothing" in seen
    assert "Evaluate nothing 2" in status_page
    assert 'tracejury_rules{state="judging_nothing"} 2.0' in metrics


def test_what_is_behind_is_told_in_spans_and_seconds(tmp_path: Path) -> None:
    """Spans that are stored and not matched are counted, with how long the first of them has waited."""
    with a_server(tmp_path / "data") as server, a_client() as client:
        post(f"http://{server.http}/api/v1/traces", an_export(TRACE, "a", "b").SerializeToString())
        assert server.store.wait_committed(10)

        def behind() -> dict[str, Any]:
            document: dict[str, Any] = client.get(f"http://{server.http}/api/v1/status").json()
            return document

        document = until(behind, lambda seen: seen["traces"]["spansBehind"] == 0)

        def forget(cursor: Any) -> None:
            cursor.execute("UPDATE matching_state SET seq = -1")

        server.store._writer.store(forget, 1)
        document = behind()
        assert document["spans"]["stored"] == 2
        assert document["matching"]["spansBehind"] == 2
        assert 0 < document["matching"]["secondsBehind"] < 60
