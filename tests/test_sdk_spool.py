"""The spool of the SDK: nothing in it is lost, whatever it holds, with other users of it, and on a full disk."""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.offline import Offline, an_offline_server
from tests.serving import Answers, a_scripted_server, unused_port
from tests.storing import files_no_larger_than
from tracejury import Client, Dataset, Example, Experiment, LostItems, Reporter, Result, replay

pytestmark = pytest.mark.costly("collector/api", "collector/experiments", "sdk/python/src", "storage/offline")

ITEMS = 8


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Start one server for all tests."""
    with an_offline_server(tmp_path_factory.mktemp("spool") / "data") as server:
        yield server


@pytest.fixture(name="client_of")
def clients() -> Iterator[Callable[..., Client]]:
    """Return what makes clients, which are closed after the test."""
    with ExitStack() as stack:
        yield lambda url, **more: stack.enter_context(closing(Client(url, patience_s=0, **more)))


@pytest.fixture(name="away")
def a_client_of_no_server(client_of: Callable[..., Client]) -> Client:
    """Return the client of a server that is unavailable."""
    return client_of(f"http://127.0.0.1:{unused_port()}")


def run(
    client: Client, spool: str | Path | None, *, name: str = "spooled", bad: int | None = None, key: str | None = None
) -> Result:
    """Run an experiment, one item of which is more than a request may hold."""

    def task(example: Example) -> Any:
        return "x" * (9 << 20) if example.input == bad else example.input

    dataset = Dataset("numbers", [Example(id=str(number), inputs={"input": number}) for number in range(ITEMS)])
    return Experiment(
        name, dataset, task, [lambda *_: True], client=client, spool=spool, run_key=key, fail_on_lost=False
    ).run()


def stored(server: Offline, name: str) -> list[tuple[str, int]]:
    """Return how the runs of an experiment ended, with their items."""
    runs = server.ask("GET", "runs?size=100")
    return [(each["status"], each["itemCount"]) for each in runs if each["experimentName"] == name]


def test_an_item_of_the_spool_that_is_refused_costs_no_other(
    tmp_path: Path, server: Offline, away: Client, client_of: Callable[..., Client]
) -> None:
    """Of a batch spooled during an outage, the server gets all items it accepts; refused ones are kept separately."""
    assert run(away, tmp_path, name="halves", bad=3).spooled_items == ITEMS
    assert replay(tmp_path, client_of(server.url)) == ITEMS - 1
    assert stored(server, "halves") == [("SUCCESS", ITEMS - 1)]
    (refused,) = (tmp_path / "refused-items.ndjson").read_text().splitlines()
    assert [each["itemKey"] for each in json.loads(refused)["items"]] == ["3"]
    assert not (tmp_path / "failed-items.ndjson").exists()


def test_runs_of_one_key_stay_apart(
    tmp_path: Path, server: Offline, away: Client, client_of: Callable[..., Client]
) -> None:
    """A key names a run of one experiment: runs of others that an outage left in the spool have it too."""
    for name in ("nightly a", "nightly b"):
        run(away, tmp_path, name=name, key="nightly")
    assert replay(tmp_path, client_of(server.url)) == 2 * ITEMS
    assert [stored(server, name) for name in ("nightly a", "nightly b")] == [[("SUCCESS", ITEMS)]] * 2


@pytest.mark.costly("sdk/python/src")
@pytest.mark.parametrize(
    "line", ["", "null", "[]", "7", '"x"', "{}", '{"runId": "x"}', '{"start": 1}', '{"runId": "a", "items": 3}', "{"]
)
def test_a_line_that_cannot_be_read_stops_no_other(
    tmp_path: Path, server: Offline, away: Client, client_of: Callable[..., Client], line: str
) -> None:
    """Lines before and behind an unreadable one are sent, and it is kept apart."""
    name = f"line {line}"
    run(away, tmp_path, name=name)
    file = tmp_path / "failed-items.ndjson"
    items, ending = file.read_text().splitlines()
    file.write_text(f"{items}\n{line}\n{ending}\n")
    assert replay(tmp_path, client_of(server.url)) == ITEMS
    assert stored(server, name) == [("SUCCESS", ITEMS)]
    kept = (tmp_path / "refused-items.ndjson").read_text().splitlines()
    assert [json.loads(each)["line"] for each in kept] == [f"{line}\n"]


def test_a_line_that_is_cut_off_takes_no_other_with_it(
    tmp_path: Path, server: Offline, away: Client, client_of: Callable[..., Client]
) -> None:
    """A line behind the rest of a killed writer is one of its own."""
    (tmp_path / "failed-items.ndjson").write_text('{"runId": "0')
    run(away, tmp_path, name="cut")
    assert replay(tmp_path, client_of(server.url)) == ITEMS
    assert stored(server, "cut") == [("SUCCESS", ITEMS)]


def test_a_full_disk_is_no_spool(tmp_path: Path, away: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Partly written items count as lost, and the earlier contents of the spool are unchanged."""
    before = run(away, tmp_path)
    assert before.spooled_items == ITEMS
    file = tmp_path / "failed-items.ndjson"
    content = file.read_bytes()
    with files_no_larger_than(len(content) + 100), caplog.at_level(logging.WARNING):
        result = run(away, tmp_path)
    assert (result.lost_items, result.spooled_items) == (ITEMS, 0)
    assert file.read_bytes() == content
    assert "cannot be kept" in caplog.text


