"""Budgets through kill -9: the calls that were made and those on record agree, to the call."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.connecting import Hub, a_connection
from tests.judge_crowd import AT_ONCE
from tests.live import environment
from tests.model_server import Asked, Says, a_model
from tests.source_tree import ROOT
from tests.storing import a_store

BUDGET = 400
LONGEST_LIFE_S = 0.3


def slowly(_: Asked) -> Says:
    """An answer that takes long enough to be killed in."""
    time.sleep(0.03)
    return Says({"score": 1})


def begun(data: Path) -> "subprocess.Popen[str]":
    """A process that asks, from its first question on."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.judge_crowd", str(data)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.mark.timeout(600)
@pytest.mark.kill
def test_a_process_that_is_killed_spends_nothing_twice(tmp_path: Path, seed: int, kills: int) -> None:
    """Over twenty kills no more requests are made than the budget has, and all but those that were cut off are made."""
    chance = random.Random(seed)
    with a_model(slowly) as model:
        with a_store(tmp_path) as store:
            Hub(store).connections.create(a_connection(model.base_url, budget={"callsPerDay": BUDGET}))
        for _ in range(kills):
            with begun(tmp_path) as process:
                time.sleep(chance.uniform(0, LONGEST_LIFE_S))
                process.kill()
        with begun(tmp_path) as process:
            output, _ = process.communicate(timeout=120)
        assert output == "spent\n"
        with a_store(tmp_path) as store:
            ((calls, unsettled, numbers),) = Hub(store).rows(
                "SELECT count(*) FILTER (WHERE outcome IS DISTINCT FROM 'unsent'), "
                "count(*) FILTER (WHERE outcome IS NULL), count(DISTINCT call_id) FROM judge_call"
            )
            assert isinstance(unsettled, int)
            assert calls == BUDGET
            assert numbers == Hub(store).rows("SELECT count(*) FROM judge_call")[0][0]
            assert unsettled <= kills * AT_ONCE
            assert BUDGET - unsettled <= len(model.asked) <= BUDGET
            print(f"{kills} kills, {len(model.asked)} requests of {BUDGET}, {unsettled} unsettled")  # noqa: T201 - shown with -s
