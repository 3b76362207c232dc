"""Jobs over traces that moved to the lake: what they judge, where they continue, and who sees their results."""

import datetime as dt
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.app import Running
from storage.store import Store
from storage.upkeep.deletions import DONE
from tests.connecting import a_connection
from tests.lake import Place, a_place
from tests.live import until
from tests.matching import write
from tests.model_server import Hangs, ModelRequest, ModelServer, Says, Script, Status, Step, a_model
from tests.serving import a_server, run
from tests.storing import START_NS, WAIT_S, a_batch, an_export, commit, rows, trace_id
from tests.test_lake_moving import DAY_NS
from tests.test_lake_reading import move
from tests.test_lake_removal import files_with

pytestmark = pytest.mark.costly("storage/lake", "storage/queries/lake", "collector/live/jobs", "collector/cli")

TIME = ("--from", "2025-01-01", "--to", "2100-01-01")
RULES = {
    "tools": """
        name: tools
        target: TRACE
        conditions: [{field: tool_name, op: "=", value: add}]
        evaluator: tool_error
        threshold: 0.9
    """,
    "sampled": """
        name: sampled
        target: TRACE
        sampleRate: 0.5
        conditions:
          - {field: attributes.gen_ai.tool.name, op: "=", value: add}
          - {field: trace.span_count, op: ">", value: 3}
        evaluator: tool_error
    """,
    "spans": """
        name: spans
        conditions: [{field: name, op: regex, value: "[02468]$"}]
        evaluator: regex
        config: {pattern: x}
    """,
}
KIND = Says({"reason": "kind", "score": 0.9})
COUNTING = ("evaluations", "evaluation_days", "jobs", "counted_scores")
LIKE = "tenant, trace_id, span_id, name, fingerprint, outcome, score, passed, threshold, reason, error_kind, project"


def a_tool_trace(number: int, *, spans: int = 3) -> ExportTraceServiceRequest:
    """Build a trace that calls a tool, which fails in every second one."""
    export = an_export(spans, trace=number, first=100 * number)
    for span in export.resource_spans[0].scope_spans[0].spans:
        for name, value in {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "add" if number % 5 else "sub",
            "gen_ai.tool.call.arguments": "{}",
            "gen_ai.tool.call.result": f"result of {number}",
        }.items():
            span.attributes.add(key=name).value.string_value = value
        span.status.code = span.status.STATUS_CODE_ERROR if number % 2 else span.status.STATUS_CODE_OK
    return export


@dataclass(slots=True, kw_only=True)
class Lake:
    """A server whose traces are in the lake alone, and the URL of the server."""

    server: Running
    place: Place

    @property
    def store(self) -> Store:
        """Return its store."""
        return self.server.store

    def job(self, *arguments: str) -> Result:
        """Run a command about the lake in this process."""
        return run("lake", *arguments, "--server", f"http://{self.server.http}")

    def sql(self, statement: str) -> list[Any]:
        """Return the rows of a client's statement."""
        with httpx.Client(base_url=f"http://{self.server.http}", trust_env=False, timeout=60) as client:
            answer = client.post("/api/v1/sql", json={"sql": statement})
            assert answer.status_code == 200, answer.text
            return list(map(tuple, answer.json()["rows"]))

    def shows(self, statement: str, expected: list[Any]) -> bool:
        """Wait until a client's statement has these rows, since files are listed every ten seconds."""
        return until(lambda: self.sql(statement), lambda seen: seen == expected) == expected

    def start(
        self, *arguments: str, stderr: int = subprocess.DEVNULL, leads: bool = False
    ) -> "subprocess.Popen[bytes]":
        """Start a command about the lake as a process."""
        server = f"http://{self.server.http}"
        often = "from collector.live.jobs import lake_run; lake_run._COMMIT_S, lake_run._TRACES = 0, 8"
        program = [sys.executable, "-c", f"{often}; from collector.cli.main import main; main()"]
        command = [*program, "lake", *arguments, "--server", server]
        return subprocess.Popen(command, stderr=stderr, start_new_session=leads)


