"""Online evaluation from end to end: a process of the server, an agent that exports with the SDK, three rules, a model.

Everything is seen from outside, by the commands and by SQL.
"""

import json
import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests import forking
from tests.live import ANY_PORTS, TRACEJURY, Live, a_live_server, environment, until
from tests.model_server import ModelRequest, ModelServer, Says, a_model
from tests.traffic import a_batch, over_http

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/children",
    "collector/cli",
    "collector/conventions",
    "collector/listeners",
    "collector/evaluation",
    "collector/ingest.py",
    "collector/live",
    "collector/otlp",
    "collector/reading",
    "evaluators",
    "rules",
    "storage",
)

IN_FLIGHT = 8

TOOL_CHECK = """
name: tool errors
target: TRACE
conditions:
  - {field: span_type, op: "=", value: tool}
evaluator: tool_error
threshold: 1
"""
LLM_JUDGE = """
name: helpful
conditions:
  - {field: span_type, op: "=", value: llm}
criteria: The answer helps.
connectionId: local
threshold: 0.5
"""
CODE_JUDGE = """
name: short
target: TRACE
conditions:
  - {field: span_type, op: "=", value: agent}
evaluator: code_judge
config: {script: [python3, SCRIPT], threshold: 0.5}
"""
SCRIPT = """
import json, sys
case = json.load(sys.stdin)
answer = case["candidate_answer"]
print(json.dumps({"score": 1.0 if len(answer) < 40 else 0.0, "reasoning": f"{len(answer)} characters"}))
"""

AGENT = """
import json, sys
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode

provider = TracerProvider(resource=Resource.create({"service.name": "shop", "service.version": "1.2.0"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("shop")

def says(role, text):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

QUESTION, ANSWER = says("user", "Where is order 7?"), says("assistant", "It is on its way.")
with tracer.start_as_current_span("invoke_agent shop", attributes={"gen_ai.operation.name": "invoke_agent"}) as agent:
    agent.set_attribute("gen_ai.input.messages", QUESTION)
    with tracer.start_as_current_span("execute_tool lookup") as tool:
        tool.set_attribute("gen_ai.operation.name", "execute_tool")
        tool.set_attribute("gen_ai.tool.name", "lookup")
        tool.set_attribute("gen_ai.tool.call.id", "call_1")
        tool.set_attribute("gen_ai.tool.call.arguments", '{"order": 7}')
        if sys.argv[1] == "broken":
            tool.set_attribute("error.type", "timeout")
            tool.set_status(Status(StatusCode.ERROR, "the warehouse did not answer"))
        else:
            tool.set_attribute("gen_ai.tool.call.result", '{"state": "on its way"}')
    with tracer.start_as_current_span("chat small") as chat:
        chat.set_attribute("gen_ai.operation.name", "chat")
        chat.set_attribute("gen_ai.request.model", "small")
        chat.set_attribute("gen_ai.input.messages", QUESTION)
        chat.set_attribute("gen_ai.output.messages", ANSWER)
    agent.set_attribute("gen_ai.output.messages", ANSWER)
print(format(agent.get_span_context().trace_id, "032x"))
provider.shutdown()
"""


@contextmanager
def a_judging_server(
    folder: Path, model: ModelServer, *, rules: Mapping[str, str], env: Mapping[str, object] | None = None
) -> Iterator[Live]:
    """Start a server with these rules, whose connection `local` is the model; traces settle soon."""
    config = write_config(folder, model, rules)
    with a_live_server(folder / "data", flags=(*ANY_PORTS, "--config", str(config)), env=env) as server:
        yield server


def write_config(folder: Path, model: ModelServer, rules: Mapping[str, str]) -> Path:
    """Write the settings and the rules as files; return the path of the settings."""
    (folder / "rules").mkdir(exist_ok=True)
    for name, text in rules.items():
        (folder / "rules" / f"{name}.yaml").write_text(text)
    connection = {"baseUrl": model.base_url, "model": "judge-1", "protocol": "CHAT_COMPLETIONS"}
    prices = {"price": {"inputUsdPerMillion": 1.0, "outputUsdPerMillion": 2.0}}
    settings = {
        "rules": str(folder / "rules"),
        "llm_connections": {"local": connection | prices},
        "settle_after_root_seconds": 0.5,
        "settle_quiet_seconds": 2,
    }
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    return config


def an_agent(server: Live, how: str) -> str:
    """Run an instrumented agent in a process of its own; the id of its trace."""
    env = environment({"OTEL_EXPORTER_OTLP_ENDPOINT": server.otlp_http})
    done = forking.run([sys.executable, "-c", AGENT, how], env=env, check=True, timeout=60)
    return done.stdout.strip()


