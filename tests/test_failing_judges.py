"""Judges that give no verdicts: cause, number that waits and since when are reported wherever operators look."""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.live.judges.failing_judges import FailingJudge
from collector.live.judges.judge_health import JudgeHealth, JudgeSubject
from evaluators.outcome import Failure, Skipped, Usage, Verdict
from tests.live import until
from tests.model_server import Hangs, ModelRequest, Says, Sends, Status, Step, a_model
from tests.offline import Offline, an_offline_server
from tests.serving import an_export, post, run, unused_port
from tests.test_run_evaluations import answers, ask, ended
from tests.working import LONG_S

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/conditions.py",
    "collector/connection_text.py",
    "collector/live",
    "collector/server_conditions.py",
    "collector/web",
    "evaluators",
    "storage",
)

GOOD = Says({"score": 0.9, "reason": "good"})
RULE = {"name": "helpful", "evaluator": "llm_judge", "criteria": "Is it helpful?", "connectionId": "main"}
CAUSES: dict[str, tuple[Step | None, str]] = {
    "down": (None, "unreachable"),
    "slow": (Hangs(), "timeout"),
    "unavailable": (Status(503), "unavailable"),
    "refusing": (Status(429, headers={"Retry-After": "3000"}), "rate_limited"),
    "without a key": (Status(401), "not_served"),
    "garbage": (Sends(b'{"it": "works"}'), "bad_reply"),
    "prose": (Says("I would rather not give a number."), "bad_reply"),
}


class Mood:
    """A script that answers as it is set to."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def __call__(self, _: ModelRequest) -> Step:
        """Answer."""
        return self.step


@contextmanager
def judged_over(folder: Path, url: str, *rules: dict[str, Any], **settings: Any) -> Iterator[Offline]:
    """Start a server with a connection `main` and rules in files."""
    (folder / "rules").mkdir()
    for number, rule in enumerate(rules):
        (folder / "rules" / f"{number}.yaml").write_text(yaml.safe_dump(rule))
    limits = {"attempts": 1, "timeoutSeconds": 0.5, "inFlight": 4}
    connection = {"baseUrl": url, "model": "m", "protocol": "CHAT_COMPLETIONS", "limits": limits}
    with an_offline_server(
        folder / "data", rules=folder / "rules", llm_connections={"main": connection}, **settings
    ) as server:
        yield server


def send(server: Offline, traces: Sequence[int], output: str = "42") -> None:
    """Send traces of a span with an answer each."""
    for trace in traces:
        request = an_export(f"{trace:032x}", "answer")
        request.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="output.value").value.string_value = output
        post(f"{server.url}/api/v1/traces", request.SerializeToString())


def holding(server: Offline, name: str = "judge_failing") -> list[str]:
    """Return the messages of the condition, as of now."""
    conditions = server.ask("GET", "status")["server"]["conditions"]
    return [each["message"] for each in conditions if each["name"] == name]


def reported(server: Offline) -> str:
    """Return the message of the one condition, once it holds."""
    (message,) = until(lambda: holding(server), bool, within_s=LONG_S)
    return message


def page(server: Offline, path: str) -> str:
    """Get a page."""
    return server.answer("GET", f"../..{path}").text


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines of the log about the condition."""
    messages = [record.getMessage() for record in caplog.records if record.name == "collector.conditions"]
    return [message for message in messages if message.startswith("judge_failing")]


