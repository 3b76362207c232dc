"""The views are a contract: docs/views.md and the database say the same."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import sql
from storage.store import Store
from tests.source_tree import ROOT
from tests.storing import a_batch, a_store, an_export, commit, rows

PAGE = (ROOT / "docs" / "views.md").read_text(encoding="utf-8")
INTERNAL = {
    "changed_part",
    "changed_trace",
    "counted_by_day",
    "counted_result",
    "decided",
    "evaluation_by_day",
    "outcome_of_run_item",
    "review_vote",
    "run_evaluation_state",
    "run_sums",
    "trace_roll_up",
    "trace_totals",
    "undecided",
}
"""Views that others are made of. Any other view is promised to dashboards. Give a new one a section in docs/views.md
with its name as heading, in backticks, and in it a table with the heads column, type and meaning: the columns in their
order, in backticks; those that stand in one row, with commas between them, have one type."""

HOW = "change the view back, or docs/views.md with it: add columns only, else raise its version"


def documented(view: str) -> list[tuple[str, str]]:
    """Return the columns of a view and their types, as the page has them."""
    section = re.search(rf"^## `{view}`$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section, f"docs/views.md has no section about {view}: {__doc__} See INTERNAL in this test for how to add it."
    table = re.findall(r"^\| (`.*?`) \| (.*?) \| .*\|$", section[1], re.MULTILINE)
    return [(name, kind) for names, kind in table for name in re.findall(r"`(\w+)`", names)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store with a trace in it."""
    with a_store(Path(tmp_path_factory.mktemp("views"))) as opened:
        commit(opened, a_batch(an_export(3)))
        yield opened


@pytest.mark.parametrize("view", sorted({name for name, _ in sql.views()} - INTERNAL))
def test_a_view_has_the_columns_that_are_documented(store: Store, view: str) -> None:
    """Names, types and order of the columns are those of the page, and the view can be read."""
    described = [(name, kind.replace('"', "")) for name, kind, *_ in rows(store, f"DESCRIBE {view}")]  # type: ignore[attr-defined] # text
    assert described == documented(view), HOW
    assert len(rows(store, f"SELECT * FROM {view}")) <= 3


def test_the_page_documents_no_view_that_is_not_there() -> None:
    """Removing a view removes its section, and that is a new version."""
    assert set(re.findall(r"^## `(\w+)`$", PAGE, re.MULTILINE)) == {name for name, _ in sql.views()} - INTERNAL
    assert "Version 1 of the contract" in PAGE


def test_days_hold_what_is_stored_and_what_has_left(store: Store) -> None:
    """A result counts once in `evaluation_days`, before its trace leaves and after."""
    made = """INSERT INTO evaluation BY NAME SELECT 1 AS job_id, 7 AS revision, seq, '' AS tenant, 'shop' AS project,
        trace_id, 0 AS round, 'tone' AS name, 'scored' AS outcome, 0.5 AS score, true AS passed, 1 AS attempts,
        TIMESTAMP '2026-11-21 10:00:00' AS created_at FROM span LIMIT 1"""
    store._writer.store(lambda cursor: cursor.execute(made), 1)
    days = "SELECT day::VARCHAR, project, name, scored, passed, score_sum FROM evaluation_days"
    before = rows(store, days)
    assert before == [("2026-11-21", "shop", "tone", 1, 1, 0.5)]
    assert store.retention.sweep(now_us=1 << 52).spans == 3
    assert rows(store, days) == before
