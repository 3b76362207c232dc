"""The program's evaluators from the SDK: fed to one process, or asked on the server, with the same fingerprints."""

import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluators.registry import KINDS
from tests.model_server import ModelRequest, Says, a_model
from tests.offline import an_offline_server
from tracejury import Builtin, Client, Dataset, Example, Experiment, ProgramEnded, ProgramNotFound, RunEnded
from tracejury.builtin import Program

COMMAND = (str(Path(sys.executable).parent / "tracejury"), "evaluate", "--batch", "-")
EXAMPLES = [
    Example(id=str(number), inputs={"input": number}, expected_outputs={"output": str(number)}) for number in range(4)
]


@pytest.fixture(name="client", scope="module")
def of_a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Yield a client of one server for all."""
    with an_offline_server(tmp_path_factory.mktemp("builtin") / "data") as server:
        client = Client(server.url)
        yield client
        client.close()


def answer(example: Example) -> str:
    """Double a number, except 3."""
    return str(example.input) if example.input != 3 else "7"


def test_both_ways_say_the_same(client: Client) -> None:
    """Scores, reasons, directions and fingerprints of the program are those of the server."""
    scores = []
    for on in ("program", "server"):
        evaluators = [
            Builtin("exact_match", on=on, command=COMMAND),
            Builtin("regex", {"pattern": "[0-2]"}, on=on, command=COMMAND),
            Builtin("length", {"minimumOutputLength": 0, "maximumOutputLength": 9}, on=on, command=COMMAND),
        ]
        result = Experiment(f"by {on}", Dataset("d", EXAMPLES), answer, evaluators, client=client, parallelism=2).run()
        assert result.pass_rate == 0.75
        scores.append(sorted(comparable(score) for item in result.items for score in item.scores))
        run = client.get(f"/runs/{result.run_id}")
        assert (run["status"], run["passedItems"]) == ("SUCCESS", 3)
        assert all(len(each["fingerprint"]) == 64 for each in run["evaluators"])
    assert len(scores[0]) == 12
    assert scores[0] == scores[1]


def comparable(score: Any) -> tuple[Any, ...]:
    """Return the fields in which both ways must agree."""
    return (score.name, score.value, score.passed, score.threshold, score.direction, score.fingerprint, score.reason)


@pytest.mark.parametrize("status", ["RUNNING", "SUCCESS", "FAILED"])
def test_a_resumed_run_waits_for_the_evaluators_of_the_server(tmp_path: Path, status: str) -> None:
    """A run that lacks only the server's scores gets them, whether it has ended or not, unless it has failed."""
    released = threading.Event()

    def script(_: ModelRequest) -> Says:
        released.wait(30)
        return Says({"score": 0.9, "reason": "right"})

    def interrupted(done: int, of: int) -> None:
        if status != "SUCCESS" and done == of:
            raise KeyboardInterrupt

    judge = Builtin("llm_judge", {"criteria": "Is it right?"}, on="server", connection="local")
    with a_model(script) as model:
        connection = {"baseUrl": model.base_url, "model": "m", "protocol": "CHAT_COMPLETIONS"}
        with an_offline_server(tmp_path / "data", llm_connections={"local": connection}) as server:
            client = Client(server.url)
            experiment = Experiment("e", Dataset("d", EXAMPLES), answer, [judge], project="shop", run_key="k")
            experiment.client, experiment.evaluation_s, experiment.progress = client, 0, interrupted
            with pytest.raises((KeyboardInterrupt, TimeoutError)):
                experiment.run()
            run = server.ask("POST", "projects/shop/runs", json={"experimentName": "e", "runKey": "k"})["runId"]
            if status == "FAILED":
                server.end(run, status)
                with pytest.raises(RunEnded, match="is EVALUATING"):
                    experiment.run()
                released.set()
            else:
                threading.Timer(1, released.set).start()
                experiment.evaluation_s = 60
                result = experiment.run()
                assert (result.run_id, result.skipped) == (run, 4)
                assert [[score.value for score in item.scores] for item in result.items] == [[0.9]] * 4
            client.close()


def test_every_builtin_is_answered(client: Client) -> None:
    """Whatever its configuration needs, each of them has an answer or a failure that names the missing part."""
    del client
    evaluators = [Builtin(name, command=COMMAND) for name in KINDS]
    (item,) = Experiment("all", Dataset("d", EXAMPLES[:1]), answer, evaluators).run().items
    assert len(item.scores) == len(KINDS)
    assert all(score.error_kind for score in item.scores if score.error)
    by_name = {score.name: score for score in item.scores}
    assert by_name["Exact Match"].success is True


def test_a_score_is_there_before_the_next_line_is_fed() -> None:
    """Called by itself, as a test does, each call is answered; the process is the same."""
    exact = Builtin("exact_match", command=COMMAND)
    assert [exact(example, {"output": "1"}).success for example in EXAMPLES] == [False, True, False, False]


def test_a_program_that_dies_costs_what_waits_and_no_more() -> None:
    """Waiters get its last output, and the next question starts it again."""
    script = "import sys; print('no room', file=sys.stderr); sys.stdin.readline(); sys.exit(3)"
    program = Program((sys.executable, "-c", script))
    for _ in range(2):
        with pytest.raises(ProgramEnded, match="ended with 3: no room"):
            program.ask({"evaluator": "x"}).result(timeout=30)
    program.close()


@pytest.mark.parametrize("line", ["a stray print", '{"id": 1', "{}", "[1]"])
def test_a_program_that_answers_no_document_is_ended(line: str) -> None:
    """A line that is not an answer fails what waits, and the next question starts the program again."""
    program = Program((sys.executable, "-c", f"import time; print({line!r}, flush=True); time.sleep(60)"))
    for _ in range(2):
        with pytest.raises(ProgramEnded):
            program.ask({"evaluator": "x"}).result(timeout=30)
    program.close()


def test_a_program_that_is_not_there_is_told_at_once() -> None:
    """Before anything runs."""
    assert shutil.which("no-such-program") is None
    with pytest.raises(ProgramNotFound, match="not on the PATH"):
        Builtin("exact_match", command=("no-such-program",))
