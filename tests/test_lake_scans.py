"""Conditions of statements that choose the files of the lake: each is one that all rows of the answer meet."""

import pytest

from storage.lake.cold_files import LEAST, MOST
from storage.lake.scans import Scan, scans_of

DAY = 1_793_491_200_000_000_000  # 2026-11-01
ID = "5b8efff798038103d269b633813fc60c"
SPANS = [
    ("start_time >= '2026-11-01'", {"start_time": (DAY, MOST)}),
    ("start_time < TIMESTAMP '2026-11-01 00:00:00.5' AND name = 'x'", {"start_time": (LEAST, DAY + 500_000_000)}),
    ("start_time BETWEEN make_timestamp_ns(5) AND make_timestamp_ns(7)", {"start_time": (5, 7)}),
    ("received_at = '2026-11-01 00:00:00.000001'", {"received_at": (DAY // 1000 + 1, DAY // 1000 + 1)}),
    ("seq > 1000 AND seq <= 2000", {"seq": (1000, 2000)}),
    ("start_time > '2026-11-01' OR start_time < '2020-01-01'", {}),
    ("start_time::DATE = '2026-11-01'", {}),
    ("name = '1'' AND start_time<''1970-01-01''::TIMESTAMP_NS'", {}),
    ("NOT start_time >= '2026-11-01'", {"start_time": (LEAST, DAY)}),
    ("start_time >= '2026-11-01'::TIMESTAMP ORDER BY start_time DESC LIMIT 5", {"start_time": (DAY, MOST)}),
]


@pytest.mark.parametrize("condition, bounds", SPANS)
def test_conditions_become_bounds(condition: str, bounds: dict[str, tuple[int, int]]) -> None:
    """Comparisons with constants bound a column; what is not understood, or is text of a client, bounds none."""
    assert scans_of(f"SELECT name FROM spans WHERE {condition}", None) == [Scan(table="span", bounds=bounds)]


def test_parameters_and_traces_are_read_from_the_plan() -> None:
    """Values of parameters count as constants, and ids of traces are returned as such."""
    (scan,) = scans_of(
        "FROM spans WHERE trace_id = $id AND start_time >= make_timestamp_ns($at)", {"id": ID, "at": DAY}
    )
    assert scan == Scan(table="span", bounds={"start_time": (DAY, MOST)}, trace_ids=frozenset({ID}))
    (scan,) = scans_of(f"FROM spans WHERE trace_id IN ('{ID}', '{ID[::-1]}')", None)
    assert scan.trace_ids == frozenset({ID, ID[::-1]})


def test_each_table_has_its_own_bounds() -> None:
    """Of a join each table is bounded by its own conditions, views are followed, and other tables have no scans."""
    statement = "FROM spans AS s JOIN traces AS t USING (trace_id) WHERE s.start_time >= '2026-11-01'"
    by_table = {scan.table: scan.bounds for scan in scans_of(statement, None)}
    assert by_table == {"span": {"start_time": (DAY, MOST)}, "trace_reading": {}}
    assert scans_of("FROM evaluation_days", None) == []
    assert scans_of("SELECT 1", None) == []
    assert {scan.table for scan in scans_of("FROM nowhere JOIN logs ON true", None)} >= {"log_record"}
