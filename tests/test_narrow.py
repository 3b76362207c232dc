"""Questions about spans alone: no join with readings, and the same answers as with it."""

from collections.abc import Iterator

import duckdb
import pytest

from storage.narrow import narrow_view
from storage.store import Store
from tests.storing import a_batch, a_store, an_export, commit

JOIN = "LEFT JOIN reading AS m ON m.seq = s.seq"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with some spans."""
    with a_store(tmp_path_factory.mktemp("narrow")) as store:
        commit(store, a_batch(an_export()))
        yield store


def narrowed(cursor: duckdb.DuckDBPyConnection, select: str) -> str | None:
    """The statement that makes the view for a SELECT without the join."""
    ((tree,),) = cursor.execute("SELECT json_serialize_sql(?::VARCHAR)", [select]).fetchall()
    return narrow_view(tree)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT count(*) FROM spans",
        "SELECT trace_id FROM spans LIMIT 1",
        "SELECT service_name, count(*) AS n FROM Spans GROUP BY 1 ORDER BY n DESC",
        "SELECT s.name, s.attributes['a'] AS a FROM spans AS s WHERE s.kind = 'CLIENT' ORDER BY a",
        "WITH slow AS (SELECT trace_id AS t FROM spans WHERE duration_ms > 1) SELECT count(t) FROM slow",
        "SELECT count(*) FROM spans AS a JOIN spans AS b USING (trace_id)",
    ],
)
def test_what_needs_no_reading_is_not_joined_with_it(store: Store, select: str) -> None:
    """Only the span, its resource and its scope are looked at."""
    plan = store.queries.sql(f"EXPLAIN {select}", max_rows=10, timeout_s=60)
    assert "reading" not in str(plan.rows)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT * FROM spans",
        "FROM spans",
        "SELECT spans.* FROM spans",
        "SELECT s FROM spans AS s",
        "SELECT spans FROM spans",
        "SELECT name AS s, s FROM spans AS s",
        "SELECT COLUMNS('.*_tokens') FROM spans",
        "SELECT MODEL FROM spans",
        "SELECT trace_id FROM spans WHERE spans.model = 'x'",
        "SELECT name AS model, model FROM spans",
        "SELECT #31 FROM spans",
        "SELECT count(*) FROM spans AS a JOIN spans AS b USING (session_id)",
        "SELECT count(*) FROM spans NATURAL JOIN (SELECT 'x' AS model)",
        "SELECT trace_id FROM spans ORDER BY input_tokens LIMIT 1",
        "SELECT count(*) FROM spans AS s WHERE EXISTS (SELECT 1 FROM traces WHERE traces.session_id = s.session_id)",
    ],
)
def test_what_may_need_readings_is_joined_with_them(store: Store, select: str) -> None:
    """Whatever names columns of them, or columns without their names."""
    with store._database.cursor() as cursor:
        assert narrowed(cursor, select) is None


def test_the_columns_are_those_of_the_view_that_come_without_readings(store: Store) -> None:
    """In their order, with the types that they have; and no other column is without the join."""
    with store._database.cursor() as cursor:
        whole = cursor.execute("DESCRIBE spans").fetchall()
        statement = narrowed(cursor, "SELECT count(*) FROM spans")
        assert statement is not None
        assert JOIN not in statement
        cursor.execute(statement)
        narrow = cursor.execute("DESCRIBE temp.spans").fetchall()
        names = [row[0] for row in narrow]
        assert narrow == [row for row in whole if row[0] in names]
        for name in (row[0] for row in whole):
            select = f'SELECT "{name}" FROM spans'
            assert (narrowed(cursor, select) is not None) == (name in names), name
            if name not in names:
                with pytest.raises(duckdb.BinderException):
                    cursor.execute(select)


def test_answers_are_the_same(store: Store) -> None:
    """Of every column of a span alone."""
    with store._database.cursor() as cursor:
        whole = cursor.execute("SELECT * FROM spans ORDER BY seq").to_arrow_table().to_pylist()
    assert whole
    for name in whole[0]:
        table = store.queries.sql(f'SELECT "{name}"::VARCHAR FROM spans ORDER BY seq', max_rows=100, timeout_s=60)
        select = f'SELECT "{name}"::VARCHAR, * FROM spans ORDER BY seq'
        assert [row[0] for row in table.rows] == [
            row[0] for row in store.queries.sql(select, max_rows=100, timeout_s=60).rows
        ]