@contextmanager
def a_lake(
    data: Path,
    place: Place,
    *traces: ExportTraceServiceRequest,
    others: int = 0,
    rules: Iterable[str] = tuple(RULES),
    more: str = "",
    stays: int | None = None,
) -> Iterator[Lake]:
    """Start a server with rules, let it judge traces, also of another tenant, and move all of them but one."""
    (folder := data.parent / "rules").mkdir()
    for number, text in enumerate(filter(None, [*map(RULES.get, rules), more])):
        (folder / f"{number}.yaml").write_text(textwrap.dedent(text), encoding="utf-8")
    settles = {"settle_after_root_seconds": 0, "settle_quiet_seconds": 0}
    with a_server(data, lake=place.uri, lake_interval_seconds=3600, rules=folder, **settles) as server:
        made = Lake(server=server, place=place)
        publisher = server.context.lake
        assert publisher is not None
        until(lambda: publisher.held or publisher.mover._moved_to, bool)  # so that no second name is made beside it
        batches = [a_batch(each) for each in traces]
        batches += [a_batch(a_tool_trace(number), tenant="acme") for number in range(others)]
        for begin in range(0, len(batches), 500):
            commit(server.store, *batches[begin : begin + 500])
        settle(made, len(batches) if "tools" in rules else 0)
        ids = {str(each) for (each,) in rows(server.store, "SELECT trace_id FROM span")}
        move(server.store, place.uri, sorted(ids - {trace_id(stays or -1)}))
        yield made


