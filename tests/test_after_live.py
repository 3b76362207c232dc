"""Rules that depend on others' results, on a running server: over the API, in a dry run, from files, on pages."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live import until
from tests.offline import Offline, an_offline_server
from tests.serving import an_export, post, run

RULES = "projects/shop/trace-eval-rules"
CHECK = {"name": "short", "evaluator": "length", "config": {"maximumOutputLength": 10}}
JUDGE = {
    "name": "polite",
    "evaluator": "regex",
    "config": {"pattern": "please"},
    "after": {"rule": "short", "passed": False},
}
TEXTS = ("fine", "far too long, please", "far too long an answer", "brief")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield a server with a check and a rule that depends on it, and four spans, two of which are flagged."""
    with an_offline_server(tmp_path_factory.mktemp("after") / "data") as server:
        server.ask("POST", RULES, 201, json=CHECK)
        server.ask("POST", RULES, 201, json=JUDGE)
        for number, text in enumerate(TEXTS, start=1):
            request = an_export(f"{number:032x}", "answer")
            attributes = request.resource_spans[0].scope_spans[0].spans[0].attributes
            attributes.add(key="output.value").value.string_value = text
            post(f"{server.url}/api/v1/traces", request.SerializeToString())
        until(
            lambda: decided(server),
            lambda decisions: decisions.count("scored") == 2 and decisions.count("unflagged") == 2,
        )
        yield server


def decided(server: Offline, rule: str = "polite") -> list[str]:
    """List the decisions of a rule, by trace."""
    return [row[0] for row in server.sql(f"SELECT decision FROM decisions WHERE rule = '{rule}' ORDER BY trace_id")]


def refused(server: Offline, **keys: object) -> str:
    """Return the error for the key `after` of a rule."""
    (problem,) = server.ask("POST", RULES, 400, json={**CHECK, "name": "other", **keys})["problems"]
    assert problem["key"] == "after"
    return str(problem["message"])


def test_only_what_was_flagged_is_judged(server: Offline) -> None:
    """Two of four have a result, and the others tell that nothing called for them; nothing is left to be done."""
    assert decided(server, "short") == ["scored"] * 4
    assert decided(server) == ["unflagged", "scored", "scored", "unflagged"]
    query = "SELECT trace_id, passed FROM evaluations WHERE rule = 'polite' ORDER BY trace_id"
    assert server.sql(query) == [[f"{2:032x}", True], [f"{3:032x}", False]]
    assert server.ask("GET", "jobs", params={"state": "held"})["content"] == []
    assert server.ask("GET", "status")["jobs"]["held"] == 0
    place = server.url.removeprefix("http://")
    shown = run("traces", "show", f"{1:032x}", "--explain", f"{1:016x}", "--server", place).stdout
    assert "polite: unflagged" in shown


def test_a_dry_run_goes_by_results_that_are_stored(server: Offline) -> None:
    """It counts what would be judged and what nothing calls for, and explains one trace, while nothing is stored."""
    window = {"lastSeconds": 3_600 * 24 * 3_000}
    tried = server.ask("POST", f"{RULES}/test", json=JUDGE, params=window)
    counts = [(each["decision"], each["why"], each["count"]) for each in tried["decisions"]]
    assert sorted(counts, key=str) == [("matched", None, 2), ("unflagged", "after 'short' did not pass", 2)]
    assert {each["traceId"] for each in tried["examples"]} == {f"{number:032x}" for number in (2, 3)}
    assert tried["cost"]["evaluations"] == 2
    of_traces = {**JUDGE, "target": "TRACE"}
    assert server.ask("POST", f"{RULES}/test", json=of_traces, params=window)["cost"]["evaluations"] == 2
    for number, decision in ((1, "unflagged"), (2, "matched")):
        for rule in (JUDGE, of_traces):
            dry_run = server.ask("POST", f"{RULES}/test", json=rule, params={"trace": f"{number:032x}"})
            assert [span["decision"] for span in dry_run["spans"]] == [decision]
    assert len(server.ask("GET", RULES)) == 2


