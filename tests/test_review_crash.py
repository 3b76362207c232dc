"""A server of reviews that is killed at any moment: no vote that was answered is lost, and no entry has too many."""

import random
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.live import Live, a_client, a_live_server
from tests.offline import Offline

ENTRIES_A_KILL = 20  # several times as many as are voted on before one
PEOPLE = 3


def review(url: str, queue: str, by: str, answered: set[tuple[str, str]]) -> None:
    """Vote until there is nothing left, or the server is gone."""
    with a_client() as client:
        api = Offline(url, client)
        try:
            while (entry := api.answer("POST", f"{queue}/next?by={by}").json()["entry"]) is not None:
                path = f"{queue}/entries/{entry['id']}/vote?by={by}"
                if api.answer("PUT", path, json={"label": "CORRECT"}).is_success:
                    answered.add((entry["itemResultId"], by))
        except (httpx.HTTPError, KeyError):
            return


def votes(server: Live) -> list[tuple[str, str]]:
    """Read the stored votes."""
    return [(str(item), str(by)) for item, by in server.sql("SELECT item_number, author FROM annotations ORDER BY ALL")]


@pytest.mark.timeout(900)
@pytest.mark.kill("collector/api/base", "collector/api/review", "storage/review")
def test_no_vote_that_was_answered_is_lost(tmp_path: Path, seed: int, kills: int) -> None:
    """After kill -9 in the midst of it each answered vote is there once, and no entry has more than it wants."""
    source = random.Random(seed)
    answered: set[tuple[str, str]] = set()
    queue = ""
    for kill in range(kills + 1):
        with a_live_server(tmp_path / "data") as server, a_client() as client:
            url = server.http
            if not queue:
                queue = a_queue(Offline(url, client), ENTRIES_A_KILL * kills)
            stored = votes(server)
            assert set(stored) >= answered
            assert len(stored) == len(set(stored))
            before = len(answered)
            threads = [
                threading.Thread(target=review, args=(url, queue, f"person-{number}", answered))
                for number in range(PEOPLE)
            ]
            for thread in threads:
                thread.start()
            while kill < kills and len(answered) < before + 5:
                assert any(thread.is_alive() for thread in threads), "nothing is left to vote on"
                time.sleep(0.01)
            if kill < kills:
                time.sleep(source.uniform(0.0, 0.5))
                server.kill()
            for thread in threads:
                thread.join()
            if kill == kills:
                stored = votes(server)
                assert set(stored) >= answered
                assert max(sum(item == each for each, _ in stored) for item, _ in stored) <= PEOPLE - 1


def a_queue(api: Offline, entries: int) -> str:
    """Return the path of a queue with `entries` items of a run, each to be reviewed by two people."""
    run = api.begin()
    for first in range(0, entries, 20):
        api.report(run, *({"itemKey": f"item {number}"} for number in range(first, first + 20)))
    made = api.ask("POST", "review-queues", 201, json={"name": "q", "reviewers": PEOPLE - 1})
    queue = f"review-queues/{made['id']}"
    assert api.ask("POST", f"{queue}/entries", 201, json={"runId": run}) == {"added": entries}
    return queue
