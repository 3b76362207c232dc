"""Many simulated conversations: each once through kills, within a budget, and as goldens and experiments."""

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import forking
from tests.live import environment
from tests.model_server import ModelRequest, Says, Step, a_model
from tests.offline import Offline, an_offline_server
from tests.source_tree import ROOT
from tracejury import (
    ChatCompletions,
    Client,
    CommandTarget,
    ConversationTrajectory,
    Dataset,
    Example,
    Experiment,
    HttpTarget,
    JournalInUse,
    Scenario,
    Score,
    Simulation,
    SimulationBudget,
    dataset_of,
    read_scenarios,
    simulated_task,
    write_goldens,
)
from tracejury.journal import Journal
from tracejury.scenario import scenario_of
from tracejury.targets import AnswerPlaces, TargetFailed, filled

SCRIPTED = Scenario("Refund", "refund", user_turns=["I want my money back", "Order 7"], expected_outcome="A refund")


def echo(trajectory: ConversationTrajectory) -> str:
    """Answer with the question."""
    last = trajectory.last_user_message
    return f"You said: {'' if last is None else last.content}"


def both_sides(request: ModelRequest) -> Step:
    """Play user and agent on one server, by the requested model."""
    count = sum(message["role"] == "assistant" for message in request.body["messages"])
    return Says(f"{request.body['model']} {count}", 10, 5)


def quiet(_done: int, _of: int) -> None:
    """Show no progress."""


def a_simulation(*scenarios: Scenario, application: Any = echo, **more: Any) -> Simulation:
    """Build a simulation that shows no progress."""
    return Simulation("test", scenarios or (SCRIPTED,), application, progress=quiet, **more)


def places_in(journal: Path) -> Counter[tuple[str, int]]:
    """Count each conversation of a journal."""
    documents = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines() if '"lost"' not in line]
    return Counter((each["key"], each["trial"]) for each in documents)


@pytest.mark.timeout(600)
@pytest.mark.kill("collector/simulating", "sdk/python/src", "storage/offline")
def test_each_conversation_is_had_once_through_kills(tmp_path: Path, seed: int, kills: int) -> None:
    """A server plays both sides over the OpenAI wire; killed again and again, the simulation goes on, and ends."""
    source, journal = random.Random(seed), tmp_path / "journal.jsonl"
    environ = environment({"PYTHONPATH": f"{ROOT}:{ROOT / 'sdk' / 'python' / 'src'}"})
    with a_model(both_sides) as server:
        command = [sys.executable, "-m", "tests.simulation_process", server.base_url, str(journal), "20", "3"]
        for _ in range(kills):
            process = forking.start(command, cwd=ROOT, env=environ, stdout=forking.PIPE, text=True)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(source.uniform(0.05, 0.6))
            process.kill()
            process.communicate()
        done = forking.run(command, cwd=ROOT, env=environ, check=True, timeout=300)
        before = len(server.requests)
        again = forking.run(command, cwd=ROOT, env=environ, check=True, timeout=300)
    assert done.stdout.splitlines()[1].startswith("60 ")
    assert again.stdout.splitlines()[1] == "60 60 0 {'max_turns': 60}"
    assert len(server.requests) == before
    places = places_in(journal)
    assert set(places.values()) == {1}
    assert set(places) == {(f"parcel-{number}", trial) for number in range(20) for trial in (1, 2, 3)}
    documents = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    assert len({each["sessionId"] for each in documents}) == 60
    assert {each["turnCount"] for each in documents} == {3}
    assert len({each["seed"] for each in documents}) == 60


