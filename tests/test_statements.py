"""The number of statements executed for requests, and while idle."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from storage import sql
from storage.ingest import presence
from storage.ingest.presence import RecentKeys
from tests.connecting import a_connection
from tests.live import until
from tests.model_server import Says, a_model
from tests.serving import a_server, post
from tests.statements import executed
from tests.storing import WAIT_S, a_batch, a_store, an_export, commit, rows

RULE = """
name: rule {}
conditions:
  - {{field: name, op: contains, value: span}}
evaluator: regex
config: {{pattern: x}}
sampleRate: 0
"""

JUDGED = """
name: judged
criteria: Is it good?
connectionId: judge
"""


def test_new_spans_are_compared_with_the_store_only_if_memory_cannot_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While all keys are in memory, after a start too, only copies are searched for; a longer store is always asked."""
    asks = sql.query("present_in_window")
    with a_store(tmp_path) as store, executed() as texts:
        commit(store, a_batch(an_export(20)))
        assert asks not in texts
    with a_store(tmp_path) as store:
        with executed() as texts:
            commit(store, a_batch(an_export(20, trace=1)))
            assert asks not in texts
            commit(store, a_batch(an_export(20)))
            assert asks in texts
        assert rows(store, "SELECT count(*) FROM spans") == [(40,)]
    monkeypatch.setattr(presence, "RecentKeys", partial(RecentKeys, capacity=16))
    with a_store(tmp_path) as store:
        with executed() as texts:
            commit(store, a_batch(an_export(20)))
            assert asks in texts
        assert rows(store, "SELECT count(*) FROM spans") == [(40,)]


def test_an_idle_server_executes_nothing(tmp_path: Path) -> None:
    """At most one statement a second, in all threads, once all that came was looked at."""
    seconds = 3
    with a_server(tmp_path) as server:
        post(f"http://{server.otlp_http}/v1/traces", an_export(3).SerializeToString())
        assert server.store.wait_committed(WAIT_S)
        assert server.traces.wait_idle(WAIT_S)
        assert server.pipeline.matcher.wait_matched(WAIT_S)
        assert server.pipeline.monitors.wait_watched(WAIT_S)
        for attempt in range(5):  # some begin to look seconds after the start
            with executed() as texts:
                time.sleep(seconds)
            if len(texts) <= seconds:
                break
            assert attempt < 4, texts


def repeated_until_few(statements: int, work: Callable[[int], None]) -> int:
    """Repeat the work, with its number, until it takes few statements; return how often it was done.

    The first two times cursors are opened. On a busy machine what follows a commit is done in more rounds, never each
    time: a statement too many is one every time.
    """
    counts: list[int] = []
    while len(counts) < 3 or counts[-1] > statements:
        assert len(counts) < 10, counts
        with executed() as texts:
            work(len(counts))
        counts.append(len(texts))
    return len(counts)


def test_a_small_commit_takes_few_statements(tmp_path: Path) -> None:
    """At most 25 for a commit, its match by 20 rules, and the sums of its traces, in all threads."""
    rules = tmp_path / "rules"
    rules.mkdir()
    for number in range(20):
        (rules / f"{number}.yaml").write_text(RULE.format(number), encoding="utf-8")
    with a_server(tmp_path / "data", rules=rules) as server:

        def commit_and_match(trace: int) -> None:
            post(f"http://{server.otlp_http}/v1/traces", an_export(8, trace=trace).SerializeToString())
            assert server.store.wait_committed(WAIT_S)
            until(server.store.matching.state, lambda state: state.seq >= state.committed)
            assert server.traces.wait_idle(WAIT_S)

        commits = repeated_until_few(25, commit_and_match)
        assert rows(server.store, "SELECT count(*) FROM decisions") == [(20 * commits * 8,)]


def test_judged_spans_share_statements(tmp_path: Path) -> None:
    """At most four a span for what a judge says of those of one commit, over what the commit itself takes."""
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "judged.yaml").write_text(JUDGED, encoding="utf-8")
    with a_model(lambda _: Says({"score": 1})) as model, a_server(tmp_path / "data", rules=rules) as server:
        server.pipeline.judging.connections.create(a_connection(model.base_url))

        def commit_and_judge(trace: int) -> None:
            post(f"http://{server.otlp_http}/v1/traces", an_export(8, trace=trace).SerializeToString())
            assert server.store.wait_committed(WAIT_S)
            assert server.pipeline.matcher.wait_matched(WAIT_S)
            assert server.pipeline.workers.wait_idle(WAIT_S)
            assert server.pipeline.monitors.wait_watched(WAIT_S)
            assert server.store.spending.flush(WAIT_S)
            assert server.traces.wait_idle(WAIT_S)

        commits = repeated_until_few(25 + 4 * 8, commit_and_judge)
        assert rows(server.store, "SELECT count(*) FROM evaluations") == [(commits * 8,)]
