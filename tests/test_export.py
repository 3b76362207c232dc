"""Exports hold what is stored, day by day, with and without a server."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.live import PATIENCE_S
from tests.serving import a_server, an_export, post, run
from tests.storing import trace_id

DAY_S = 86_400
DAYS = ("--from", "2026-11-20", "--to", "2026-11-24")


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[list[tuple[str, str]]]:
    """A server with traces of two days, as both ways to name it."""
    with a_server(tmp_path / "data") as server:
        for number, at_s in ((1, 0), (2, 1), (3, 2 * DAY_S)):
            export = an_export(trace_id(number), "root", "step", at_s=at_s)
            post(f"http://{server.otlp_http}/v1/traces", export.SerializeToString())
        assert server.store.wait_committed(PATIENCE_S)
        yield [("--server", f"http://{server.http}"), ("--data", str(tmp_path / "data"))]


def test_parquet_is_partitioned_by_day(sources: list[tuple[str, str]], tmp_path: Path) -> None:
    """Each day with spans is a folder whose file holds the rows of the view, and DuckDB reads all of them as one."""
    for number, source in enumerate(sources):
        result = run("export", tmp_path / f"out{number}", *DAYS, *source)
        assert result.output.count("\n") == 2, result.output
        folder = tmp_path / f"out{number}"
        assert sorted(path.name for path in folder.iterdir()) == ["day=2026-11-21", "day=2026-11-23"]
        table = pq.read_table(folder / "day=2026-11-21" / "spans.parquet")
        assert table.num_rows == 4
        assert table.column("attributes").to_pylist()[0] == [("input.value", "asked root")]
        select = f"SELECT day::VARCHAR, count(*) FROM read_parquet('{folder}/*/*.parquet') GROUP BY 1 ORDER BY 1"
        assert duckdb.sql(select).fetchall() == [("2026-11-21", 4), ("2026-11-23", 2)]


def test_otlp_can_be_sent_again(sources: list[tuple[str, str]], tmp_path: Path) -> None:
    """What is exported as OTLP/JSON another server takes, and has the same traces."""
    result = run("export", tmp_path / "out", "--format", "otlp-json", *DAYS, *sources[0])
    assert "day=2026-11-21: 2 traces" in result.output
    with a_server(tmp_path / "other") as other:
        files = sorted((tmp_path / "out").rglob("*.jsonl"))
        assert run("send", *files, "--server", f"http://{other.otlp_http}").exit_code == 0
        assert other.store.wait_committed(PATIENCE_S)
        counts = "SELECT trace_id, span_count FROM traces ORDER BY trace_id"
        rows = other.store.queries.sql(counts, max_rows=9, timeout_s=9).rows
    assert rows == tuple((trace_id(number), 2) for number in (1, 2, 3))


def test_days_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    """The end lies after the beginning."""
    assert run("export", tmp_path, "--from", "2026-11-21", "--to", "2026-11-21").exit_code == 2