def settle(made: Lake, traces: int) -> None:
    """Wait until all traces are added up and judged."""
    assert made.server.traces.wait_idle(WAIT_S)
    assert made.server.pipeline.matcher.wait_matched(WAIT_S)
    decided = "SELECT count(*) FROM decisions WHERE rule = 'tools'"
    until(lambda: rows(made.store, f"SELECT ({decided}), (SELECT count(*) FROM job)"), [(traces, 0)].__eq__)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Place]:
    """Yield a lake in a directory."""
    with a_place("file", tmp_path / "place") as made:
        yield made


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Yield a lake in a directory, and one in an object store."""
    with a_place(request.param, tmp_path / "place") as made:
        yield made


def test_a_backfill_says_what_the_rule_said_as_the_traces_came(place: Place, tmp_path: Path) -> None:
    """Rules about spans and traces, with filters, sums and sampling, of two tenants, have the live results once."""
    traces = [a_tool_trace(number, spans=2 + number % 4) for number in range(60)]
    with a_lake(tmp_path / "data", place, *traces, others=10) as made:
        counted = [made.sql(f"SELECT * FROM {view} ORDER BY ALL") for view in COUNTING]
        for rule in RULES:
            result = made.job("backfill", rule, *TIME)
            assert result.exit_code == 0, result.output
            live = made.sql(f"SELECT {LIKE} FROM evaluations WHERE rule = '{rule}' ORDER BY ALL")
            assert made.shows(f"SELECT {LIKE} FROM backfill_results WHERE rule = '{rule}' ORDER BY ALL", live)
            assert {tenant for tenant, *_ in live} == ({""} if rule == "sampled" else {"", "acme"})
            assert ": 0 traces left" in made.job("backfill", rule, *TIME).output
        assert len(made.sql("SELECT DISTINCT job FROM backfill_results")) == len(RULES)
        assert [made.sql(f"SELECT * FROM {view} ORDER BY ALL") for view in COUNTING] == counted
        page = httpx.get(f"http://{made.server.http}/rules/{rule_id(made, 'tools')}", trust_env=False, timeout=60)
        assert "Backfill over the lake" in page.text


def rule_id(made: Lake, name: str) -> str:
    """Return the id of a rule."""
    ((only,),) = rows(made.store, f"SELECT DISTINCT rule_id FROM rule_revision WHERE rule = '{name}'")
    return str(only)


def test_an_evaluator_is_tried_on_a_tenant_and_an_interval(folder: Place, tmp_path: Path) -> None:
    """It judges the traces of the tenant that started in the interval, none of which another one has."""
    traces = [an_export(1, trace=number, first=number, start_ns=START_NS + number * DAY_NS) for number in range(4)]
    with a_lake(tmp_path / "data", folder, *traces, others=3, rules=()) as made:
        config = ("evaluate", "length", "--config", '{"maximumOutputLength": 4}')
        result = made.job(*config, *TIME, "--tenant", "acme")
        assert result.exit_code == 0, result.output
        assert made.shows(
            "SELECT tenant, count(*), any_value(rule_id) FROM backfill_results GROUP BY ALL", [("acme", 3, None)]
        )
        day = dt.datetime.fromtimestamp(START_NS / 1e9, dt.UTC)
        interval = ((day + dt.timedelta(days=each)).isoformat().replace("+00:00", "Z") for each in (1, 3))
        result = made.job(*config, *(part for pair in zip(("--from", "--to"), interval, strict=True) for part in pair))
        assert result.exit_code == 0, result.output
        assert made.shows(
            "SELECT trace_id FROM backfill_results WHERE tenant = '' ORDER BY ALL",
            [
                (trace_id(1),),
                (trace_id(2),),
            ],
        )


def test_workers_and_drivers_are_killed_and_no_trace_is_missing_or_twice(folder: Place, tmp_path: Path) -> None:
    """After each kill -9 of a process that evaluates, and of the driver, the next start does only what is left."""
    traces = [a_tool_trace(number) for number in range(600)]
    with a_lake(tmp_path / "data", folder, *traces, rules=("tools",)) as made:
        killed: Counter[str] = Counter()
        published = [0]
        while True:
            driver = made.start("backfill", "tools", *TIME)
            kill_child(driver, killed)
            until(lambda driver=driver: driver.poll() is not None or count(made) > published[-1], bool)  # type: ignore[misc] # in this turn
            if killed["drivers"] < 3:
                driver.kill()
            if driver.wait(WAIT_S) == 0:
                break
            killed["drivers"] += 1
            published.append(count(made))
        assert killed["drivers"] >= 2
        assert killed["workers"] >= 2
        assert published == sorted(set(published))
        live = made.sql(f"SELECT {LIKE} FROM evaluations ORDER BY ALL")
        assert made.shows(f"SELECT {LIKE} FROM backfill_results ORDER BY ALL", live)
        assert len(live) == 480


def count(made: Lake) -> int:
    """Return the number of published results."""
    return int(made.place.rows("backfill_result").num_rows)


def kill_child(driver: "subprocess.Popen[bytes]", killed: Counter[str]) -> None:
    """Kill a process that a driver has started, once there is one."""
    while driver.poll() is None:
        if pids := children_of(driver.pid):
            os.kill(pids[0], signal.SIGKILL)
            killed["workers"] += 1
            return
        time.sleep(0.01)


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(each) for path in Path(f"/proc/{pid}/task").glob("*/children") for each in path.read_text().split()]


def test_what_was_deleted_is_not_judged_and_its_results_leave_with_a_trace(folder: Place, tmp_path: Path) -> None:
    """A trace that was deleted, or whose removal waits, has no result; results leave all files with their trace."""
    traces = [a_tool_trace(number) for number in (1, 2, 3, 4)]
    with a_lake(tmp_path / "data", folder, *traces, rules=("tools",)) as made:
        delete(made, 1)
        waits = f"'' AS tenant, '{trace_id(2)}' AS trace_id, {1 << 62} AS last_write, {1 << 62} AS last_result"
        insert = f"INSERT INTO lake_removal BY NAME SELECT {waits}, 0 AS first_batch, {1 << 62} AS last_batch"
        write(made.store, insert)
        assert made.job("backfill", "tools", *TIME).exit_code == 0
        judged = "SELECT trace_id FROM backfill_results ORDER BY ALL"
        assert made.shows(judged, [(trace_id(3),), (trace_id(4),)])
        delete(made, 3)
        assert made.shows(judged, [(trace_id(4),)])
        assert trace_id(3) not in str(made.place.rows("backfill_result").to_pylist())
        assert files_with(Place(uri=f"{folder.uri}/backfill_result", env={}), trace_id(3)) == []
        made.place.table("trace_part").delete("true")  # as a removal does that looked for results before they came
        assert made.job("backfill", "tools", *TIME).exit_code == 0
        assert made.place.rows("backfill_result").num_rows == 0


def test_results_of_a_trace_that_goes_on_in_the_database_stay(folder: Place, tmp_path: Path) -> None:
    """A span that arrives after its trace moved, and a repeated command, take no result away."""
    with a_lake(tmp_path / "data", folder, *map(a_tool_trace, (1, 2)), rules=("tools",)) as made:
        assert made.job("backfill", "tools", *TIME).exit_code == 0
        commit(made.store, a_batch(an_export(1, trace=1, first=900)))
        commit(made.store, a_batch(a_tool_trace(3)))
        assert made.server.traces.wait_idle(WAIT_S)
        move(made.store, folder.uri, [trace_id(3)])
        scope = made.store.lake_scope()
        assert scope is not None
        assert trace_id(1) in {each for _, each, _ in scope.left_out}
        assert made.job("backfill", "tools", *TIME).exit_code == 0
        assert count(made) == 3


def delete(made: Lake, number: int) -> None:
    """Delete a trace over HTTP, and wait until it is gone."""
    with httpx.Client(base_url=f"http://{made.server.http}/api/v1", trust_env=False, timeout=60) as client:
        assert client.delete(f"/traces/{trace_id(number)}").status_code in {200, 202}
        until(lambda: client.get("/deletions").json()["content"][0]["state"], lambda state: state == DONE)


def test_traces_that_the_database_has_are_left_to_it(folder: Place, tmp_path: Path) -> None:
    """Traces from before the boundary that stayed are neither counted nor judged, whatever the lake has of them."""
    traces = [a_tool_trace(number) for number in (1, 2, 3)]
    with a_lake(tmp_path / "data", folder, *traces, rules=("tools",), stays=2) as made:
        result = made.job("backfill", "tools", *TIME)
        assert result.exit_code == 0
        assert made.shows("SELECT trace_id FROM backfill_results ORDER BY ALL", [(trace_id(1),), (trace_id(3),)])
        assert ": 2 traces\n" in result.output


def test_judges_are_called_by_the_server_within_the_budget_of_the_rule(
    folder: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the budget allows is published, whatever time trials may take; the command says why the rest is left."""
    monkeypatch.setattr("collector.live.jobs.trials.CALLS_TIMEOUT_S", 1e-6)
    with a_model(KIND) as model:
        traces = [a_tool_trace(number) for number in range(1, 9)]
        with a_lake(tmp_path / "data", folder, *traces, rules=()) as made:
            made.server.context.judging.connections.create(a_connection(model.base_url, name="one"))
            rule = {"name": "kind", "target": "TRACE", "enabled": False, "evaluator": "llm_judge"}
            rule |= {"criteria": "Is it kind?", "connectionId": "one", "config": {"evaluationParams": ["TOOL_CALLS"]}}
            with httpx.Client(base_url=f"http://{made.server.http}/api/v1", trust_env=False, timeout=60) as client:
                created = client.post("/projects/*/trace-eval-rules", json=rule | {"budget": {"callsPerDay": 3}})
            assert created.status_code == 201, created.text
            result = made.job("backfill", "kind", *TIME)
            assert result.exit_code == 1, result.output
            assert "repeat the command" in result.output
            assert "budget" in result.output
            assert len(model.requests) == 3
            assert made.shows("SELECT count(*), sum(judge_calls) FROM backfill_results", [(3, 3)])
            paid = "SELECT count(*) FROM judge_call WHERE rule_id = $rule"
            statement = paid.replace("$rule", f"'{rule_id(made, 'kind')}'")
            until(lambda: rows(made.store, statement), lambda counted: counted == [(3,)])


