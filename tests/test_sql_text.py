"""A client's SQL text costs the parser time in proportion to its length, or is refused before the parser sees it."""

import threading
from pathlib import Path

import duckdb
import httpx
import pytest

from storage.errors import BadQuery
from storage.query.sql_text import MAX_BYTES, MAX_NESTING, check_text
from tests.live import PATIENCE_S
from tests.serving import a_server
from tests.storing import a_store

SLOW = {
    "comments that never end": "/*" * 100_000,
    "nested comments": "/*" * 16_000 + "*/" * 16_000,
    "many comments": "/**/" * 16_000 + "SELECT 1",
    "a long operator": "SELECT 1 " + "+-" * 30_000 + " 1",
    "a long sign": "SELECT " + "+" * 60_000 + "1",
    "brackets": "SELECT " + "(" * 200 + "1" + ")" * 200,
    "lists": "SELECT " + "[" * 200 + "]" * 200,
    "structs": "SELECT " + "{a: " * 200 + "1" + "}" * 200,
    "cases": "SELECT " + "CASE WHEN true THEN " * 200 + "1" + " END" * 200,
    "subqueries": "FROM " + "(FROM " * 200 + "spans" + ")" * 200,
    "unions": "SELECT 1" + " UNION ALL SELECT 1" * 3_000,
    "a long text": "SELECT '" + "x" * MAX_BYTES + "'",
    "half a surrogate pair": "SELECT '\ud800" + "(" * 200,
}
FINE = [
    "SELECT 1 /* one */ + /* two */ 2 -- ((((((",
    "-" * 200 + "\nSELECT 1",
    "/" + "*" * 200 + "/ SELECT 1",
    f"SELECT {'(' * MAX_NESTING}1{')' * MAX_NESTING}",
    "SELECT '" + "(" * 1_000 + '\', "(((" FROM (SELECT 1 AS "((("), (SELECT $$[[[[$$)',
    "SELECT CASE WHEN true THEN CASE WHEN false THEN 1 END END",
    "SELECT " + ", ".join(["1"] * 10_000),
    "SELECT 1" + " UNION ALL SELECT 1" * 100,
    "SELECT 1" + " + 1" * 300,
]


@pytest.mark.parametrize("statement", SLOW.values(), ids=SLOW)
def test_a_text_that_costs_more_than_its_length_is_refused(statement: str) -> None:
    """The text is refused before DuckDB sees it, with the limit."""
    with pytest.raises(BadQuery, match=r"\d|surrogate"):
        check_text(statement)


@pytest.mark.parametrize("statement", FINE, ids=range(len(FINE)))
def test_a_text_that_people_write_is_none_of_them(statement: str) -> None:
    """Comments, rules of dashes, brackets in texts and long lists pass, and DuckDB takes them."""
    check_text(statement)
    duckdb.connect().execute(statement)


def test_a_chain_that_is_too_long_for_a_tree_is_an_error(tmp_path: Path) -> None:
    """A chain of operators, which nests in the tree and not in the text, is refused as one that is too deep."""
    with a_store(tmp_path) as store:
        for chain in (" + 1" * 950, " IN (1)" * 950, "::INT" * 5_000, "[1]" * 950):
            with pytest.raises(BadQuery):
                store.queries.sql(f"SELECT 1{chain}", max_rows=1, timeout_s=PATIENCE_S)


def test_the_server_answers_others_beside_a_hostile_text(tmp_path: Path) -> None:
    """While a comment without end is refused, `/health` is answered."""
    with a_server(tmp_path) as server:
        url = f"http://{server.http}"
        answers: list[httpx.Response] = []

        def ask() -> None:
            body = {"sql": SLOW["comments that never end"]}
            answers.append(httpx.post(f"{url}/api/v1/sql", json=body, trust_env=False, timeout=PATIENCE_S))

        thread = threading.Thread(target=ask)
        thread.start()
        assert httpx.get(f"{url}/health", trust_env=False, timeout=PATIENCE_S).status_code == 200
        thread.join()
        assert (answers[0].status_code, "65,536" in answers[0].json()["detail"]) == (400, True)
