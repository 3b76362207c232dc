"""SQL over HTTP in its other forms, and the end of a query whose client is gone."""

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collector.api.base import json_encoding
from collector.api.traces.sql_formats import FORMS, TableForm, form_of
from storage.records import QueryColumn, Table
from tests.live import PATIENCE_S, until
from tests.serving import START_NS, a_server, an_export, post
from tests.storing import trace_id

SELECT = "SELECT name, start_time, attributes, parent_span_id FROM spans ORDER BY start_time"
ENDLESS = "SELECT count(*) FROM range(1000000000000) AS a, range(1000000) AS b WHERE a.range * b.range = 17"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Yield a server with one trace of two spans, which answers with three rows at most."""
    with a_server(Path(tmp_path_factory.mktemp("sql")), sql_rows=3) as server:
        post(f"http://{server.otlp_http}/v1/traces", an_export(trace_id(1), "root", "step").SerializeToString())
        assert server.store.wait_committed(PATIENCE_S)
        with httpx.Client(base_url=f"http://{server.http}", trust_env=False, timeout=PATIENCE_S) as client:
            yield client


def ask(api: httpx.Client, form: str, select: str = SELECT) -> httpx.Response:
    """Request a format in both ways to name it; return the response, which must be the same."""
    named = api.post("/api/v1/sql", params={"format": form}, json={"sql": select})
    accepted = api.post("/api/v1/sql", headers={"accept": f"{FORMS[form].media_type};q=0.9, */*"}, json={"sql": select})
    assert named.status_code == httpx.codes.OK, named.text
    assert named.headers["content-type"].partition(";")[0] == FORMS[form].media_type
    assert (named.content, named.headers["content-type"]) == (accepted.content, accepted.headers["content-type"])
    return named


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_columns_come_with_their_types(api: httpx.Client, form: str) -> None:
    """Arrow and Parquet hold nanoseconds, maps and NULLs as DuckDB has them."""
    content = ask(api, form).content
    table = pa.ipc.open_stream(content).read_all() if form == "arrow" else pq.read_table(io.BytesIO(content))
    assert table.column("name").to_pylist() == ["root", "step"]
    assert table.column("start_time").cast(pa.int64()).to_pylist() == [START_NS + 1, START_NS + 2]
    assert table.column("attributes").to_pylist()[0] == [("input.value", "asked root")]
    assert table.column("parent_span_id").to_pylist() == [None, "0000000000000001"]


def test_csv_has_a_header_and_json_where_text_is_not_enough(api: httpx.Client) -> None:
    """Maps are JSON, NULL is empty, and times have their nine digits."""
    assert ask(api, "csv").text.splitlines() == [
        "name,start_time,attributes,parent_span_id",
        'root,2026-11-21T10:00:00.000000001Z,"{""input.value"": ""asked root""}",',
        'step,2026-11-21T10:00:00.000000002Z,"{""input.value"": ""asked step""}",0000000000000001',
    ]


@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_form_says_that_there_was_more(api: httpx.Client, form: str) -> None:
    """Rows beyond the limit are left out, and the answer says so."""
    answer = ask(api, form, "SELECT * FROM range(5)")
    assert (answer.json()["truncated"] if form == "json" else answer.headers["tracejury-truncated"] == "true") is True
    whole = ask(api, form, "SELECT * FROM range(3)")
    assert whole.json()["truncated"] is False if form == "json" else "tracejury-truncated" not in whole.headers


def test_what_is_refused_is_refused_in_every_form(api: httpx.Client) -> None:
    """No form lets a statement write, and an unknown form is named."""
    for form in FORMS:
        answer = api.post("/api/v1/sql", params={"format": form}, json={"sql": "DELETE FROM span"})
        assert answer.status_code == httpx.codes.BAD_REQUEST
    answer = api.post("/api/v1/sql", params={"format": "xml"}, json={"sql": "SELECT 1"})
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert answer.json()["error"] == "format: Input should be 'json', 'csv', 'rawcsv', 'arrow' or 'parquet'"


def test_a_query_ends_when_its_client_leaves(tmp_path: Path) -> None:
    """A query whose client is gone is stopped long before its time is over."""
    with a_server(tmp_path, sql_seconds=600) as server, httpx.Client(trust_env=False, timeout=0.5) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post(f"http://{server.http}/api/v1/sql", json={"sql": ENDLESS})
        start_s = time.monotonic()
        until(lambda: len(server.store._database._cursors), lambda open_cursors: open_cursors == 0)
        assert time.monotonic() - start_s < PATIENCE_S


def test_an_answer_is_written_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON of many rows is as JSON of each row by itself: no single call holds Python's lock for the whole answer."""
    rows = tuple((number, "x" * 100) for number in range(500))
    columns = (QueryColumn(name="a", type="INTEGER"), QueryColumn(name="b", type="VARCHAR"))
    table = Table(columns=columns, rows=rows, truncated=False)
    longest, write = 0, json_encoding._write

    def measured(value: object) -> str:
        nonlocal longest
        text = write(value)
        longest = max(longest, len(text))
        return text

    monkeypatch.setattr(json_encoding, "_write", measured)
    answer = form_of("json", "")
    assert isinstance(answer, TableForm)
    assert json.loads(bytes(answer.write(table).body))["rows"] == [list(row) for row in rows]
    assert longest < 200
