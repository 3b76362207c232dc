"""`tracejury simulate`: scenarios from a file, a command or an endpoint as the target, and spans that bear the mark."""

import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from collector.cli.main import main
from rules.marker import SIMULATED
from tests import forking
from tests.live import environment, until
from tests.model_server import CHAT, ModelRequest, Says, Status, Step, a_model
from tests.offline import Offline, an_offline_server
from tests.serving import run
from tracejury import ConversationSimulator, ConversationTrajectory, ScriptedUser, marking

AGENT = """
import json, sys
told = json.load(sys.stdin)
if told["message"] == "break":
    sys.exit("it is broken")
print(json.dumps({"output": f"You said {told['message']}"}))
"""
SCENARIOS = [
    {"id": "refund", "scenario": "Refund", "userTurns": ["Money!", "Order 7"], "expectedOutcome": "A refund"},
    {"id": "late", "scenario": "A late parcel", "userTurns": ["Where is it?"]},
]
RULE = """\
name: anything
conditions:
  - {field: name, op: "=", value: simulated turn}
evaluator: regex
config: {pattern: "."}
"""


def a_file(folder: Path, **plan: Any) -> Path:
    """Return the file of a simulation, with the agent beside it."""
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    content = {"simulation": "talks", "scenarios": SCENARIOS, "target": {"command": [sys.executable, "agent.py"]}}
    file = folder / "talks.yaml"
    file.write_text(yaml.safe_dump(content | plan), encoding="utf-8")
    return file


def simulate(file: Path, *options: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["simulate", str(file), *options])


def test_a_command_is_talked_to_and_each_conversation_is_kept(tmp_path: Path) -> None:
    """The journal stands beside the file, goldens are identical each time, and no finished conversation is repeated."""
    file, goldens = a_file(tmp_path, trials=2, parallelism=2), tmp_path / "goldens.jsonl"
    first = simulate(file, "--json", "--goldens", str(goldens))
    assert first.exit_code == 0, first.output
    document = json.loads(first.stdout)
    assert (document["conversations"], document["resumed"], document["left"]) == (4, 0, [])
    assert document["stopReasons"] == {"user_ended": 4}
    assert document["spent"]["calls"] == 6
    written = goldens.read_bytes()
    assert json.loads(written.splitlines()[0])["expectedOutputs"] == {"output": "You said Order 7"}
    again = simulate(file, "--json", "--goldens", str(goldens))
    assert json.loads(again.stdout)["resumed"] == 4
    assert goldens.read_bytes() == written
    assert len((tmp_path / "talks.conversations.jsonl").read_bytes().splitlines()) == 4
    shown = simulate(file)
    assert "refund" in shown.stdout
    assert "user_ended 2" in shown.stdout
    assert "6 calls" in shown.stdout


def both_sides(request: ModelRequest) -> Step:
    """Play user and agent on one server, by the key of the request."""
    assert request.headers["authorization"] == {"user": "Bearer u", "agent": "a"}[request.body["model"]]
    count = sum(message["role"] == "assistant" for message in request.body["messages"])
    return Says(
        "goodbye" if count == 2 and request.body["model"] == "agent" else f"{request.body['model']} {count}", 10, 5
    )


def test_a_model_talks_to_an_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios come from a file, keys from the environment, and a text ends the conversation."""
    monkeypatch.setenv("USER_KEY", "u")
    monkeypatch.setenv("AGENT_KEY", "a")
    (tmp_path / "s.jsonl").write_text('{"scenario": "Late", "persona": "impatientUser"}\n', encoding="utf-8")
    with a_model(both_sides) as server:
        target = {
            "url": server.base_url.removesuffix("/v1") + CHAT,
            "headersFrom": {"authorization": "AGENT_KEY"},
            "body": {"model": "agent", "messages": "{{messages}}"},
            "output": "/choices/0/message/content",
            "tokensIn": "/usage/prompt_tokens",
        }
        user: dict[str, Any] = {"baseUrl": server.base_url, "model": "user", "keyEnv": "USER_KEY"}
        user |= {"inputUsdPerMillion": 1.0, "outputUsdPerMillion": 2.0}
        plan = {"scenarios": "s.jsonl", "target": target, "user": user, "stopWhen": {"assistantSays": ["GOODBYE"]}}
        result = simulate(a_file(tmp_path, **plan), "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["stopReasons"] == {"stopping_condition": 1}
    assert (document["spent"]["calls"], document["spent"]["tokensIn"]) == (6, 60)
    assert document["spent"]["costUsd"] == pytest.approx(3 * 20e-6)
    journal = json.loads((tmp_path / "talks.conversations.jsonl").read_text(encoding="utf-8"))
    assert (journal["user"]["model"], journal["user"]["name"]) == ("user", "impatientUser")
    assert "Late" in journal["user"]["prompt"]


def test_exit_codes_tell_what_broke_off_and_what_is_left(tmp_path: Path) -> None:
    """The exit code is 1 if a conversation broke off, and 2 if some are left or nothing could be run."""
    broken = simulate(a_file(tmp_path, scenarios=[{"scenario": "a", "userTurns": ["break"]}]))
    assert (broken.exit_code, "error of the agent: scenario-1, trial 1" in broken.output) == (1, True)
    left = simulate(a_file(tmp_path, budget={"calls": 2}), "--journal", str(tmp_path / "j.jsonl"))
    assert (left.exit_code, "1 conversations are left" in left.output) == (2, True)
    with a_model(Status(400)) as server:
        user = {"baseUrl": server.base_url, "model": "user"}
        plan = {"scenarios": [{"scenario": "a", "persona": "noviceUser"}], "user": user}
        fault = simulate(a_file(tmp_path, **plan), "--json", "--journal", str(tmp_path / "k.jsonl"))
    assert (fault.exit_code, json.loads(fault.stdout)["simulatorErrors"]) == (1, 1)
    assert json.loads(fault.stdout)["agentErrors"] == 0


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"target": {}}, "needs either a command or a url"),
        ({"target": {"url": "http://x/", "environment": {}}}, "environment: not used with a url"),
        ({"target": {"url": "http://x/", "headersFrom": {"a": "NO_SUCH_VARIABLE"}}}, "NO_SUCH_VARIABLE is not set"),
        ({"user": {"baseUrl": "http://x/v1", "model": "m", "keyEnv": "NO_SUCH_VARIABLE"}}, "user.keyEnv"),
        ({"scenarios": []}, "a simulation needs a scenario"),
        ({"scenarios": [{"scenario": "a"}]}, "scenario 1: a scenario needs exactly one of"),
        ({"scenarios": [{"scenario": "a", "persona": "x"}]}, "needs a model that plays its user"),
        ({"scenarios": [SCENARIOS[0], SCENARIOS[0]]}, "two scenarios are called refund"),
        ({"scenarios": "missing.jsonl"}, "No such file"),
        ({"maxTurns": 0}, "maxTurns"),
        ({"paralelism": 2}, "did you mean parallelism?"),
    ],
)
def test_what_cannot_be_run_is_told_by_its_key(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    """Before anything is asked."""
    result = simulate(a_file(tmp_path, **wrong))
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Start one server for all tests."""
    with an_offline_server(tmp_path_factory.mktemp("simulate") / "data") as server:
        yield server


