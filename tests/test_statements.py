"""How many statements the store executes for what comes."""

from functools import partial
from pathlib import Path

import pytest

from storage import sql
from storage.ingest import presence
from storage.ingest.presence import RecentKeys
from tests.statements import executed
from tests.storing import a_batch, a_store, an_export, commit, rows


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