@pytest.mark.parametrize("how", CAUSES)
def test_a_connection_that_gives_no_verdicts_is_reported_everywhere(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In status, metrics, log, beside the rule and the connection and on Home; the server stays ready."""
    step, kind = CAUSES[how]
    with a_model(step or GOOD) as model, caplog.at_level(logging.WARNING):
        url = model.base_url if step is not None else f"http://127.0.0.1:{unused_port()}/v1"
        with judged_over(tmp_path, url, RULE) as server:
            send(server, range(1, 9))
            message = reported(server)
            assert message.startswith(f"the connection 'main' gives no verdicts: {kind}: ")
            place = server.url.removeprefix("http://")
            (rule,) = server.ask("GET", "trace-eval-rules")["content"]
            (connection,) = server.ask("GET", "llm-connections")
            for problem in (rule["problem"], connection["problem"]):
                assert "'main' gives no verdicts" in problem
                assert kind in problem
                assert "; since 20" in problem
            assert "judge_failing since 20" in run("status", "--server", place).stdout
            assert "helpful judges nothing: the connection 'main'" in run("rules", "list", "--server", place).stdout
            assert "main gives no verdicts" in run("connections", "list", "--server", place).stdout
            assert "gives no verdicts" in page(server, "/connections")
            for path in ("/", "/status", f"/rules/{rule['id']}", f"/connections/{connection['id']}"):
                assert kind in page(server, path), path
            numbers = page(server, "/metrics")
            assert 'tracejury_conditions{name="judge_failing"} 1.0' in numbers
            assert f'tracejury_failing_judge_waiting{{cause="{kind}",kind="connection"}}' in numbers
            assert server.answer("GET", "../../ready").status_code == 200
            assert len(lines(caplog)) == 1


def test_a_refused_connection_is_a_failed_call_in_every_count(tmp_path: Path) -> None:
    """With one request for each attempt, the condition, the API, the commands, pages and metrics have one number."""
    url = f"http://127.0.0.1:{unused_port()}/v1"
    with judged_over(tmp_path, url, RULE) as server:
        place = server.url.removeprefix("http://")
        send(server, range(1, 9))
        reported(server)

        def counts() -> set[int]:
            (attempts,) = re.findall(r"(\d+) failed attempts since", reported(server))
            (metric,) = re.findall(r'judge_calls_total\{outcome="failed"\} (\d+)', page(server, "/metrics"))
            table = run("connections", "list", "--server", place).stdout.splitlines()
            (listed,) = (line.split() for line in table if "none" in line)
            (of_connection,) = (each["spentToday"]["failedCalls"] for each in server.ask("GET", "llm-connections"))
            of_all = server.ask("GET", "status")["spentToday"]["failedCalls"]
            return {int(attempts), int(metric), int(listed[-3]), of_connection, of_all}

        (failed,) = until(counts, lambda numbers: len(numbers) == 1, within_s=LONG_S)
        assert failed >= 3
        assert f"and {failed} failed" in run("status", "--server", place).stdout
        assert server.ask("GET", "status")["spentToday"]["calls"] == 0


def test_what_waits_is_counted_and_a_change_of_the_connection_begins_anew(tmp_path: Path) -> None:
    """The message has the number of evaluations that wait; one that leads elsewhere has given no failures yet."""
    with a_model(Status(503)) as down, a_model(GOOD) as up, an_offline_server(tmp_path / "data") as server:
        limits = {"attempts": 1, "inFlight": 4}
        document = {"name": "main", "baseUrl": down.base_url, "model": "m", "protocol": "CHAT_COMPLETIONS"}
        made = server.ask("POST", "llm-connections", 201, json=document | {"limits": limits})
        server.ask("POST", "projects/shop/trace-eval-rules", 201, json=RULE)
        send(server, range(1, 31))
        until(lambda: holding(server), lambda conditions: "30 evaluations wait" in str(conditions), within_s=LONG_S)
        assert (
            server.ask("PUT", f"llm-connections/{made['id']}", json=made | {"baseUrl": up.base_url})["problem"] is None
        )
        until(lambda: server.ask("GET", "status")["last24h"]["scored"], lambda scored: scored == 30, within_s=LONG_S)
        until(lambda: holding(server), lambda conditions: not conditions, within_s=LONG_S)


def test_a_judge_that_dies_recovers_and_dies_is_reported_once_for_each_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has one line when it fails, one when it gives verdicts again, and one when it fails once more."""
    mood = Mood(Status(503))
    scored = "SELECT count(*) FROM evaluation WHERE outcome = 'scored'"
    with a_model(mood) as model, caplog.at_level(logging.WARNING):
        with judged_over(tmp_path, model.base_url, RULE) as server:
            send(server, range(1, 9))
            until(lambda: lines(caplog), lambda logged: len(logged) == 1, within_s=LONG_S)
            mood.step = GOOD
            until(lambda: server.sql(scored), lambda rows: rows == [[8]], within_s=LONG_S)
            until(lambda: lines(caplog), lambda logged: len(logged) == 2, within_s=LONG_S)
            mood.step = Status(401)
            send(server, range(9, 17))
            until(lambda: lines(caplog), lambda logged: len(logged) == 3, within_s=LONG_S)
            assert "not_served" in reported(server)
        first, over, second = lines(caplog)
    assert first.startswith("judge_failing: the connection 'main' gives no verdicts: unavailable")
    assert over.startswith("judge_failing is over after ")
    assert second.startswith("judge_failing: the connection 'main' gives no verdicts: not_served")


def test_a_cause_that_changes_is_logged_once_and_the_end_names_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A line for each new cause, none for one that comes back; the line of the end has all of them."""
    mood = Mood(Status(401))
    with (
        a_model(mood) as model,
        caplog.at_level(logging.WARNING),
        judged_over(tmp_path, model.base_url, RULE) as server,
    ):
        send(server, range(1, 9))
        until(lambda: lines(caplog), lambda logged: len(logged) == 1, within_s=LONG_S)
        mood.step = Status(413)
        send(server, [9])
        until(lambda: lines(caplog), lambda logged: len(logged) == 2, within_s=LONG_S)
        mood.step = Status(401)
        send(server, [10])
        until(lambda: reported(server), lambda text: "verdicts: not_served" in text, within_s=LONG_S)
        mood.step = GOOD
        send(server, [11])
        until(lambda: lines(caplog), lambda logged: len(logged) == 3, within_s=LONG_S)
    first, changed, over = lines(caplog)
    assert first.startswith("judge_failing: the connection 'main' gives no verdicts: not_served")
    assert changed.startswith("judge_failing changed: the connection 'main' gives no verdicts: refused")
    assert "; before that: not_served;" in changed
    assert over.startswith("judge_failing is over after ")
    assert "verdicts: not_served" in over
    assert "; before that: refused;" in over


@pytest.mark.parametrize("dying", [["third"], ["main", "second", "third"]])
def test_a_jury_that_dies_recovers_and_dies_is_reported_once_for_each_change(
    tmp_path: Path, dying: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Each connection of the jury that fails has a line for each change, and the rule that it stops has none."""
    dead, counted = set(dying), len(dying)

    def script(request: ModelRequest) -> Step:
        return Status(401) if request.body["model"] in dead else GOOD

    with (
        a_model(script) as model,
        an_offline_server(tmp_path / "data") as server,
        caplog.at_level(logging.WARNING),
    ):
        connection = {"baseUrl": model.base_url, "protocol": "CHAT_COMPLETIONS", "limits": {"attempts": 1}}
        for name in ("main", "second", "third"):
            server.ask("POST", "llm-connections", 201, json=connection | {"name": name, "model": name})
        server.ask("POST", "projects/shop/trace-eval-rules", 201, json=RULE | {"jury": ["second", "third"]})
        send(server, range(1, 9))
        until(lambda: lines(caplog), lambda logged: len(logged) == counted, within_s=LONG_S)
        (rule,) = server.ask("GET", "trace-eval-rules")["content"]
        # Of several it names the one that failed first.
        assert any(f"the connection {name!r} gives no verdicts" in rule["problem"] for name in dying)
        dead.clear()
        send(server, range(9, 17))
        until(lambda: lines(caplog), lambda logged: len(logged) == 2 * counted, within_s=LONG_S)
        dead.update(dying)
        send(server, range(17, 25))
        until(lambda: lines(caplog), lambda logged: len(logged) == 3 * counted, within_s=LONG_S)
    for name in dying:
        first, over, second = (line for line in lines(caplog) if f"the connection {name!r}" in line)
        assert "is over after" in over
        assert first.startswith(f"judge_failing: the connection {name!r} gives no verdicts: not_served")
        assert second.startswith(f"judge_failing: the connection {name!r} gives no verdicts: not_served")


def test_a_rule_that_fails_over_a_connection_that_works_is_to_blame(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is reported and its connection is not, also while the other rule rests; once nothing works both are."""
    is_dead: list[bool] = []

    def script(request: ModelRequest) -> Step:
        if is_dead:
            return Status(401)
        return Says("no idea") if "BROKEN" in request.user + request.system else GOOD

    rules = [RULE | {"name": "broken", "criteria": "BROKEN"}, RULE | {"name": "fine"}]
    scored = "SELECT count(*) FROM evaluation WHERE outcome = 'scored'"
    with (
        a_model(script) as model,
        caplog.at_level(logging.WARNING),
        judged_over(tmp_path, model.base_url, *rules) as server,
    ):
        for trace in (1, 2):  # less than three targets, until the other rule has a verdict
            send(server, [trace])
            until(partial(server.sql, scored), [[trace]].__eq__, within_s=LONG_S)
        send(server, range(3, 9))
        until(
            lambda: server.ask("GET", "status")["last24h"],
            lambda counts: (counts["scored"], counts["failed"]) == (8, 8),
            within_s=LONG_S,
        )
        message = reported(server)
        assert message.startswith("the rule 'broken' gives no verdicts: bad_reply: ")
        (connection,) = server.ask("GET", "llm-connections")
        problems = {each["name"]: each["problem"] for each in server.ask("GET", "trace-eval-rules")["content"]}
        assert (connection["problem"], problems["fine"]) == (None, None)
        assert message[:60] in problems["broken"]
        assert len(lines(caplog)) == 1
        is_dead.append(True)
        send(server, range(9, 13))
        until(
            lambda: holding(server),
            lambda conditions: any("the connection" in each for each in conditions),
            within_s=LONG_S,
        )
        (connection,) = server.ask("GET", "llm-connections")
        assert "'main' gives no verdicts: not_served" in connection["problem"]


@pytest.mark.parametrize(
    "answer,kind",
    [
        (Status(503), "unavailable"),
        (Status(401), "not_served"),
        (Status(402), "not_served"),
        (Status(403), "not_served"),
        (Status(404, b'{"error": {"message": "The model m does not exist", "code": "model_not_found"}}'), "not_served"),
        (Status(400, b'{"error": {"message": "Your credit balance is too low to access the API"}}'), "not_served"),
        (Status(429, b'{"error": {"message": "Check your plan", "code": "insufficient_quota"}}'), "rate_limited"),
    ],
)
def test_a_rule_whose_fallback_answers_has_no_problem(tmp_path: Path, answer: Status, kind: str) -> None:
    """The connection that is down, or refuses its key, credit or model, is reported, with who is asked instead."""
    with a_model(answer) as down, a_model(GOOD) as up, an_offline_server(tmp_path / "data") as server:
        document = {"model": "m", "protocol": "CHAT_COMPLETIONS", "limits": {"attempts": 1, "inFlight": 4}}
        server.ask("POST", "llm-connections", 201, json={"name": "other", "baseUrl": up.base_url} | document)
        main = {"name": "main", "baseUrl": down.base_url, "fallback": "other"}
        server.ask("POST", "llm-connections", 201, json=main | document)
        server.ask("POST", "projects/shop/trace-eval-rules", 201, json=RULE)
        send(server, range(1, 9))
        until(lambda: server.ask("GET", "status")["last24h"]["scored"], lambda scored: scored == 8, within_s=LONG_S)
        message = reported(server)
        assert message.startswith(f"the connection 'main' gives no verdicts: {kind}")
        assert "; its fallback 'other' is used; " in message
        (rule,) = server.ask("GET", "trace-eval-rules")["content"]
        assert rule["problem"] is None


def test_a_refusal_names_no_fallback_and_is_one_condition(tmp_path: Path) -> None:
    """A refused request is not sent to the fallback: the connection alone is reported, until its rule is deleted."""
    with a_model(Status(413)) as refusing, a_model(GOOD) as up, an_offline_server(tmp_path / "data") as server:
        document = {"model": "m", "protocol": "CHAT_COMPLETIONS", "limits": {"attempts": 1, "inFlight": 4}}
        server.ask("POST", "llm-connections", 201, json={"name": "other", "baseUrl": up.base_url} | document)
        main = {"name": "main", "baseUrl": refusing.base_url, "fallback": "other"}
        server.ask("POST", "llm-connections", 201, json=main | document)
        server.ask("POST", "projects/shop/trace-eval-rules", 201, json=RULE)
        send(server, range(1, 9))
        until(lambda: server.ask("GET", "status")["last24h"]["failed"], lambda failed: failed == 8, within_s=LONG_S)
        message = reported(server)
        assert message.startswith("the connection 'main' gives no verdicts: refused")
        assert "asked instead" not in message
        (rule,) = server.ask("GET", "trace-eval-rules")["content"]
        assert "the connection 'main'" in rule["problem"]
        version = {"If-Match": f'"{rule["version"]}"'}
        server.ask("DELETE", f"projects/shop/trace-eval-rules/{rule['id']}", 204, headers=version)
        assert until(lambda: holding(server), lambda messages: messages == [], within_s=LONG_S) == []


@pytest.mark.parametrize("code,waiting", [(413, 0), (401, 0), (503, 8)])
def test_a_passed_test_ends_the_condition_of_the_connection(tmp_path: Path, code: int, waiting: int) -> None:
    """With and without evaluations that wait, which are made then; a test that fails ends nothing."""
    mood = Mood(Status(code))
    with a_model(mood) as model, judged_over(tmp_path, model.base_url, RULE) as server:
        place = server.url.removeprefix("http://")
        send(server, range(1, 9))
        reported(server)
        assert run("connections", "test", "main", "--server", place).exit_code == 1
        assert reported(server)
        mood.step = Says({"ok": True, "score": 0.9, "reason": "good"})
        assert "main works" in run("connections", "test", "main", "--server", place).stdout
        (rule,) = server.ask("GET", "trace-eval-rules")["content"]
        (connection,) = server.ask("GET", "llm-connections")
        assert (rule["problem"], connection["problem"]) == (None, None)
        until(lambda: holding(server), lambda conditions: not conditions, within_s=LONG_S)
        until(lambda: server.ask("GET", "status")["last24h"]["scored"], waiting.__eq__, within_s=LONG_S)


def test_what_a_rule_cannot_read_outlasts_the_failures_of_its_connection() -> None:
    """A verdict over the connection ends what the connection was to blame for, and leaves the test cases."""
    health, subject, rule = JudgeHealth(lambda: 0), JudgeSubject("connection", "c"), JudgeSubject("rule", "r")
    for target in range(20):
        health.note(rule, a_failure("bad_case"), target)
    for target in range(3):
        health.note(rule, a_failure("unreachable"), target)
        health.note(subject, a_failure("unreachable"), target, rule)
    health.answered("c", is_verdict=False)
    assert list(health.streaks) == [rule]
    assert (health.streaks[rule].kind, health.streaks[rule].is_failing(0)) == ("bad_case", True)
    health.note(subject, a_failure("bad_reply"), 1, rule)
    health.answered("c", is_verdict=False)
    assert subject in health.streaks


def test_what_ended_without_a_verdict_is_counted_with_the_command_that_judges_it_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the condition, its line in the log once it is over, and beside the connection; the command does it."""
    mood = Mood(Says("no idea"))
    with (
        a_model(mood) as model,
        caplog.at_level(logging.WARNING),
        judged_over(tmp_path, model.base_url, RULE | {"name": "is helpful"}) as server,
    ):
        send(server, range(1, 9))
        hint = "; 8 ended without a verdict: `tracejury jobs retry --rule 'is helpful' --error bad_reply` has them"
        until(lambda: str(holding(server)[:1]), lambda text: " 8 ended" in text, within_s=LONG_S)
        assert hint in reported(server)
        (connection,) = server.ask("GET", "llm-connections")
        assert hint in connection["problem"]
        # The condition counts a result shortly before it is stored for the command to find.
        until(lambda: server.ask("GET", "status")["last24h"]["failed"], (8).__eq__, within_s=LONG_S)
        mood.step = GOOD
        command = ("jobs", "retry", "--rule", "is helpful", "--error", "bad_reply")
        run(*command, "--server", server.url.removeprefix("http://"))
        until(lambda: server.ask("GET", "status")["last24h"]["scored"], (8).__eq__, within_s=LONG_S)
        until(lambda: lines(caplog), lambda logged: len(logged) == 2, within_s=LONG_S)
    assert "is over after" in lines(caplog)[-1]
    assert hint in lines(caplog)[-1]


def test_a_code_judge_that_always_crashes_is_reported(tmp_path: Path) -> None:
    """With the rule, what its program said last, and nothing about connections."""
    rule = {
        "name": "own",
        "evaluator": "code_judge",
        "config": {"script": ["/bin/sh", "-c", "echo boom >&2; exit 3"], "reads": []},
    }
    with judged_over(tmp_path, "http://127.0.0.1:9/v1", rule) as server:
        send(server, range(1, 6))
        message = reported(server)
        assert message.startswith("the rule 'own' gives no verdicts: judge_error: ")
        assert "boom" in message
        (listed,) = server.ask("GET", "trace-eval-rules")["content"]
        assert "judge_error" in listed["problem"]
        (connection,) = server.ask("GET", "llm-connections")
        assert connection["problem"] is None


@pytest.mark.parametrize("budget", [{"tokensPerDay": 5}, {"callsPerDay": 0}])
def test_a_budget_that_is_too_small_for_one_request_is_reported(tmp_path: Path, budget: dict[str, int]) -> None:
    """With its remedy; a budget that is merely spent is not reported so."""
    (name,) = budget
    with a_model(GOOD) as model, judged_over(tmp_path, model.base_url, RULE | {"budget": budget}) as server:
        send(server, range(1, 6))
        message = reported(server)
        assert "the budget of rule 'helpful' is too small for this request" in message
        assert f"raise {name}" in message
        (rule,) = server.ask("GET", "trace-eval-rules")["content"]
        assert "too small" in rule["problem"]
        assert model.requests == []


def test_a_budget_that_is_spent_is_no_failure_and_shows_the_number_that_it_counts(tmp_path: Path) -> None:
    """Rules, status and page agree with the budget: five calls that count, and beside them those that failed."""
    mood, rule = Mood(Status(503)), RULE | {"budget": {"callsPerDay": 5}}
    with a_model(mood) as model, judged_over(tmp_path, model.base_url, rule) as server:
        send(server, range(1, 13))
        reported(server)
        mood.step = GOOD
        until(lambda: server.ask("GET", "status")["last24h"]["skipped"], lambda count: count == 7, within_s=LONG_S)
        (listed,) = until(
            lambda: server.ask("GET", "trace-eval-rules")["content"],
            lambda rules: rules[0]["activity"]["spentToday"]["calls"] == 5,
        )
        failed = listed["activity"]["spentToday"]["failedCalls"]
        assert failed == len(model.requests) - 5 > 0
        assert "5 of 5 calls" in re.sub("<[^>]*>", "", page(server, "/rules"))
        assert f"{failed} failed call" in page(server, f"/rules/{listed['id']}")
        for path in ("/quality", f"/quality?rule={listed['id']}&project=shop"):
            assert "cost unknown; 5 calls without a price" in page(server, path), path
        why = page(server, f"/rules/{listed['id']}").partition("were not evaluated")[2].partition("</table>")[0]
        assert "skipped a budget was used up over_budget 7" in " ".join(re.sub("<[^>]*>", " ", why).split())
        assert server.ask("GET", "status")["spentToday"]["calls"] == 5
        until(lambda: holding(server), lambda conditions: not conditions, within_s=LONG_S)
        assert listed["problem"] is None


def test_a_check_that_judges_nothing_is_reported_once_for_each_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A check whose targets all lack the fields it reads is reported like a judge, also after it recovered."""
    check = {"name": "shape", "evaluator": "structural_match", "expected": {"output": {"a": 1}}}
    with (
        caplog.at_level(logging.WARNING),
        judged_over(tmp_path, f"http://127.0.0.1:{unused_port()}/v1", check) as server,
    ):
        send(server, range(1, 25), output="not JSON")
        message = reported(server)
        assert message.startswith("the rule 'shape' gives no verdicts: bad_case: actualOutputs.output is not JSON")
        place = server.url.removeprefix("http://")
        (rule,) = server.ask("GET", "trace-eval-rules")["content"]
        assert "bad_case: actualOutputs.output is not JSON" in rule["problem"]
        assert "judge_failing since 20" in run("status", "--server", place).stdout
        assert "shape judges nothing: the rule 'shape'" in run("rules", "list", "--server", place).stdout
        for path in ("/", "/status", "/rules", f"/rules/{rule['id']}"):
            assert "bad_case" in page(server, path), path
        assert 'tracejury_failing_judge_seconds{cause="bad_case",kind="rule"}' in page(server, "/metrics")
        assert len(lines(caplog)) == 1
        send(server, [25], output='{"a": 1}')
        until(lambda: lines(caplog), lambda logged: len(logged) == 2, within_s=LONG_S)
        send(server, range(26, 50), output="not JSON")
        until(lambda: lines(caplog), lambda logged: len(logged) == 3, within_s=LONG_S)
    first, over, second = lines(caplog)
    assert "is over after" in over
    assert first[:60] == second[:60]


def test_an_evaluation_of_a_run_reports_by_the_same_mechanism(tmp_path: Path) -> None:
    """Items that wait for a connection that is down are counted with its condition."""
    with a_model(Status(503)) as model, judged_over(tmp_path, model.base_url) as server:
        run_id = ended(server, *answers(9))
        ask(server, run_id, connectionId="main", evaluatorName="Quality", criteria="Is it right?")
        message = reported(server)
        assert message.startswith("the connection 'main' gives no verdicts: unavailable")
        assert "9 evaluations wait" in message


def a_failure(kind: str = "unavailable") -> Failure:
    """Build a failed evaluation."""
    return Failure(name="n", fingerprint=None, kind=kind, message="why", usage=None)


def test_one_target_alone_says_little_and_a_verdict_ends_the_streak() -> None:
    """Three targets, or a minute without an answer, make a judge fail; failures that are not its own do not count."""
    now = [0]
    health, subject = JudgeHealth(lambda: now[0]), JudgeSubject("connection", "c")
    for kind in ("over_budget", "bad_case", "rule_disabled", "bad_configuration", "budget_held", "evaluator_error"):
        health.note(subject, a_failure(kind), kind)
    assert health.streaks == {}
    for _ in range(9):
        health.note(subject, a_failure("bad_reply"), 1)
    assert not health.streaks[subject].is_failing(10**12)
    health.note(subject, a_failure(), 1)
    assert not health.streaks[subject].is_failing(59 * 10**9)
    assert health.streaks[subject].is_failing(60 * 10**9)
    for target in (2, 3):
        health.note(subject, a_failure("bad_reply"), target)
    assert health.streaks[subject].is_failing(0)
    usage = Usage(calls=1, model="m", input_tokens=1, output_tokens=1, cost_usd=None, latency_ms=1.0)
    verdict: dict[str, Any] = {"score": 1.0, "threshold": 0.5, "direction": "higher", "reason": "", "metadata": {}}
    health.note(subject, Verdict(name="n", fingerprint="f", usage=None, **verdict), 4)
    assert subject in health.streaks  # no judge was asked
    health.note(subject, Verdict(name="n", fingerprint="f", usage=usage, **verdict), 5)
    assert health.streaks == {}


def test_a_rule_of_which_every_case_lacks_what_it_reads_gives_no_verdicts() -> None:
    """Twenty different targets in a row that cannot be judged are reported, fewer are not, and a verdict ends it."""
    health, rule = JudgeHealth(lambda: 0), JudgeSubject("rule", "r")
    for target in range(19):
        health.note(rule, a_failure("bad_case"), target)
        health.note(rule, a_failure("bad_case"), target)
    health.note(rule, a_failure("bad_reply"), 100)
    assert not health.streaks[rule].is_failing(10**12)
    health.note(rule, a_failure("bad_case"), 19)
    assert health.streaks[rule].is_failing(0)
    terms: dict[str, Any] = {"score": 1.0, "threshold": 0.5, "direction": "higher", "reason": "", "metadata": {}}
    health.note(rule, Verdict(name="n", fingerprint="f", usage=None, **terms), 20)
    assert health.streaks == {}


def test_a_failure_is_its_askers_own_if_others_get_verdicts() -> None:
    """It counts against the connection again once the asker got a verdict, or if the connection did not answer."""
    now = [0]
    health, subject = JudgeHealth(lambda: now[0]), JudgeSubject("connection", "c")
    broken, fine = JudgeSubject("rule", "broken"), JudgeSubject("rule", "fine")
    usage = Usage(calls=1, model="m", input_tokens=1, output_tokens=1, cost_usd=None, latency_ms=1.0)
    terms: dict[str, Any] = {"score": 1.0, "threshold": 0.5, "direction": "higher", "reason": "", "metadata": {}}
    verdict = Verdict(name="n", fingerprint="f", usage=usage, **terms)
    for asker in (broken, fine):
        health.note(asker, a_failure("bad_reply"), 1)
        health.note(subject, a_failure("bad_reply"), 1, asker)
    assert health.streaks[subject].askers == {broken, fine}
    now[0] = 1
    health.note(subject, verdict, 1, fine)
    assert health.streaks == {}  # the connection was to blame for both
    for target in range(3):
        health.note(subject, a_failure("bad_reply"), target, broken)
    assert health.streaks == {}
    health.note(subject, a_failure("unreachable"), 1, broken)
    health.note(subject, verdict, 2, broken)
    assert health.streaks == {}
    health.note(subject, a_failure("bad_reply"), 3, broken)
    assert health.streaks[subject].askers == {broken}


def test_skipped_targets_between_failures_say_nothing() -> None:
    """A rule whose judge fails at every target that it is asked about fails, however many targets are skipped."""
    health, subject = JudgeHealth(lambda: 0), JudgeSubject("rule", "r")
    for target in range(3):
        health.note(subject, a_failure("bad_reply"), target)
        health.note(subject, Skipped(name="n", fingerprint="f", reason="not captured: output", usage=None), 9)
    assert health.streaks[subject].is_failing(0)


def test_a_tenant_sees_no_numbers_of_a_shared_connection() -> None:
    """How many evaluations of others wait is for the operator, and for the tenant whose connection it is."""
    failing = FailingJudge(
        kind="connection",
        identity="c",
        subject="the connection 'main'",
        name="main",
        tenant="",
        cause="timeout",
        message="no answer",
        since_ns=0,
        last_ns=0,
        failures=7,
        waiting=1,
    )
    numbers = "7 failed attempts since the last verdict, the latest at 00:00:00 UTC; 1 evaluation waits"
    assert numbers in failing.text_for(None)
    assert failing.text_for("acme") == (
        "the connection 'main' gives no verdicts: timeout: no answer; since 1970-01-01 00:00:00 UTC"
    )