def test_a_replay_that_was_cut_off_and_later_items_are_sent_at_once(
    tmp_path: Path, server: Offline, away: Client, client_of: Callable[..., Client]
) -> None:
    """One run after a crash in the middle of a replay sends all that is there."""
    run(away, tmp_path, name="first")
    (tmp_path / "failed-items.ndjson").rename(tmp_path / "failed-items.replaying")
    run(away, tmp_path, name="second")
    assert replay(tmp_path, client_of(server.url)) == 2 * ITEMS
    assert (stored(server, "first"), stored(server, "second")) == ([("SUCCESS", ITEMS)], [("SUCCESS", ITEMS)])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["failed-items.replaying.lock", "spool.lock"]


@pytest.mark.costly("collector/api/offline", "sdk/python/src", "storage/offline")
@pytest.mark.timeout(120)
def test_replays_beside_writers_lose_nothing(
    tmp_path: Path, server: Offline, away: Client, client_of: Callable[..., Client]
) -> None:
    """Runs write into a spool while another one sends its contents, and each item arrives."""
    is_over, runs = threading.Event(), 12

    def write() -> None:
        for _ in range(runs // 2):
            run(away, tmp_path, name="beside")

    def send() -> None:
        while not is_over.is_set():
            replay(tmp_path, client)

    client = client_of(server.url)
    writers, sender = [threading.Thread(target=write) for _ in range(2)], threading.Thread(target=send)
    for each in [*writers, sender]:
        each.start()
    for each in writers:
        each.join()
    is_over.set()
    sender.join()
    replay(tmp_path, client)
    assert stored(server, "beside") == [("SUCCESS", ITEMS)] * runs


@pytest.mark.parametrize("body", [b"<html>", b"", b"{}", b"[]", b"null", b'{"stored": 1}', b"\xff"])
def test_an_answer_that_is_not_of_a_server_delivers_nothing(
    tmp_path: Path, body: bytes, client_of: Callable[..., Client]
) -> None:
    """A response of a proxy with status 200 does not count: items are kept, at the start of a run and later."""
    with a_scripted_server() as url:
        Answers.queue.append((200, {}, body))
        result = run(client_of(url), tmp_path / "start")
        assert (result.run_id, result.lost_items, result.spooled_items) == (None, ITEMS, ITEMS)
        Answers.queue[:] = [(201, {}, b'{"runId": "019", "status": "RUNNING"}'), (200, {}, body)]
        result = run(client_of(url), tmp_path / "later")
        assert (result.run_id, result.lost_items, result.spooled_items) == ("019", ITEMS, ITEMS)


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
def test_the_end_of_a_run_is_kept_if_it_may_be_taken_later(
    tmp_path: Path, status: int, client_of: Callable[..., Client]
) -> None:
    """A key that was revoked, or a proxy, leaves no run open: the next replay ends it, with the reason."""
    ending = {"status": "SUCCESS", "reason": "3 items could not be delivered"}
    with a_scripted_server() as url:
        Answers.queue.append((status, {}, b"{}"))
        reporter = Reporter(client_of(url), spool=tmp_path)
        reporter.close()
        reporter.end("019", "SUCCESS", reason=ending["reason"])
        (kept,) = (tmp_path / "failed-items.ndjson").read_text().splitlines()
        assert json.loads(kept) == {"runId": "019", **ending}
        Answers.queue[:] = [(200, {}, b"{}")]
        replay(tmp_path, client_of(url))
        assert json.loads(Answers.requests[-1][2]) == ending


def test_a_closed_reporter_takes_nothing(away: Client) -> None:
    """An item that would never be sent is an error of its caller, and so is one that is not JSON."""
    reporter = Reporter(away, spool=None)
    for item in ({"a": 10**5000}, {"a": float("nan")}, {"a": object()}):
        with pytest.raises((TypeError, ValueError)):
            reporter.report("run", item)
    reporter.close()
    with pytest.raises(RuntimeError, match="closed"):
        reporter.report("run", {"itemKey": "a"})
    reporter.close()
    assert reporter.lost_items == 0


@pytest.mark.parametrize("error", [SystemExit, RuntimeError])
def test_what_is_told_of_lost_items_may_raise(away: Client, error: type[BaseException]) -> None:
    """Whatever the callback raises, all items are counted."""

    def on_lost(*_: Any) -> None:
        raise error

    dataset = Dataset("one", [Example(id="a"), Example(id="b")])
    experiment = Experiment("raising", dataset, lambda _: "x", [lambda *_: True], client=away, spool=None)
    experiment.on_lost = on_lost
    with pytest.raises(LostItems) as lost:
        experiment.run()
    assert lost.value.result.lost_items == 2


def test_a_spool_that_is_named_by_a_text_keeps_items(
    tmp_path: Path, server: Offline, away: Client, client_of: Callable[..., Client]
) -> None:
    """As one that is named by a path: what an outage left there is sent later."""
    folder = str(tmp_path / "spool")
    kept = run(away, folder, name="by text")
    assert (kept.lost_items, kept.spooled_items) == (ITEMS, ITEMS)
    assert replay(folder, client_of(server.url)) == ITEMS
    assert stored(server, "by text") == [("SUCCESS", ITEMS)]
