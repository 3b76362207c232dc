"""The view of traces shows the sums of their parts, whether these are stored already or not."""

import random
from pathlib import Path
from typing import Final

import pytest

from storage import sql
from storage.ingest.batch import SpanBatch
from storage.store import Store
from tests.matching import adding_up
from tests.storing import START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows

pytestmark = pytest.mark.costly("collector/conventions", "collector/reading", "storage")

COLUMNS: Final = """
    tenant, trace_id, root_name, project, service_name, epoch_ns(start_time), epoch_ns(end_time),
    span_count, error_count, expires_at
"""
KEPT: Final = (
    "root_name",
    "project",
    "service_name",
    "last_start_time",
    "end_time",
    "stored_span_count",
    "error_count",
    "expires_at",
)
VIEWS: Final = ("traces", "sessions", "trace_totals", "trace_roll_up", "changed_part", "changed_trace")


def of_view(store: Store) -> list[tuple[object, ...]]:
    """Read each trace from the view."""
    return rows(store, f"SELECT {COLUMNS} FROM traces ORDER BY ALL")


def of_parts(store: Store) -> list[tuple[object, ...]]:
    """Add up all parts of each trace."""
    with store._database.cursor() as cursor:
        rolled = sql.select_of("trace_roll_up")
        return cursor.execute(
            f"WITH changed_part AS (FROM trace_part), rolled AS ({rolled}) SELECT {COLUMNS} FROM rolled ORDER BY ALL"
        ).fetchall()


def grow(store: Store, source: random.Random, number: int) -> None:
    """Commit spans of some traces, at any time, some with errors, some below others."""
    batches: list[SpanBatch] = []
    for _ in range(source.randint(1, 3)):
        request = an_export(
            source.randint(1, 4),
            trace=source.randint(0, 5),
            first=number * 100 + len(batches) * 10,
            start_ns=START_NS + source.randint(-3, 3) * 10**9,
            project=source.choice(("shop", "bank")),
        )
        for span in request.resource_spans[0].scope_spans[0].spans:
            span.status.code = source.choice((0, 2))  # type: ignore[assignment] # numbers of an enumeration
            span.parent_span_id = source.choice((b"", b"12345678"))
        batches.append(a_batch(request, tenant=source.choice(("", "", "other"))))
    commit(store, *batches)


@pytest.mark.parametrize("seed", range(4))
def test_the_view_adds_up_what_is_not_kept_yet(tmp_path: Path, seed: int) -> None:
    """While traces grow, before, between and after they are summed, the view has the sums of their parts."""
    source = random.Random(seed)
    with a_store(tmp_path) as store:
        for number in range(4):
            grow(store, source, number)
            assert of_view(store) == of_parts(store)
        with adding_up(store) as traces:
            for number in range(4, 12):
                grow(store, source, number)
                assert of_view(store) == of_parts(store)
                if source.random() < 0.5:
                    assert traces.wait_idle(WAIT_S)
                    assert of_view(store) == of_parts(store)
            assert traces.wait_idle(WAIT_S)
        assert rows(store, "SELECT count(*) FROM changed_trace") == [(0,)]
        for number in range(12, 16):
            grow(store, source, number)
            assert of_view(store) == of_parts(store)
        ((changed,),) = rows(store, "SELECT count(DISTINCT trace_key) FROM changed_trace")
        assert 0 < int(str(changed)) <= 6


def test_a_trace_that_grew_keeps_what_it_meant(tmp_path: Path) -> None:
    """Until a trace is summed again, its numbers are new and its reading is the last known one."""
    with a_store(tmp_path) as store:
        request = an_export(1)
        span = request.resource_spans[0].scope_spans[0].spans[0]
        span.attributes.add(key="session.id").value.string_value = "s1"
        with adding_up(store) as traces:
            commit(store, a_batch(request))
            assert traces.wait_idle(WAIT_S)
        commit(store, a_batch(an_export(2, first=1)))
        query = "SELECT span_count, session_id, tool_call_count FROM traces"
        assert rows(store, query) == [(3, "s1", 0)]
        assert rows(store, "SELECT trace_count, span_count FROM sessions") == [(1, 3)]


def test_a_question_reads_the_columns_that_it_names(tmp_path: Path) -> None:
    """Texts of traces are not read for a question about others, of those that changed neither."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(1)))
        with store._database.cursor() as cursor:
            ((_, plan),) = cursor.execute("EXPLAIN SELECT project, count(*) FROM traces GROUP BY project").fetchall()
    assert "trace_reading" in str(plan)
    assert "final_response" not in str(plan)
