"""Whatever a process is killed in, everything is decided about once and every match is one job."""

import random
import signal
import sys
import time
from pathlib import Path

import pytest

from collector.live.matching.matcher import Matcher
from storage.store import Store
from tests import forking
from tests.matching import every_backfill
from tests.matching_process import BACKFILLED, EVER_NS, a_matcher
from tests.source_tree import ROOT
from tests.storing import WAIT_S, a_store, rows

ONCE = """
SELECT revision, count(*), count(DISTINCT CASE WHEN revision IN (1, 4) THEN d.seq::VARCHAR ELSE s.trace_id END)
FROM decision AS d JOIN span AS s USING (seq) GROUP BY revision ORDER BY revision
"""
A_JOB_EACH = """
SELECT d.revision, count(*), count(j.job_id), count(DISTINCT j.job_id), count(DISTINCT (j.trace_id, j.span_id))
FROM decision AS d LEFT JOIN job AS j ON j.revision = d.revision AND j.seq = d.seq
WHERE d.outcome = 2 GROUP BY d.revision ORDER BY d.revision
"""


@pytest.mark.timeout(600)
@pytest.mark.kill("collector/live/matching", "rules", "storage/judging")
def test_kills_leave_one_decision_and_one_job_each(tmp_path: Path, seed: int, kills: int) -> None:
    """After kill -9 at random moments each revision has one decision for each target, and one job for each match."""
    source = random.Random(seed)
    for kill in range(kills):
        command = [sys.executable, "-m", "tests.matching_process", str(tmp_path), str(seed // 1000 * 1000 + kill)]
        with forking.start(command, cwd=ROOT, stdout=forking.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "at work\n"
            time.sleep(source.uniform(0.05, 1.2))
            process.send_signal(signal.SIGKILL)
    with a_store(tmp_path) as store:
        finish(store)
        ((spans, traces),) = rows(store, "SELECT count(*), count(DISTINCT trace_id) FROM span")
        expected = [(1, spans), (2, traces), (3, traces), (4, spans), (5, traces)]
        assert rows(store, ONCE) == [(revision, count, count) for revision, count in expected]
        jobs = rows(store, A_JOB_EACH)
        assert [row[1:] for row in jobs] == [(row[1],) * 4 for row in jobs]
        assert [row[0] for row in jobs] == [1, 2, 3, 4, 5]
        assert rows(store, "SELECT count(*) FROM job") == [(sum(int(str(row[1])) for row in jobs),)]
        assert rows(store, "SELECT count(DISTINCT job_id) = count(*) FROM job") == [(True,)]
        assert rows(store, "SELECT max(job_id) <= (SELECT last_job FROM matching_state) FROM job") == [(True,)]
        assert rows(store, "SELECT count(*) FROM superseded") == [(0,)]


def finish(store: Store) -> None:
    """Match all spans, let all traces settle, and run the rest of the backfills."""
    live = a_matcher(store)
    live.start()
    try:
        assert live.wait_matched(WAIT_S)
        deadline_s = time.monotonic() + 3 * WAIT_S
        while rows(store, "SELECT count(*) FROM trace_open") != [(0,)]:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        until_backfilled(live, deadline_s)
        for rule in BACKFILLED:
            live.backfills.start(rule, 0, EVER_NS)
        until_backfilled(live, deadline_s)
        assert {one.state for one in every_backfill(live)} == {"done"}
    finally:
        live.close()


def until_backfilled(live: Matcher, deadline_s: float) -> None:
    """Wait until no backfill is under way."""
    while any(one.state == "running" for one in every_backfill(live)):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
