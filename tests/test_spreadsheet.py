"""CSV for spreadsheet programs: texts that look like formulas stay texts, and numbers stay numbers."""

import csv
import io
from collections.abc import Iterator

import httpx
import pytest

from collector.spreadsheet import is_formula, safe_cell
from tests.serving import a_server, run

FORMULAS = ("=1+1", "+1+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "-x", "=", "＝1+1")  # noqa: RUF001 - meant
PLAIN = ("", "a", "a=1", " =1", "'=1", "-1", "+2.5", "-1e-9", "1", "{}", "[-1]")
COLUMNS = ", ".join(f"{text!r} AS c{number}".replace('"', "'") for number, text in enumerate(("=1+1", "-5", "a")))
SELECT = f"SELECT {COLUMNS}, -5 AS n, -0.5::DOUBLE AS d, ['=1'] AS l, NULL AS nothing"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a server."""
    with a_server(tmp_path_factory.mktemp("data")) as running:
        yield f"http://{running.http}"


def cells(text: str) -> list[str]:
    """Return the cells of the first row below the header."""
    return list(csv.reader(io.StringIO(text)))[1]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_would_be_computed_gets_an_apostrophe(text: str) -> None:
    """Whatever begins as a formula does is a text for a spreadsheet."""
    assert is_formula(text)
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", PLAIN)
def test_other_texts_and_numbers_stay(text: str) -> None:
    """A text that no spreadsheet computes stays as it is, and so does a number with a sign."""
    assert safe_cell(text) == text


def test_sql_as_csv_is_safe_for_spreadsheets_unless_it_is_raw(server: str) -> None:
    """The API and the command put an apostrophe before such a text, and none if a program asks for it raw."""
    safe = ["'=1+1", "-5", "a", "-5", "-0.5", '["=1"]', ""]
    raw = ["=1+1", *safe[1:]]
    url = f"{server}/api/v1/sql"
    with httpx.Client(trust_env=False) as client:
        for params, expected in (({"format": "csv"}, safe), ({"format": "rawcsv"}, raw)):
            assert cells(client.post(url, params=params, json={"sql": SELECT}).text) == expected
        accepted = client.post(url, headers={"accept": "text/csv"}, json={"sql": SELECT})
        assert cells(accepted.text) == safe
    for option, expected in (("--csv", safe), ("--raw-csv", raw)):
        assert cells(run("sql", option, "--server", server, SELECT).output) == expected


def test_a_name_of_a_column_is_safe_too(server: str) -> None:
    """The header has an apostrophe before a name that would be computed."""
    assert run("sql", "--csv", "--server", server, 'SELECT 1 AS "=1+1"').output.startswith("'=1+1\n")


def test_a_get_makes_no_backup(server: str) -> None:
    """A backup is made by POST; a link, an image or a preview that is only looked at makes none."""
    with httpx.Client(trust_env=False) as client:
        looked = client.get(f"{server}/api/v1/backup")
        assert (looked.status_code, looked.headers["allow"]) == (405, "POST")
        made = client.post(f"{server}/api/v1/backup")
        assert made.status_code == 200
        assert made.content[8:12] == b"DUCK"
