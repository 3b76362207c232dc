"""Budgets through kill -9: the calls that were made and those on record agree, to the call."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import forking
from tests.connecting import Hub, a_connection
from tests.judge_crowd import AT_ONCE
from tests.live import environment
from tests.model_server import ModelRequest, Says, a_model
from tests.source_tree import ROOT
from tests.storing import a_store

BUDGET_PER_KILL = 75  # enough that some is left after all kills
LONGEST_LIFE_S = 0.3
AFTER_THE_LEASE = 11  # minutes


def slowly(_: ModelRequest) -> Says:
    """Return an answer that takes long enough to be killed in."""
    time.sleep(0.03)
    return Says({"score": 1})


def begun(data: Path, *, minutes: int = 0) -> "subprocess.Popen[str]":
    """Start a process; return once it has sent its first request."""
    process = forking.start(
        [sys.executable, "-m", "tests.judge_crowd", str(data), str(minutes)],
        cwd=ROOT,
        env=environment(),
        stdout=forking.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def spend(data: Path, *, minutes: int) -> None:
    """Ask until there is no more to spend."""
    with begun(data, minutes=minutes) as process:
        output, _ = process.communicate(timeout=200)
    assert output == "spent\n"


def numbers(data: Path, select: str) -> tuple[int, ...]:
    """Return the one row that the database answers, all of it numbers."""
    with a_store(data) as store:
        (row,) = Hub(store).rows(select)
    return tuple(int(str(number)) for number in row)


@pytest.mark.timeout(900)
@pytest.mark.kill("collector/live/budgets", "collector/live/judges", "evaluators/chat", "storage/judging")
def test_kills_neither_overspend_a_budget_nor_eat_it(tmp_path: Path, seed: int, kills: int) -> None:
    """Over kills no more requests are made than the budget has, and later all of it is answered."""
    chance = random.Random(seed)
    budget = kills * BUDGET_PER_KILL
    every = (
        "SELECT count(*) FILTER (outcome = 'answered'), count(*) FILTER (outcome IS NULL), "
        "count(*) FILTER (outcome = 'lost'), count(*) - count(DISTINCT call_id) FROM judge_call"
    )
    with a_model(slowly) as model:
        with a_store(tmp_path) as store:
            Hub(store).connections.create(a_connection(model.base_url, budget={"callsPerDay": budget}))
        for _ in range(kills):
            with begun(tmp_path) as process:
                time.sleep(chance.uniform(0, LONGEST_LIFE_S))
                process.kill()
        spend(tmp_path, minutes=0)
        answered, cut_off, lost, doubled = numbers(tmp_path, every)
        assert (answered + cut_off, lost, doubled) == (budget, 0, 0)
        assert 0 < cut_off <= kills * AT_ONCE
        assert answered <= len(model.requests) <= budget
        spend(tmp_path, minutes=AFTER_THE_LEASE)
        assert numbers(tmp_path, every) == (budget, 0, cut_off, 0)
        assert budget <= len(model.requests) <= budget + cut_off
        print(f"{kills} kills, {len(model.requests)} requests, {cut_off} cut off, budget {budget}")  # noqa: T201 - shown with -s
