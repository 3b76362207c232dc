"""Programs that read the lake, or work on it, by its documentation; those that are not installed are skipped."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.lake import Place, a_place, publish_all
from tests.matching import adding_up, write
from tests.source_tree import ROOT
from tests.storing import WAIT_S, a_batch, a_store, an_export, commit
from tests.test_lake_backfill import LIKE, TIME, a_lake, a_tool_trace


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Place]:
    """Yield a lake in a directory."""
    with a_place("file", tmp_path / "place") as made:
        yield made


EXAMPLES = dict(
    re.findall(r"\*\*(\w+)\*\*\n\n```\w+\n(.*?)```", (ROOT / "docs" / "lake.md").read_text(encoding="utf-8"), re.DOTALL)
)


@pytest.mark.parametrize("reader", EXAMPLES)
def test_the_documented_readers_count_each_span_once(folder: Place, tmp_path: Path, reader: str) -> None:
    """The example of each program reads the latest version of each span, of which the lake has earlier ones, too."""
    with a_store(tmp_path / "data") as store, adding_up(store) as traces:
        commit(store, a_batch(an_export(20)))
        write(store, "UPDATE span SET span_type = 'llm', model = 'm', cost_usd = 0.5")
        publish_all(store.lake(folder.uri))
        write(store, "UPDATE span SET cost_usd = 0.25, write_number = nextval('write_number') WHERE seq % 2 = 0")
        publish_all(store.lake(folder.uri))
        assert traces.wait_idle(WAIT_S)
    assert folder.rows("span").num_rows == 30
    example = re.sub(r"s3://traces/tracejury|/srv/lake", folder.uri, EXAMPLES[reader])
    names: dict[str, Any] = {}
    if reader == "DuckDB":  # whose extension `delta` would be downloaded: without it, the files that Delta's log names
        files = f"read_parquet({folder.table('span').file_uris()}, hive_partitioning = true)"
        statement = example.replace("INSTALL delta; LOAD delta;", "").replace(f"delta_scan('{folder.uri}/span')", files)
        with duckdb.connect() as connection:
            assert connection.execute(statement).fetchall() == [("m", 20, 7.5)]
    elif reader == "pandas":
        pytest.importorskip("pandas", reason="pandas is none of the packages for tests")
        exec(example, names)  # noqa: S102 - the documentation
        assert (len(names["spans"]), names["spans"]["cost_usd"].sum()) == (20, 7.5)
    elif reader == "Polars":
        pytest.importorskip("polars", reason="polars is none of the packages for tests")
        exec(example, names)  # noqa: S102
        assert names["usd"].rows()[0][1:] == (20, 7.5)
    else:
        pytest.importorskip("pyspark", reason="Spark needs Java, and its package for Delta is downloaded")


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install ray")
def test_tasks_of_ray_say_what_local_processes_say(folder: Place, tmp_path: Path) -> None:
    """A cluster on this machine has the results of the live rule, each once."""
    traces = [a_tool_trace(number) for number in range(200)]
    with a_lake(tmp_path / "data", folder, *traces, rules=("tools",)) as made:
        assert made.start("backfill", "tools", *TIME, "--ray", "local").wait(120) == 0
        live = made.sql(f"SELECT {LIKE} FROM evaluations ORDER BY ALL")
        assert made.shows(f"SELECT {LIKE} FROM backfill_results ORDER BY ALL", live)