@contextmanager
def a_judging_lake(
    data: Path, folder: Place, script: Script, *traces: ExportTraceServiceRequest, **rule: object
) -> Iterator[tuple[Lake, ModelServer]]:
    """Start a lake, and a rule whose judge answers by a script within a second."""
    with a_model(script) as model, a_lake(data, folder, *traces, rules=()) as made:
        limits = {"attempts": 1, "timeoutSeconds": 1, "inFlight": 64}
        made.server.context.judging.connections.create(a_connection(model.base_url, name="one", limits=limits))
        rule |= {"name": "kind", "enabled": False, "evaluator": "llm_judge", "criteria": "Is it kind?"}
        rule |= {"connectionId": "one"}
        created = httpx.post(
            f"http://{made.server.http}/api/v1/projects/*/trace-eval-rules", json=rule, trust_env=False, timeout=60
        )
        assert created.status_code == 201, created.text
        yield made, model


def test_a_key_that_expires_within_a_trace_leaves_the_rest_to_the_next_start(folder: Place, tmp_path: Path) -> None:
    """Long spans with a result are neither judged nor paid again, and no refused call is a result."""
    answered = list[ModelRequest]()
    valid = [3]

    def script(request: ModelRequest) -> Step:
        if len(answered) >= valid[0]:
            return Status(401)
        answered.append(request)
        return KIND

    spans = a_tool_trace(1, spans=8)
    for span in spans.resource_spans[0].scope_spans[0].spans:
        span.attributes.add(key="gen_ai.tool.call.result").value.string_value = "long " * 30_000
    with a_judging_lake(tmp_path / "data", folder, script, spans, target="SPAN") as (made, _):
        result = made.job("backfill", "kind", *TIME)
        assert result.exit_code == 1, result.output
        assert "repeat the command" in result.output
        assert made.shows("SELECT count(*), count(score) FROM backfill_results", [(3, 3)])
        valid[0] = 100
        result = made.job("backfill", "kind", *TIME)
        assert result.exit_code == 0, result.output
        assert made.shows("SELECT count(DISTINCT span_id), count(score) FROM backfill_results", [(8, 8)])
        assert len(answered) == 8
        assert max(len(str(each.body)) for each in answered) > 100_000
        place = f"http://{made.server.http}/api/v1/projects/*/trace-eval-rules/{rule_id(made, 'kind')}/judge-case"
        case = {"tenant": "", "project": None, "traceId": trace_id(1), "case": "no JSON"}
        assert httpx.post(place, json=case, trust_env=False, timeout=60).status_code == 400


