"""An experiment whose server or whose own process is killed at any moment: every item is there once, none is lost."""

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests import forking
from tests.live import ANY_PORTS, PATIENCE_S, Live, a_live_server, environment
from tests.serving import unused_port
from tests.source_tree import ROOT

ITEMS = 400


def an_experiment(url: str) -> "subprocess.Popen[str]":
    """Start the process of an experiment; return once it has begun."""
    command = [sys.executable, "-m", "tests.experiment_process", url, "one", str(ITEMS)]
    environ = environment({"PYTHONPATH": f"{ROOT}:{ROOT / 'sdk' / 'python' / 'src'}"})
    process = forking.start(command, cwd=ROOT, env=environ, stdout=forking.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def check_once(server: Live) -> None:
    """Check that each item is stored once, with its own answer."""
    rows = server.sql("SELECT item_key, trial, item_number FROM run_items")
    assert not [each for each, count in Counter((row[0], row[1]) for row in rows).items() if count > 1]


@pytest.mark.timeout(900)
@pytest.mark.kill(
    "collector/api/base", "collector/api/offline", "collector/experiments", "sdk/python/src", "storage/offline"
)
def test_every_item_is_there_once_whoever_is_killed(tmp_path: Path, seed: int, kills: int) -> None:
    """Server and client are killed in turn by chance; the run ends with each item and its score once."""
    source = random.Random(seed)
    port = unused_port()
    flags = (*ANY_PORTS[:4], "--http", f"127.0.0.1:{port}")
    process = None
    killed: Counter[str] = Counter()
    try:
        for _ in range(kills):
            with a_live_server(tmp_path / "data", flags=flags) as server:
                process = process or an_experiment(f"http://127.0.0.1:{port}")
                time.sleep(source.uniform(0.0, 1.0))
                who = source.choice(["server", "client"])
                killed[who] += 1
                if who == "client" or process.poll() is not None:
                    process.kill()
                    process.communicate()
                    process = None
                    check_once(server)
                server.kill()
        with a_live_server(tmp_path / "data", flags=flags) as server:
            process = process or an_experiment(f"http://127.0.0.1:{port}")
            assert process.wait(4 * PATIENCE_S) == 0
            check_once(server)
            assert server.sql("SELECT status, items, passed FROM runs") == [["SUCCESS", ITEMS, ITEMS]]
            assert server.sql("SELECT count(*) FROM run_scores") == [[ITEMS]]
    finally:
        if process is not None:
            process.kill()
            process.communicate()
