"""Parameters of a query: bound by name, values and never text of the statement."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from collector.app import Running
from tests.serving import a_server, an_export, post


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server that holds two spans."""
    with a_server(tmp_path_factory.mktemp("server") / "data") as server:
        post(f"http://{server.http}/api/v1/traces", an_export("a" * 32, "one", "two").SerializeToString())
        assert server.store.wait_committed(10)
        yield server


def ask(server: Running, statement: str, parameters: Any) -> httpx.Response:
    """Run a query; return the response."""
    with httpx.Client(trust_env=False) as client:
        content = json.dumps({"sql": statement, "parameters": parameters})
        return client.post(
            f"http://{server.http}/api/v1/sql", content=content, headers={"content-type": "application/json"}
        )


@pytest.mark.parametrize(
    "value", ["one", "x' OR true --", "", "日本 \x00", 5, -(2**63), 2**63 - 1, 0.1, 1e300, True, None]
)
def test_a_parameter_arrives_as_it_was_sent(server: Running, value: object) -> None:
    """Text, numbers, booleans and null come back equal."""
    answer = ask(server, "SELECT $value AS value", {"value": value})
    assert answer.status_code == 200, answer.text
    assert answer.json()["rows"] == [[value]]


@pytest.mark.parametrize("end", ["", ";", " ; ;", " -- $name;", "; -- ä;\n", " /* ; */ ;"])
def test_parameters_and_times_go_together(server: Running, end: str) -> None:
    """A statement with parameters may answer with nanoseconds, however it ends."""
    answer = ask(server, f"SELECT start_time, 'ä' FROM spans WHERE name = $name{end}", {"name": "two"})
    assert answer.json()["rows"] == [["2026-11-21T10:00:00.000000002Z", "ä"]]


@pytest.mark.parametrize("parameters", [{}, {"other": 1}, {"name": "one", "other": 1}])
def test_parameters_must_fit_the_statement(server: Running, parameters: dict[str, object]) -> None:
    """One that is missing or too many is an error that names it."""
    answer = ask(server, "SELECT count(*) FROM spans WHERE name = $name", parameters)
    assert answer.status_code == 400
    assert any(each in answer.json()["error"] for each in {"name"} ^ set(parameters))


@pytest.mark.parametrize(
    "parameters", [[], {"a": []}, {"a": {}}, {"a": 2**63}, {"a": float("nan")}, {"a": float("inf")}, {"a": "\ud800"}]
)
def test_other_values_are_refused(server: Running, parameters: object) -> None:
    """Lists, maps, and numbers that no column holds are the caller's mistake."""
    assert ask(server, "SELECT $a", parameters).status_code in {400, 422}


def test_a_parameter_reaches_no_function_that_is_refused(server: Running) -> None:
    """What a statement may not name it may not name by a parameter."""
    for statement in ("FROM query($a)", "FROM read_text($a)", "SELECT * FROM query_table($a)"):
        answer = ask(server, statement, {"a": "SELECT 1"})
        assert answer.status_code == 400, answer.text
