"""Killed at any moment between an alert, its commit and its delivery: nothing is lost, and each event has one id."""

import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests import forking
from tests.alerting import Script, a_finding, a_receiver, answer, hang_up
from tests.live import environment, until
from tests.source_tree import ROOT

EACH = 4


@contextmanager
def a_process(data: Path, url: str, first: int, count: int) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that is ready; killed at the end of the block."""
    command = [sys.executable, "-m", "tests.alerting_process", str(data), url, str(first), str(count)]
    with forking.start(command, cwd=ROOT, env=environment(), stdout=forking.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def committed(process: "subprocess.Popen[str]") -> set[str]:
    """Return the alerts that a killed process had committed, and said so."""
    assert process.stdout is not None
    return {line.strip() for line in process.stdout if line.endswith("\n")}


def ids_by_alert(script: Script) -> dict[str, set[str]]:
    """Return the ids under which each alert arrived."""
    ids: dict[str, set[str]] = defaultdict(set)
    for each in script.taken:
        ids[json.loads(each.body)["data"]["alertId"]].add(each.headers["webhook-id"])
    return ids


@pytest.mark.timeout(600)
@pytest.mark.kill("collector/delivery", "storage/alerting")
def test_no_kill_loses_an_alert_or_gives_it_a_second_id(tmp_path: Path, seed: int, kills: int) -> None:
    """Twelve kills between opening, sending, and noting the answer leave every alert delivered, under one id."""
    source = random.Random(seed)
    announced: set[str] = set()
    with a_receiver() as (url, script):

        def act(handler: BaseHTTPRequestHandler, number: int) -> None:
            time.sleep(0.05 * (number % 3))  # so that some are killed between the request and the answer
            answer(handler, 200) if number % 4 else hang_up(handler, number)

        script.act = act
        for number in range(kills):
            with a_process(tmp_path / "data", url, number * EACH // 2, EACH) as process:  # half of them once more
                time.sleep(source.uniform(0, 0.5))
                process.kill()
                announced |= committed(process)
        everything = {a_finding(number).alert_id for number in range(kills * EACH)}
        with a_process(tmp_path / "data", url, 0, kills * EACH) as process:
            until(lambda: ids_by_alert(script).keys(), lambda seen: seen == everything, within_s=100)
        delivered = ids_by_alert(script)
    assert announced
    assert announced <= delivered.keys()
    assert {alert: len(ids) for alert, ids in delivered.items()} == dict.fromkeys(everything, 1)
    assert len({event for ids in delivered.values() for event in ids}) == kills * EACH


def test_what_was_committed_before_any_delivery_is_delivered_after_the_kill(tmp_path: Path) -> None:
    """Alerts whose process dies while no receiver answers arrive from the next process, although it opens none."""
    with a_receiver() as (url, script):
        script.act = hang_up
        with a_process(tmp_path / "data", url, 0, 3) as process:
            until(lambda: len(script.taken), lambda count: count >= 3)
            process.kill()
            assert len(committed(process)) == 3
        before = set(script.ids)
        script.act = lambda handler, _: answer(handler, 200)
        welcomed = len(script.taken)
        with a_process(tmp_path / "data", url, 0, 0):
            until(lambda: set(script.ids[welcomed:]), lambda ids: ids == before, within_s=60)