def test_what_was_cut_off_is_had_again(tmp_path: Path) -> None:
    """A half line and a fault of the simulator are removed from the journal, and everything else is unchanged."""
    journal = tmp_path / "journal.jsonl"
    fails = True

    def model(_: list[Mapping[str, Any]]) -> str:
        if fails:
            raise RuntimeError("no quota")
        return "hello"

    played = Scenario("Played", "played", persona="confusedUser")
    simulation = a_simulation(SCRIPTED, played, model=model, journal=journal, max_turns=1)
    first = simulation.run()
    assert [each.scenario.key for each in first.errors("simulator")] == ["played"]
    kept = journal.read_bytes().splitlines(keepends=True)[0]
    journal.write_bytes(journal.read_bytes() + b'{"key": "refu')
    fails = False
    second = simulation.run()
    assert (second.resumed, second.stop_reasons()) == (1, {"max_turns": 1, "user_ended": 1})
    assert journal.read_bytes().startswith(kept)
    assert set(places_in(journal).values()) == {1}
    journal.write_text('{"no": "conversation"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="line 1 is not a conversation"):
        simulation.run()


def test_a_journal_is_of_its_scenarios(tmp_path: Path) -> None:
    """A scenario that says something else under its old key is not taken for one that was had."""
    journal = tmp_path / "journal.jsonl"
    a_simulation(journal=journal).run()
    before = journal.read_bytes()
    with pytest.raises(ValueError, match="the scenario refund has changed since the journal was written"):
        a_simulation(replace(SCRIPTED, user_turns=["Something else"]), journal=journal).run()
    assert journal.read_bytes() == before


def test_two_processes_do_not_write_one_journal(tmp_path: Path) -> None:
    """The second is refused, and the first is not disturbed."""
    journal = tmp_path / "journal.jsonl"
    with Journal(journal), pytest.raises(JournalInUse):
        a_simulation(journal=journal).run()
    assert a_simulation(journal=journal).run().resumed == 0


def test_conversations_run_some_at_a_time() -> None:
    """Never more than were allowed, and the results stand in the order of the scenarios."""
    running, most, lock = 0, 0, threading.Lock()

    def application(_: ConversationTrajectory) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return "ok"

    scenarios = [Scenario(f"s{number}", user_turns=["a"]) for number in range(6)]
    result = a_simulation(*scenarios, application=application, trials=2, parallelism=3).run()
    assert most == 3
    expected = [(f"scenario-{number}", trial) for number in range(1, 7) for trial in (1, 2)]
    assert [(each.scenario.key, each.trial) for each in result.simulated] == expected


def test_a_budget_holds_over_all_and_through_going_on(tmp_path: Path) -> None:
    """Scenarios beyond the budget are reported; with a larger one the simulation resumes, including earlier costs."""
    scenarios = [Scenario(f"s{number}", user_turns=["a", "b"]) for number in range(5)]
    journal = tmp_path / "journal.jsonl"
    first = a_simulation(*scenarios, budget=SimulationBudget(calls=5), journal=journal).run()
    assert (first.spent["calls"], len(first.left), first.stop_reasons()) == (5, 3, {"user_ended": 2, "budget": 1})
    assert len(places_in(journal)) == 2
    again = a_simulation(*scenarios, budget=SimulationBudget(calls=5), journal=journal).run()
    assert (again.resumed, again.spent["calls"]) == (2, 5)
    whole = a_simulation(*scenarios, budget=SimulationBudget(calls=11), journal=journal).run()
    assert (whole.resumed, whole.left, whole.spent["calls"]) == (2, [], 11)  # one of them broken off by the budget


@pytest.mark.parametrize("budget", [SimulationBudget(tokens=100), SimulationBudget(usd=0.0001)])
def test_tokens_and_usd_are_limited(budget: SimulationBudget) -> None:
    """A budget limits the tokens that the model reports, and their cost by the prices."""
    with a_model(both_sides) as server:
        model = ChatCompletions(server.base_url, "user", input_usd=1.0, output_usd=1.0)
        scenarios = [Scenario("s", persona="noviceUser")]
        result = a_simulation(*scenarios, model=model, trials=20, budget=budget).run()
    assert result.spent["tokensIn"] + result.spent["tokensOut"] == 105
    assert result.stop_reasons() == {"budget": 1}
    with pytest.raises(ValueError, match="prices"):
        a_simulation(*scenarios, model=ChatCompletions("http://x", "m"), budget=SimulationBudget(usd=1))


def test_a_file_of_scenarios_is_read_and_its_faults_are_named(tmp_path: Path) -> None:
    """JSON and JSONL; a script and a persona exclude each other."""
    file = tmp_path / "scenarios.jsonl"
    file.write_text(
        '{"id": "a", "scenario": "A", "userTurns": ["x"], "expectedOutcome": "o", "metadata": {"level": 1}}\n'
        '{"inputs": {"scenario": "B\u2028", "persona": "offTopicUser", "maxTurns": 3}}\n',
        encoding="utf-8",
    )
    first, second = read_scenarios(file)
    assert (first.key, first.metadata, second.key, second.max_turns) == ("a", {"level": 1}, "scenario-2", 3)
    for wrong, message in (
        ({"scenario": "A"}, "exactly one of"),
        ({"scenario": "A", "persona": "p", "userTurns": ["x"]}, "exactly one of"),
        ({"scenario": "A", "persona": "p", "turns": 3}, "turns: unknown key"),
        ({"scenario": "A", "userTurns": "x"}, "userTurns: not a valid value for this key"),
        ({"userTurns": ["x"]}, "scenario: required"),
        ({"inputs": 5}, "and so are its inputs"),
        ({"inputs": [["scenario", "A"], ["persona", "p"]]}, "and so are its inputs"),
    ):
        with pytest.raises(ValueError, match=message):
            scenario_of(wrong)
    with pytest.raises(ValueError, match="needs a model"):
        a_simulation(second)


def test_goldens_are_made_again_byte_for_byte(tmp_path: Path) -> None:
    """Of a script the last answer is expected; nothing of time or chance is in the file."""
    expecting = Scenario("Known", "known", user_turns=["a"], expected_outputs={"output": "b"}, metadata={"level": 2})
    played = Scenario("Played", persona="confusedUser")

    def breaks(_: ConversationTrajectory) -> str:
        raise RuntimeError

    def model(_: list[Mapping[str, Any]]) -> str:
        return "huh?"

    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for file in files:
        write_goldens(
            file, a_simulation(SCRIPTED, expecting, played, model=model, max_turns=1, parallelism=3).run().goldens()
        )
    assert files[0].read_bytes() == files[1].read_bytes()
    dataset = Dataset.load(files[0])
    assert [each.id for each in dataset] == ["golden-1", "golden-2", "golden-3"]
    assert dataset[0].input.startswith("User: I want my money back\nAssistant: You said: I want my money back\n")
    assert [each.expected_outputs for each in dataset] == [{"output": "You said: Order 7"}, {"output": "b"}, {}]
    assert dataset[0].metadata == {"scenario": "Refund", "turnCount": 2, "expectedOutcome": "A refund"}
    assert dataset[1].metadata["level"] == 2
    assert a_simulation(application=breaks).run().goldens() == []


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return one server for all."""
    with an_offline_server(tmp_path_factory.mktemp("simulation") / "data") as server:
        yield server


def test_an_experiment_runs_over_scenarios(server: Offline, tmp_path: Path) -> None:
    """Scenarios are a dataset of the server; trials give pass^k, and faults of the simulator do not count."""
    seen: Counter[str] = Counter()

    def application(trajectory: ConversationTrajectory) -> str:
        seen[trajectory.scenario] += trajectory.turn_count == 0
        if trajectory.scenario == "Flaky":
            return "refunded" if seen["Flaky"] % 2 else "no"
        if trajectory.scenario == "Broken":
            raise RuntimeError("down")
        return "refunded"

    def model(_: list[Mapping[str, Any]]) -> str:
        raise RuntimeError("no quota")

    def refunded(_example: Example, outputs: Mapping[str, Any]) -> Score:
        return Score(passed=outputs["output"] == "refunded", reason=outputs["trajectory"]["messages"][0]["content"])

    scenarios = [Scenario(name, name.lower(), user_turns=["Money!"]) for name in ("Good", "Flaky", "Broken")]
    scenarios.append(Scenario("Played", "played", persona="impatientUser"))
    server.dataset("talks")
    items = [{"id": each.id, "inputs": each.inputs, "metadata": each.metadata} for each in dataset_of("t", scenarios)]
    server.version(*items, name="talks")
    client = Client(server.url)
    dataset = Dataset.load("dataset://talks@1", client=client, cache=tmp_path)
    task = simulated_task(a_simulation(*scenarios, application=application, model=model))
    result = Experiment("talks", dataset, task, [refunded], project="shop", trials=4, client=client).run()
    client.close()
    assert result.pass_hat(1) is None  # no trial of "Played" counts
    known = replace(result, items=[item for item in result.items if item.key != "played"])
    assert known.pass_hat(1) == pytest.approx((1 + 0.5 + 0) / 3)
    assert known.pass_hat(2) == pytest.approx((1 + 1 / 6 + 0) / 3)
    assert known.pass_hat(4) == pytest.approx(1 / 3)
    assert known.pass_hat(5) is None
    run_document = server.ask("GET", f"runs/{result.run_id}?size=100")
    assert (run_document["errorItems"], run_document["passedItems"], run_document["datasetName"]) == (8, 6, "talks")
    kinds = Counter(each["errorKind"] for each in run_document["items"]["content"])
    assert kinds == {None: 8, "agent": 4, "simulator": 4}
    broken = next(each for each in run_document["items"]["content"] if each["errorKind"] == "agent")
    assert broken["actualOutput"]["trajectory"]["messages"] == [{"role": "user", "content": "Money!"}]
    assert {each["stopReason"] for each in run_document["items"]["content"] if each["errorKind"] is None} == {
        "user_ended"
    }
    seeds = {each["actualOutput"]["simulation"]["seed"] for each in run_document["items"]["content"]}
    assert len(seeds) == 16


PROGRAM = """
import json, os, sys
told = json.load(sys.stdin)
assert set(told) == {"sessionId", "scenario", "message", "messages"}, told
assert "tracejury.simulated=true" in os.environ["OTEL_RESOURCE_ATTRIBUTES"], os.environ
assert "tracejury.simulated=true" in os.environ["BAGGAGE"]
if told["message"] == "break":
    sys.exit("it is broken")
print(json.dumps({"output": told["message"].upper(), "state": {"seen": len(told["messages"])}, "tokensIn": 3,
                  "toolCalls": [{"name": "shout", "arguments": {"text": told["message"]}}]}))
"""


def test_a_command_is_a_target(tmp_path: Path) -> None:
    """A command runs for each turn, marked as simulated, and gives calls, state and tokens; if late, all of it ends."""
    (tmp_path / "agent.py").write_text(PROGRAM, encoding="utf-8")
    target = CommandTarget([sys.executable, "agent.py"], folder=tmp_path)
    scenario = Scenario("Shout", user_turns=["hey", "you", "break", "never"])
    (simulated,) = a_simulation(scenario, application=target).run().simulated
    had = simulated.conversation
    assert [each.content for each in had.trajectory.assistant_messages] == ["HEY", "YOU"]
    assert (had.state, had.agent_spent["tokensIn"]) == ({"seen": 3}, 6)
    assert [call.arguments["text"] for call in had.trajectory.tool_calls()] == ["hey", "you"]
    assert (had.error_source, "it is broken" in str(had.error)) == ("agent", True)
    missing = a_simulation(application=CommandTarget(["no-such-program"])).run().simulated[0].conversation
    assert "cannot be started" in str(missing.error)
    beating = ["/bin/sh", "-c", "(while sleep 0.05; do echo beat >> beats; done) & wait"]
    slow = CommandTarget(beating, timeout_s=1, folder=tmp_path)
    assert "not finished within 1 s" in str(a_simulation(application=slow).run().simulated[0].conversation.error)
    size = (tmp_path / "beats").stat().st_size
    time.sleep(0.5)
    assert (tmp_path / "beats").stat().st_size == size > 0


def test_an_endpoint_is_a_target() -> None:
    """The conversation is put at its place in the body, headers mark it as simulated, and HTTP errors are reported."""
    with a_model(both_sides) as server:
        places = AnswerPlaces(output="/choices/0/message/content", tokens_in="/usage/prompt_tokens")
        body = {"model": "agent", "messages": "{{messages}}", "user": "{{sessionId}}"}
        target = HttpTarget(f"{server.base_url}/chat/completions", {"x-team": "search"}, body, places)
        (simulated,) = a_simulation(application=target).run().simulated
        broken = HttpTarget(f"{server.base_url}/nowhere", body={"messages": []})
        wrong = a_simulation(application=broken).run().simulated[0].conversation
        typo = HttpTarget(f"{server.base_url}/chat/completions", body="{{mesages}}")
        unknown = a_simulation(application=typo).run().simulated[0].conversation
    had = simulated.conversation
    assert [each.content for each in had.trajectory.assistant_messages] == ["agent 0", "agent 1"]
    assert had.agent_spent["tokensIn"] == 20
    first, second = server.requests[:2]
    assert [each["role"] for each in second.body["messages"]] == ["user", "assistant", "user"]
    assert (first.headers["x-team"], first.body["user"]) == ("search", had.session_id)
    assert set(first.headers["baggage"].split(",")) == {"tracejury.simulated=true", f"session.id={had.session_id}"}
    assert str(wrong.error).startswith("TargetFailed: HTTP 404")
    assert "there is no {{mesages}}" in str(unknown.error)
    with pytest.raises(TargetFailed, match="no text at"):
        places.reply(b"{}")


def test_a_place_of_ones_own_leaves_the_others_as_they_are() -> None:
    """Without a place of the output the reply has our names, and the places that are named count."""
    reply = AnswerPlaces(tokens_in="/usage/in").reply(b'{"output": "hi", "tokensOut": 2, "usage": {"in": 5}}')
    assert (reply.message.content, reply.tokens_in, reply.tokens_out) == ("hi", 5, 2)


def test_a_value_within_a_text_is_json() -> None:
    """A placeholder that is part of a text has no repr of Python."""
    body = {"prompt": "{{message}}: {{messages}} {{sessionId}}"}
    values = {"message": "hi", "messages": [{"role": "user", "content": "\u00e9"}], "sessionId": None}
    assert filled(body, values) == {"prompt": 'hi: [{"role": "user", "content": "\u00e9"}] null'}
