"""How a server stands, over HTTP and in the terminal."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

from tests.judged import put
from tests.live import a_client, until
from tests.serving import a_server, an_export, post, run

TRACE = "0" * 31 + "1"


def test_an_empty_server_is_up_to_date(tmp_path: Path) -> None:
    """Nothing is behind, nothing is to be done, nothing failed, and nothing was spent."""
    with a_server(tmp_path / "data") as server:
        document = json.loads(run("status", "--json", "--server", server.http).stdout)
        shown = run("status", "--server", server.http)
    assert document["server"] == {"state": "ready", "overloaded": False, "backlogBytes": 0, "conditions": []}
    assert document["spans"] == {"stored": 0, "alreadyPresent": 0, "setAside": 0}
    for lag in ("traces", "matching"):
        assert document[lag] == {"spansBehind": 0, "secondsBehind": 0.0}
    assert document["jobs"] == {
        "ready": 0,
        "waiting": 0,
        "held": 0,
        "claimed": 0,
        "oldestAt": None,
        "oldestSeconds": None,
    }
    assert document["last24h"] == {"scored": 0, "failed": 0, "skipped": 0}
    assert document["spentToday"] == {"calls": 0, "failedCalls": 0, "tokens": 0, "usd": 0.0}
    assert shown.exit_code == 0
    assert "0 rules in force, 0 disabled" in shown.stdout


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
    assert document["spentToday"] == {"calls": 2, "failedCalls": 3, "tokens": 14, "usd": 0.75}
    assert (document["rules"]["inForce"], document["rules"]["disabled"]) == (0, 1)
    (problem,) = document["rules"]["problems"]
    assert (problem["file"], problem["line"], problem["key"]) == ("b.yaml", 2, "evaluator")
    for told in (
        "1 trace not settled",
        "2 waiting (1 to be tried again), 1 under way, the oldest for 10 min",
        "0.7500 USD",
    ):
        assert told in shown
    assert "b.yaml:2: evaluator: there is no evaluator 'tool_eror'; did you mean tool_error?" in shown
    without = json.loads(run("status", "--json", "--data", tmp_path / "data").stdout)
    assert (without["server"], without["rules"]["disabled"], without["jobs"]["ready"]) == (None, 1, 1)
    assert "not running" in run("status", "--data", tmp_path / "data").stdout


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