def test_simulated_sessions_are_marked_and_no_rule_takes_them(server: Offline, tmp_path: Path) -> None:
    """Each turn is a trace of the session, with the mark; a rule that would match passes it over, and says why."""
    file = a_file(tmp_path, project="shop")
    command = [str(Path(sys.executable).parent / "tracejury"), "simulate", str(file), "--server", server.url, "--json"]
    done = forking.run(command, check=True, timeout=120, env=environment())
    assert json.loads(done.stdout)["conversations"] == 2
    statement = (
        f"SELECT session_id, count(*), bool_and(attributes['{SIMULATED}'] = 'true') FROM spans"
        " WHERE name = 'simulated turn' GROUP BY 1 ORDER BY 2"
    )
    rows = until(partial(server.sql, statement), lambda rows: sum(row[1] for row in rows) == 3)
    assert [row[1:] for row in rows] == [[1, True], [2, True]]
    documents = [json.loads(line) for line in (tmp_path / "talks.conversations.jsonl").read_text().splitlines()]
    assert {row[0] for row in rows} == {each["sessionId"] for each in documents}
    until(partial(server.sql, "SELECT count(output) FROM spans WHERE name = 'simulated turn'"), [[3]].__eq__)
    rule = tmp_path / "rule.yaml"
    for rule_text, outcome in ((RULE, "filtered"), (RULE.replace("evaluator", MARKED), "matched")):
        rule.write_text(rule_text, encoding="utf-8")
        document = json.loads(run("rules", "test", rule, "--server", server.url, "--json").stdout)
        assert [each["decision"] for each in document["decisions"]] == [outcome], document
        if outcome == "filtered":
            assert SIMULATED in json.dumps(document["decisions"])


MARKED = f"  - {{field: attributes.{SIMULATED}, op: exists}}\nevaluator"


def test_spans_of_the_application_bear_the_mark_too() -> None:
    """Whatever starts while the user waits is marked, in threads as well; what starts before or after is not."""
    if not hasattr(trace.get_tracer_provider(), "add_span_processor"):
        trace.set_tracer_provider(TracerProvider())
    provider: Any = trace.get_tracer_provider()
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("app")

    def application(_: ConversationTrajectory) -> str:
        with tracer.start_as_current_span("agent"), tracer.start_as_current_span("tool"):
            return str(marking.current_session())

    with tracer.start_as_current_span("outside"):
        simulated = ConversationSimulator(ScriptedUser(["a", "b"]), application).simulate()
    spans: Mapping[str, list[Any]] = {}
    for span in exporter.get_finished_spans():
        spans = {**spans, span.name: [*spans.get(span.name, []), span]}
    assert SIMULATED not in spans["outside"][0].attributes
    for name in ("agent", "tool", "simulated turn"):
        assert [span.attributes[SIMULATED] for span in spans[name]] == ["true", "true"]
        assert {span.attributes["session.id"] for span in spans[name]} == {simulated.session_id}
    assert len(set(simulated.trace_ids)) == 2
    assert {f"{span.context.trace_id:032x}" for span in spans["tool"]} == set(simulated.trace_ids)
    assert spans["simulated turn"][0].links[0].context.trace_id == spans["outside"][0].context.trace_id
    assert marking.current_session() is None
    assert simulated.trajectory.assistant_messages[0].content == simulated.session_id


def test_the_mark_is_one_name_in_both_halves() -> None:
    """The SDK writes the mark under the name that rules read."""
    assert marking.SIMULATED == SIMULATED