def test_what_is_paid_stays_when_the_server_refuses_the_next_call(folder: Place, tmp_path: Path) -> None:
    """A rule that is deleted meanwhile ends the command with a message, and all verdicts so far are published."""
    is_up, verdicts = threading.Event(), list[str]()

    def script(request: ModelRequest) -> Step:
        verdicts.append(request.user)
        if len(verdicts) > 3:
            is_up.wait(WAIT_S)
        return KIND

    def remove(made: Lake, rule: str) -> None:
        until(lambda: len(verdicts) > 3, bool)
        place = f"http://{made.server.http}/api/v1/projects/*/trace-eval-rules/{rule}"
        assert httpx.delete(place, trust_env=False, timeout=60).status_code == 204
        is_up.set()

    traces = map(a_tool_trace, range(1, 40))
    config = {"evaluationParams": ["TOOL_CALLS"]}
    with a_judging_lake(tmp_path / "data", folder, script, *traces, target="TRACE", config=config) as (made, _):
        removing = threading.Thread(target=remove, args=(made, rule_id(made, "kind")))
        removing.start()
        result = made.job("backfill", "kind", *TIME)
        removing.join()
        assert result.exit_code == 1, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert 3 <= count(made) < 39


def test_a_case_that_times_out_stops_the_job_only_if_all_do(folder: Place, tmp_path: Path) -> None:
    """Nothing is published while no call is answered; of a judge that answers others, the one call has failed."""
    is_up = threading.Event()

    def script(request: ModelRequest) -> Step:
        return KIND if is_up.is_set() and "result of 2" not in request.user else Hangs()

    traces = map(a_tool_trace, range(1, 9))
    config = {"evaluationParams": ["TOOL_CALLS"]}
    with a_judging_lake(tmp_path / "data", folder, script, *traces, target="TRACE", config=config) as (made, _):
        assert made.job("backfill", "kind", *TIME).exit_code == 1
        assert count(made) == 0
        is_up.set()
        result = made.job("backfill", "kind", *TIME)
        assert result.exit_code == 1, result.output
        assert "1 failed, 7 passed" in result.output
        assert "repeat the command to evaluate the failed ones again" in result.output
        assert made.shows(
            "SELECT count(*), count(score), any_value(error_kind) FROM backfill_results", [(8, 7, "timeout")]
        )


