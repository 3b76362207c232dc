"""How many statements are executed for what comes, and while nothing does."""

import time
from functools import partial
from pathlib import Path

import pytest

from storage import sql
from storage.ingest import presence
from storage.ingest.presence import RecentKeys
from tests.serving import a_server, post
from tests.statements import executed
from tests.storing import WAIT_S, a_batch, a_store, an_export, commit, rows


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