def command(server: Live, *arguments: str) -> str:
    """Run a command against the server; return its output."""
    done = forking.run([TRACEJURY, *arguments, "--server", server.http], env=environment(), timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_rules_judge_an_agent_within_seconds(tmp_path: Path) -> None:
    """A tool-call check, a judge and a program of one's own tell a good run from a broken one, and why."""
    script = tmp_path / "short.py"
    script.write_text(SCRIPT)
    rules = {"tools": TOOL_CHECK, "helpful": LLM_JUDGE, "short": CODE_JUDGE.replace("SCRIPT", str(script))}
    with (
        a_model(Says({"score": 0.9, "reason": "it answers"})) as model,
        a_judging_server(tmp_path, model, rules=rules) as server,
    ):
        good, broken = an_agent(server, "good"), an_agent(server, "broken")
        select = "SELECT trace_id, rule, outcome, passed FROM evaluations ORDER BY ALL"
        rows = until(lambda: server.sql(select), lambda rows: len(rows) == 6)
        assert sorted(map(tuple, rows)) == sorted(
            (trace, rule, "scored", not (trace == broken and rule == "tool errors"))
            for trace in (good, broken)
            for rule in ("helpful", "short", "tool errors")
        )
        (cost,) = server.sql("SELECT DISTINCT cost_usd FROM evaluations WHERE rule = 'helpful'")
        assert cost == [(100 * 1.0 + 20 * 2.0) / 1e6]
        listed = json.loads(command(server, "traces", "list", "--rule", "tool errors", "--not-passed", "--json"))
        assert [trace["traceId"] for trace in listed] == [broken]
        shown = command(server, "traces", "show", broken)
        assert "tool errors" in shown
        assert "it answers" in shown
        assert "rules" in command(server, "status")


def test_every_span_has_one_decision_for_each_rule(tmp_path: Path) -> None:
    """Why something was not evaluated stands in the table of decisions, with the clause."""
    rules = {"tools": TOOL_CHECK, "helpful": LLM_JUDGE}
    with (
        a_model(Says({"score": 0.9, "reason": "it answers"})) as model,
        a_judging_server(tmp_path, model, rules=rules) as server,
    ):
        an_agent(server, "good")
        select = "SELECT rule, decision, clause, count(*) FROM decisions GROUP BY ALL ORDER BY ALL"
        expected = [
            ["helpful", "filtered", 'span_type = "llm"', 2],
            ["helpful", "scored", None, 1],
            ["tool errors", "scored", None, 1],
        ]
        until(lambda: server.sql(select), lambda rows: rows == expected)


EVERY_SPAN = """
name: helpful
evaluator: llm_judge
config: {criteria: The question is clear., evaluationParams: [INPUT]}
"""
EVERY_TRACE = """
name: tools
target: TRACE
evaluator: tool_error
"""


def judge_some(server: Live, evaluations: int) -> None:
    """Wait until there are `evaluations` more evaluations, or until that takes long."""
    count = "SELECT count(*) FROM evaluation"
    ((before,),) = server.sql(count)
    deadline = time.monotonic() + 5
    while server.sql(count) < [[int(str(before)) + evaluations]] and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.timeout(900)
@pytest.mark.kill("collector/children", "collector/live", "evaluators/chat", "rules/settling.py", "storage/judging")
def test_kills_leave_one_decision_and_one_result(tmp_path: Path, seed: int, kills: int) -> None:
    """A server killed while it matches, asks and stores judges each target once and counts every call."""
    source = random.Random(seed)
    traces = 0

    def slowly(_: ModelRequest) -> Says:
        time.sleep(source.uniform(0, 0.05))
        return Says({"score": 0.9, "reason": "it answers"})

    with a_model(slowly) as model:
        for _ in range(kills):
            with a_judging_server(tmp_path, model, rules={"span": EVERY_SPAN, "trace": EVERY_TRACE}) as server:
                with over_http(server) as send:
                    for _ in range(source.randrange(1, 20)):
                        assert send(a_batch(source, 3).body).kind == "taken"
                        traces += 1
                judge_some(server, source.randrange(8))
                server.kill()
        with a_judging_server(tmp_path, model, rules={}) as server:
            judged = "SELECT count(*) FROM evaluations WHERE NOT superseded AND outcome IN ('scored', 'skipped')"
            until(lambda: server.sql(judged), lambda rows: rows == [[4 * traces]], within_s=300)
            assert server.sql("SELECT rule, count(*) FROM evaluations GROUP BY ALL ORDER BY ALL") == [
                ["helpful", 3 * traces],
                ["tools", traces],
            ]
            assert server.sql("SELECT count(*), count(DISTINCT (revision, seq)) FROM decision") == [[4 * traces] * 2]
            request_count = len(model.requests)
            counted = "SELECT count(*), count(ended_at) FROM judge_call"
            ((calls, settled),) = until(lambda: server.sql(counted), lambda rows: int(str(rows[0][0])) >= request_count)
            assert isinstance(calls, int)
            assert isinstance(settled, int)
            assert settled <= request_count <= calls
            assert calls - settled <= kills * IN_FLIGHT
