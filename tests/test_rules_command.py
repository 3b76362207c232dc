"""`tracejury rules test` against the real server and a data directory."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.app import Running
from rules.marker import MARKER
from rules.matching import is_sampled
from tests.serving import a_server, post, run

TOOLS = """\
name: slow tools
target: TRACE
conditions:
  - {field: attributes.kind, op: "=", value: tool}
  - {field: duration_ms, op: ">", value: 500}
evaluator: tool_error
"""
CHATS = """\
name: helpful
matchType: SPAN_NAME
matchValue: chat
criteria: Does it help?
sampleRate: 0.5
budget: {callsPerDay: 3}
"""
TRACES = [f"{number:032x}" for number in range(1, 21)]


def an_agent(trace_id: str, *, tool_ms: int, marked: bool = False) -> ExportTraceServiceRequest:
    """Build a trace of the last minute: an agent, a model, and a tool that takes so long."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.add(key="service.name").value.string_value = "shop"
    start_ns = time.time_ns() - 60 * 10**9
    for number, (name, kind, ms) in enumerate(
        [("agent", "agent", 1000), ("chat", "llm", 100), ("pay", "tool", tool_ms)]
    ):
        span = resource_spans.scope_spans.add().spans.add(
            trace_id=bytes.fromhex(trace_id),
            span_id=(number + 1).to_bytes(8, "big"),
            parent_span_id=(1).to_bytes(8, "big") if number else b"",
            name=name,
            start_time_unix_nano=start_ns + number,
            end_time_unix_nano=start_ns + number + ms * 10**6,
        )
        for key, value in {"kind": kind, "output.value": "said", **({MARKER: "1"} if marked else {})}.items():
            span.attributes.add(key=key).value.string_value = value
    return request


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server with twenty traces, of which the tool is slow in five, and one of our own spans."""
    with a_server(tmp_path_factory.mktemp("server") / "data") as server:
        for number, trace_id in enumerate(TRACES):
            export = an_agent(trace_id, tool_ms=900 if number < 5 else 20)
            post(f"http://{server.http}/api/v1/traces", export.SerializeToString())
        ours = an_agent("f" * 32, tool_ms=900, marked=True)
        post(f"http://{server.http}/api/v1/traces", ours.SerializeToString())
        assert server.store.wait_committed(10)
        _wait_read(server)
        yield server


def _wait_read(server: Running) -> None:
    deadline = time.monotonic() + 60
    question = "SELECT count(*) FROM spans WHERE output IS NULL"
    while server.store.queries.sql(question, max_rows=1, timeout_s=10).rows != ((0,),):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def rule(tmp_path: Path) -> Path:
    """Return the rule about traces, in a file."""
    file = tmp_path / "tools.yaml"
    file.write_text(TOOLS)
    return file


def decisions(document: Any) -> list[tuple[str, str | None, int]]:
    """Return decision, reason and count of each entry."""
    return [(each["decision"], each["why"], each["count"]) for each in document["decisions"]]


def test_a_rule_about_traces_counts_them_by_decision(server: Running, rule: Path) -> None:
    """Each trace is counted once, by what becomes of it and the clause that its best span failed."""
    document = json.loads(run("rules", "test", rule, "--server", server.http, "--json").stdout)
    marked = f"all of (attributes.{MARKER} does not exist; resource.{MARKER} does not exist)"
    assert decisions(document) == [("filtered", marked, 1), ("filtered", "duration_ms > 500", 15), ("matched", None, 5)]
    assert document["lookedAt"] == 21
    assert document["cost"] == {
        "evaluations": 5,
        "evaluationsPerDay": 5.0,
        "judge": "never",
        "judgeCallsAtLeast": 0,
        "budget": None,
    }
    assert {example["traceId"] for example in document["examples"]} == set(TRACES[:5])
    assert {(example["name"], example["spanId"]) for example in document["examples"]} == {("agent", None)}


def test_a_rule_with_an_unknown_connection_is_refused(server: Running, tmp_path: Path) -> None:
    """A rule with an unknown connection is refused, with its key and the existing connections."""
    file = tmp_path / "judge.yaml"
    file.write_text(
        "name: j\ntarget: TRACE\nevaluator: llm_judge\ncriteria: good?\nconnectionId: gone\njury: [away, far]\n"
    )
    tried = run("rules", "test", file, "--server", server.http)
    assert tried.exit_code == 1
    assert f"{file}: connectionId: there is no connection 'gone'" in tried.output
    assert f"{file}: jury: there is no connection 'away'" in tried.output
    assert "`tracejury connections list` has: none" in tried.output


def test_a_rule_about_spans_samples_by_trace_and_tells_the_cost(server: Running, tmp_path: Path) -> None:
    """Sampled-out and filtered spans are counted separately, and spans beyond the budget are reported."""
    file = tmp_path / "chats.yaml"
    file.write_text(CHATS)
    document = json.loads(run("rules", "test", file, "--last", "1h", "--server", server.http, "--json").stdout)
    sampled = sum(is_sampled(trace_id, 0.5) for trace_id in TRACES)
    counts = {decision: count for decision, _, count in decisions(document)}
    assert (counts["matched"], counts["sampled_out"]) == (sampled, 20 - sampled)
    assert document["cost"]["judgeCallsAtLeast"] == sampled
    assert document["cost"]["evaluationsPerDay"] == sampled * 24
    shown = run("rules", "test", file, "--last", "1h", "--server", server.http).stdout
    assert f"would cost {sampled} evaluations, some {sampled * 24} a day; each calls the judge once or more" in shown
    assert f"the budget of 3 calls a day leaves out at least {sampled * 24 - 3} of them a day" in shown
    assert "60 spans" not in shown
    assert "63 spans started in the last 60m" in shown


def test_only_the_window_is_looked_at(server: Running, rule: Path) -> None:
    """What started before it is not counted."""
    shown = run("rules", "test", rule, "--last", "10s", "--server", server.http)
    assert (shown.exit_code, "0 traces started in the last 10s" in shown.stdout) == (0, True)


def test_a_trace_is_explained_span_by_span(server: Running, rule: Path) -> None:
    """For one trace, each span has its decision, the clause, and the value that it has instead."""
    command = ("rules", "test", rule, "--server", server.http, "--trace")
    document = json.loads(run(*command, TRACES[9].upper(), "--json").stdout)
    assert (document["decision"], document["clause"]) == ("filtered", "duration_ms > 500")
    assert [(span["name"], span["clause"], span.get("value")) for span in document["spans"]] == [
        ("agent", 'attributes.kind = "tool"', "agent"),
        ("chat", 'attributes.kind = "tool"', "llm"),
        ("pay", "duration_ms > 500", 20.0),
    ]
    shown = run(*command, TRACES[9]).stdout
    assert "filtered: not duration_ms > 500; it is 20" in shown
    missing = run(*command, "0" * 32)
    assert (missing.exit_code, missing.stderr.startswith("Error: no trace")) == (1, True)


def test_both_ways_to_decide_agree_on_what_is_stored(server: Running, rule: Path) -> None:
    """The examples that SQL finds are traces that Python matches."""
    document = json.loads(run("rules", "test", rule, "--server", server.http, "--json").stdout)["examples"]
    for example in document:
        arguments = ("--trace", example["traceId"], "--json", "--server", server.http)
        assert json.loads(run("rules", "test", rule, *arguments).stdout)["decision"] == "matched"


def test_a_directory_that_no_server_holds_is_read(tmp_path: Path, rule: Path) -> None:
    """The same answer without a server."""
    data = tmp_path / "data"
    with a_server(data) as server:
        post(f"http://{server.http}/api/v1/traces", an_agent(TRACES[0], tool_ms=900).SerializeToString())
    document = json.loads(run("rules", "test", rule, "--data", data, "--json").stdout)
    assert decisions(document) == [("matched", None, 1)]


@pytest.mark.parametrize("wait_s", [0, 3_600])
def test_examples_settle_by_the_settings_of_the_server(tmp_path: Path, rule: Path, wait_s: float) -> None:
    """The command and the API tell when a trace settles by the times that the server waits."""
    times = {"settle_after_root_seconds": wait_s, "settle_quiet_seconds": wait_s, "settle_longest_seconds": wait_s}
    with a_server(tmp_path / "data", **times) as server:
        post(f"http://{server.http}/api/v1/traces", an_agent(TRACES[0], tool_ms=900).SerializeToString())
        assert server.store.wait_committed(10)
        _wait_read(server)
        by_command = json.loads(run("rules", "test", rule, "--server", server.http, "--json").stdout)
        place = f"http://{server.http}/api/v1/projects/shop/trace-eval-rules/test"
        by_api = httpx.post(place, content=TOOLS, headers={"content-type": "application/yaml"}, trust_env=False).json()
    for document in (by_command, by_api):
        (example,) = document["examples"]
        assert example["settled"] is (wait_s == 0)


def test_what_is_wrong_with_a_rule_is_told_by_file_and_line(server: Running, tmp_path: Path) -> None:
    """A file without a rule, or with an unknown evaluator, ends with 1 and all its errors."""
    file = tmp_path / "wrong.yaml"
    for text, expected in [
        ("name: a\nevaluator: tool_error\ntarget: X\nfoo: 1", [":3: target: must be", ":4: foo: unknown key"]),
        ("name: a\nevaluator: nope", [":2: evaluator: there is no evaluator 'nope'"]),
        ("\x1b[2J: [", ["U+001B"]),
    ]:
        file.write_text(text)
        result = run("rules", "test", file, "--server", server.http)
        assert result.exit_code == 1
        for each in expected:
            assert each in result.stderr
    file.write_bytes(b"\xff")
    assert "is not UTF-8" in run("rules", "test", file, "--server", server.http).stderr


@pytest.mark.parametrize("arguments", [["no-such-file"], [__file__, "--last", "1y"], [__file__, "--last", "0s"], []])
def test_wrong_use_is_told_apart_from_failure(arguments: list[str]) -> None:
    """A command that was written wrongly exits with 2."""
    assert run("rules", "test", *arguments).exit_code == 2