def test_a_dry_run_goes_by_sums(server: Offline) -> None:
    """The sums of a trace are conditions there too, span by span and in all."""
    rule = {**CHECK, "target": "TRACE", "conditions": [{"field": "trace.span_count", "op": ">", "value": 1}]}
    window = {"lastSeconds": 3_600 * 24 * 3_000}
    tried = server.ask("POST", f"{RULES}/test", json=rule, params=window)["decisions"]
    assert [(each["decision"], each["why"], each["count"]) for each in tried] == [
        ("filtered", "trace.span_count > 1", 4)
    ]
    dry_run = server.ask("POST", f"{RULES}/test", json=rule, params={"trace": f"{1:032x}"})
    assert (dry_run["decision"], dry_run["clause"], dry_run["spans"][0]["value"]) == (
        "filtered",
        "trace.span_count > 1",
        1.0,
    )


def test_rules_that_would_wait_for_each_other_are_refused(server: Offline) -> None:
    """By name, whether it is a new rule, itself, or one that is changed."""
    assert refused(server, after={"rule": "other", "passed": True}) == (
        "rules would wait for each other: 'other' follows 'other'"
    )
    check = next(each for each in server.ask("GET", RULES) if each["name"] == "short")
    changed = {**CHECK, "after": {"rule": "polite", "passed": True}}
    (problem,) = server.ask("PUT", f"{RULES}/{check['id']}", 400, json=changed)["problems"]
    assert problem["message"] == "rules would wait for each other: 'short' follows 'polite' follows 'short'"
    by_id = {**CHECK, "name": "third", "after": {"rule": check["id"], "atLeast": 0.5}}
    made = server.ask("POST", RULES, 201, json=by_id)
    assert (made["after"], made["problem"]) == ({"rule": check["id"], "atLeast": 0.5}, None)
    server.ask("PUT", f"{RULES}/{check['id']}", json={**CHECK, "enabled": False})
    place = f"{RULES}/{made['id']}"
    message = f"the rule '{check['id']}' that it follows is disabled; enable it"
    assert server.ask("GET", place)["problem"] == message
    assert "It evaluates nothing" in httpx.get(f"{server.url}/rules/{made['id']}").text
    server.ask("PUT", f"{RULES}/{check['id']}", json=CHECK)
    assert server.ask("GET", place)["problem"] is None
    server.ask("DELETE", f"{RULES}/{made['id']}", 204)


def test_a_rule_that_is_not_there_or_judges_something_else_is_refused(server: Offline) -> None:
    """The refusal lists the rules that could be named instead."""
    assert refused(server, after={"rule": "long", "passed": True}) == (
        "there is no rule 'long' to follow; there are: polite, short"
    )
    assert refused(server, target="SESSION", after={"rule": "short", "passed": True}) == (
        "a rule about SESSION can only follow results about SESSION, and 'short' is about SPAN"
    )


def test_files_may_go_by_each_other_in_a_row_and_in_no_circle(tmp_path: Path) -> None:
    """A rule that closes a cycle is left out, active rules stay, and rules become active once the cycle is broken."""
    folder = tmp_path / "rules"
    folder.mkdir()

    def put(name: str, after: str | None) -> None:
        rule: dict[str, Any] = {**CHECK, "name": name}
        made = folder / f".{name}"
        made.write_text(json.dumps(rule if after is None else {**rule, "after": {"rule": after, "passed": False}}))
        made.rename(folder / f"{name}.yaml")

    put("a", None)
    put("b", "a")
    with an_offline_server(tmp_path / "data", rules=folder) as server:

        def problem_messages() -> dict[str, str]:
            return {each["file"]: each["message"] for each in server.ask("GET", "trace-eval-rules")["problems"]}

        def after() -> dict[str, Any]:
            content = server.ask("GET", "trace-eval-rules")["content"]
            return {each["name"]: (each["after"] or {}).get("rule") for each in content}

        until(after, lambda rules: rules == {"a": None, "b": "a"})
        put("a", "b")
        circle = "rules would wait for each other: 'a' follows 'b' follows 'a'"
        assert until(problem_messages, bool)["a.yaml"] == circle
        assert after() == {"a": None, "b": "a"}
        put("b", None)
        until(after, lambda rules: rules == {"a": "b", "b": None})
        until(problem_messages, lambda messages: not messages)
        put("c", "nobody")
        assert until(problem_messages, bool) == {"c.yaml": "there is no rule 'nobody' to follow; there are: a, b"}