@pytest.mark.parametrize("target", ["TRACE", "SPAN"])
def test_a_judge_that_gives_no_verdicts_stops_the_job_and_what_failed_is_repeated(
    folder: Place, tmp_path: Path, target: str
) -> None:
    """Twenty failures in a row end the command; later ones judge the rest and each failed target once more."""
    works, prompts = [False], list[str]()

    def script(request: ModelRequest) -> Step:
        prompts.append(request.user)
        return KIND if works[0] and "result of 40" not in request.user else Says("no JSON")

    traces = [a_tool_trace(number, spans=1) for number in range(1, 51)]
    config = {"evaluationParams": ["TOOL_CALLS"]} if target == "TRACE" else {}
    counted = "SELECT count(*), count(DISTINCT trace_id), count(score) FROM backfill_results"
    with a_judging_lake(tmp_path / "data", folder, script, *traces, target=target, config=config) as (made, _):
        result = made.job("backfill", "kind", *TIME)
        assert result.exit_code == 1, result.output
        assert "20 evaluations in a row failed, the last one because of: " in result.output
        assert "repeat the command" in result.output
        failed = count(made)
        assert 20 <= failed < 30
        works[0] = True
        prompts.clear()
        result = made.job("backfill", "kind", *TIME)
        assert result.exit_code == 1, result.output
        assert "1 failed, 49 passed" in result.output
        assert made.shows(counted, [(50, 50, 49)])
        prompts.clear()
        result = made.job("backfill", "kind", *TIME)
        assert "1 failed; " in result.output
        assert all("result of 40" in each for each in prompts)
        assert made.shows(counted, [(50, 50, 49)])


def test_an_interruption_ends_a_job_with_one_line(folder: Place, tmp_path: Path) -> None:
    """Ctrl-C, which reaches all processes of a terminal, ends a job whose workers start, or are at work."""
    traces = [a_tool_trace(number) for number in range(300)]
    # A test run in the background of a shell ignores Ctrl-C, and so would what it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with a_lake(tmp_path / "data", folder, *traces, rules=("tools",)) as made:
            for children in (1, 2):
                driver = made.start("backfill", "tools", *TIME, stderr=subprocess.PIPE, leads=True)
                while len(children_of(driver.pid)) < children:
                    time.sleep(0.01)
                os.killpg(driver.pid, signal.SIGINT)
                _, written = driver.communicate(timeout=60)
                assert driver.returncode == 130
                assert written.decode().splitlines()[1:] == [
                    "Error: interrupted; what is evaluated is kept: repeat the command to continue"
                ]
            assert made.job("backfill", "tools", *TIME).exit_code == 0
    finally:
        signal.signal(signal.SIGINT, before)


SESSIONS = """
        name: talks
        target: SESSION
        evaluator: length
        config: {maximumOutputLength: 4}
    """


def test_what_cannot_be_run_is_refused_with_the_remedy(folder: Place, tmp_path: Path) -> None:
    """Unknown rules and evaluators, times, rules that a job cannot follow, judges without a rule, and a missing Ray."""
    with a_lake(tmp_path / "data", folder, a_tool_trace(1), rules=("tools",), more=SESSIONS) as made:
        for arguments, words in {
            ("backfill", "none", *TIME): "tracejury rules list",
            ("backfill", "talks", *TIME): "use a rule about traces or spans",
            ("backfill", "tools", "--from", "2026-01-02", "--to", "2026-01-01"): "--from must be before --to",
            ("backfill", "tools", "--from", "soon", "--to", "2026-01-01"): "is not a time",
            ("backfill", "tools", "--from", "2026-01-02"): "--to",
            ("evaluate", "none", *TIME): "none",
            ("evaluate", "tool_error", "--project", "nosuch", *TIME): "no span of the project nosuch",
            ("evaluate", "length", "--config", '{"a": 1}', *TIME): "a",
            ("evaluate", "llm_judge", "--config", '{"criteria": "kind"}', *TIME): "tracejury lake backfill",
            ("backfill", "tools", *TIME, "--ray", "127.0.0.1:1"): "Ray",
        }.items():
            result = made.job(*arguments)
            assert result.exit_code != 0, arguments
            assert words in result.output, (arguments, result.output)
        write(made.store, "DELETE FROM lake_boundary")
        assert "lake_hot_days" in made.job("backfill", "tools", *TIME).output
    with a_server(tmp_path / "other") as server:
        command = ("lake", "evaluate", "tool_error", *TIME, "--server", f"http://{server.http}")
        assert "TRACEJURY_LAKE" in run(*command).output
