"""DuckDB's share of the machine, or of its control group."""

import os
import threading
from pathlib import Path

import duckdb
import pytest

from collector import machine
from collector.setting_values import bytes_of_size
from storage.engine.opening import open_duckdb

GIB = 1 << 30


@pytest.mark.parametrize(
    "limit, share",
    [
        ("8589934592", 2 * GIB),
        ("536870912", 256 << 20),
        ("max", None),
        ("no number", None),
    ],
)
def test_memory_is_a_quarter_of_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, share: int | None
) -> None:
    """The memory is the machine's, or the limit of the control group if less; the share is always enough for ingest."""
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    (tmp_path / "memory.max").write_text(limit)
    expected = total_bytes // 4 if share is None else min(share, total_bytes // 4)
    assert machine.share_of_memory() == min(max(expected, 256 << 20), 16 * GIB)


@pytest.mark.parametrize("quota, most", [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 16), ("", 16)])
def test_threads_are_those_that_may_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, most: int) -> None:
    """There is a thread for each processor, and fewer if the control group has a quota."""
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    (tmp_path / "cpu.max").write_text(quota)
    assert machine.share_of_threads() == min(most, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    "size, nbytes", [("512MB", 512_000_000), ("1 MiB", 1 << 20), ("1.5 GiB", 3 * GIB // 2), ("2GB", 2_000_000_000)]
)
def test_a_size_is_what_duckdb_takes_it_for(size: str, nbytes: int) -> None:
    """In bytes, as DuckDB itself says, rounded."""
    assert bytes_of_size(size) == nbytes
    with duckdb.connect(config={"memory_limit": size}) as connection:
        ((text,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    assert bytes_of_size(text) == pytest.approx(nbytes, rel=0.05)


def test_the_threads_of_a_database_stand_back() -> None:
    """DuckDB's own threads have less priority than those that ask it, which keep theirs."""
    before = {int(task.name) for task in Path("/proc/self/task").iterdir()}
    mine = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    with open_duckdb({"threads": 3}) as connection:
        started = {int(task.name) for task in Path("/proc/self/task").iterdir()} - before
        nice = sorted(os.getpriority(os.PRIO_PROCESS, thread) for thread in started)
        assert len(nice) >= 2
        assert nice[-2:] == [min(mine + 10, 19)] * 2  # 19 is the lowest priority
        assert connection.execute("SELECT count(*) FROM range(100000)").fetchall() == [(100_000,)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == mine
