"""Killed while sessions come to rest and are judged: each is judged by each rule, once for all that came of it."""

import random
import signal
import sys
import time
from pathlib import Path

import pytest

from storage.store import Store
from tests import forking
from tests.matching import remember
from tests.session_process import RULES, a_turn, judging
from tests.source_tree import ROOT
from tests.storing import WAIT_S, a_store, commit, rows

SESSIONS = "SELECT count(DISTINCT session_id) FROM trace_reading"
DECIDED = "SELECT revision, count(*), count(DISTINCT session_id) FROM decisions GROUP BY revision ORDER BY revision"
COUNTING = """
SELECT revision, count(*), count(DISTINCT session_id)
FROM evaluations WHERE NOT superseded AND outcome = 'scored' GROUP BY revision ORDER BY revision
"""
MATCHED = "SELECT count(*) FROM decisions WHERE revision = 3 AND decision <> 'filtered'"
ROUNDS = """
SELECT count(*) FROM (
    SELECT revision, session_id, count(*) AS n, count(DISTINCT round) AS rounds, max(round) AS last
    FROM evaluations GROUP BY ALL HAVING n <> rounds OR last <> n - 1
)
"""
OVER_ALL = """
SELECT count(*)
FROM evaluation AS e
JOIN (
    SELECT t.session_id, max(s.seq) AS seq
    FROM span AS s JOIN trace_reading AS t ON t.trace_id = s.trace_id
    GROUP BY t.session_id
) AS last USING (session_id)
WHERE e.job_id NOT IN (SELECT job_id FROM superseded) AND e.seq <> last.seq
"""


@pytest.mark.timeout(600)
@pytest.mark.kill(
    "collector/evaluation/session_case.py",
    "collector/live/jobs",
    "collector/live/matching",
    "collector/reading",
    "rules/settling.py",
    "storage/judging",
    "storage/query",
)
def test_kills_leave_each_session_judged_once(tmp_path: Path, seed: int, kills: int) -> None:
    """After kill -9 at random moments each session has one decision and one result that counts, over all its spans."""
    source = random.Random(seed)
    with a_store(tmp_path) as store:
        remember(store, *RULES.values())
    for kill in range(kills):
        command = [sys.executable, "-m", "tests.session_process", str(tmp_path), str(kill * 1000)]
        with forking.start(command, cwd=ROOT, stdout=forking.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "at work\n"
            time.sleep(source.uniform(1, 5))
            process.send_signal(signal.SIGKILL)
    with a_store(tmp_path) as store:
        ((sessions,),) = rows(store, "SELECT count(DISTINCT session_id) FROM span")
        finish(store)
        assert int(str(sessions)) > kills
        check(store, sessions)
        commit(store, a_turn(0, 99))  # once more after all
        finish(store)
        check(store, sessions)


def finish(store: Store) -> None:
    """Let all sessions come to rest, and have them judged."""
    with judging(store) as wait:
        deadline_s = time.monotonic() + 3 * WAIT_S
        tables = "trace_open", "session_open", "job"
        left = f"SELECT {' + '.join(f'(SELECT count(*) FROM {table})' for table in tables)}"
        assert wait()
        while rows(store, left) != [(0,)]:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
            assert wait()


def check(store: Store, sessions: object) -> None:
    """Check that each rule decided about each session once, and judged matching ones once, as they are now."""
    ((matched,),) = rows(store, MATCHED)
    assert rows(store, DECIDED) == [(revision, sessions, sessions) for revision in RULES]
    judged = {revision: matched if revision == 3 else sessions for revision in RULES}
    assert rows(store, COUNTING) == [(revision, count, count) for revision, count in judged.items() if count]
    assert rows(store, ROUNDS) == [(0,)]
    assert rows(store, OVER_ALL) == [(0,)]
