"""Exports hold the stored spans, day by day, with and without a server, and can be sent again."""

import datetime as dt
import json
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import httpx
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp.encode import LINES_TYPE, spans_in
from collector.otlp.json_request import to_protobuf
from collector.otlp.values import MAX_DEPTH
from tests import forking
from tests.every_field import Filler
from tests.live import PATIENCE_S, TRACEJURY, environment, until
from tests.plain_otlp import flat
from tests.serving import Answers, a_scripted_server, a_server, an_export, post, run
from tests.storing import START_NS, a_batch, a_store, commit, rows, trace_id
from tests.storing import an_export as roots

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/cli",
    "collector/exporters",
    "collector/otlp",
    "collector/web",
    "storage",
)

DAY_S = 86_400
DAYS = ("--from", "2026-11-20", "--to", "2026-11-24")


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[list[tuple[str, str]]]:
    """Yield a server with traces of two days, as both ways to name it."""
    with a_server(tmp_path / "data") as server:
        for number, at_s in ((2, 1), (1, 0), (3, 2 * DAY_S)):
            export = an_export(trace_id(number), "root", "step", at_s=at_s)
            post(f"http://{server.otlp_http}/v1/traces", export.SerializeToString())
        assert server.store.wait_committed(PATIENCE_S)
        yield [("--server", f"http://{server.http}"), ("--data", str(tmp_path / "data"))]


def test_parquet_is_partitioned_by_day(sources: list[tuple[str, str]], tmp_path: Path) -> None:
    """Each day with spans is a folder whose file holds the rows of the view, and DuckDB reads all of them as one."""
    for number, source in enumerate(sources):
        result = run("export", tmp_path / f"out{number}", *DAYS, *source)
        assert result.output.count("\n") == 2, result.output
        folder = tmp_path / f"out{number}"
        assert sorted(path.name for path in folder.iterdir()) == ["day=2026-11-21", "day=2026-11-23"]
        table = pq.read_table(folder / "day=2026-11-21" / "spans.parquet")
        assert table.column("name").to_pylist() == ["root", "step", "root", "step"]
        assert table.column("attributes").to_pylist()[0] == [("input.value", "asked root")]
        select = f"SELECT day::VARCHAR, count(*) FROM read_parquet('{folder}/*/*.parquet') GROUP BY 1 ORDER BY 1"
        assert duckdb.sql(select).fetchall() == [("2026-11-21", 4), ("2026-11-23", 2)]


def test_otlp_is_written_by_day_and_by_time(sources: list[tuple[str, str]], tmp_path: Path) -> None:
    """Each day with spans is a file of export requests, one a line, with the spans that start on that day, by time."""
    for number, source in enumerate(sources):
        folder = tmp_path / f"out{number}"
        result = run("export", folder, "--format", "otlp-json", *DAYS, *source)
        assert result.output == f"{folder}/day=2026-11-21: 4 spans\n{folder}/day=2026-11-23: 2 spans\n"
        files = sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
        assert list(map(str, files)) == ["day=2026-11-21/traces.jsonl", "day=2026-11-23/traces.jsonl"]
        (line,) = (folder / files[0]).read_text().splitlines()
        (resource_spans,) = json.loads(line)["resourceSpans"]
        (scope_spans,) = resource_spans["scopeSpans"]
        names = [(span["traceId"], span["name"]) for span in scope_spans["spans"]]
        assert names == [(trace_id(which), name) for which in (1, 2) for name in ("root", "step")]


ROWS = """
    SELECT * EXCLUDE (tenant, received_at, batch, seq, write_number)
    FROM span
    ORDER BY trace_id, span_id
"""
"""All that is stored of spans but when and by whom they were sent."""


def everything() -> list[ExportTraceServiceRequest]:
    """Return requests in which every field of OTLP is set, at all times, of values as deep as they are stored."""
    filler, full = Filler(), ExportTraceServiceRequest()
    filler.fill(full)
    odd = roots(4, trace=1)
    (_, _, never), (_, _, ended), (_, _, early), (_, _, deep) = flat(odd)
    never.start_time_unix_nano = never.end_time_unix_nano = 0
    ended.start_time_unix_nano, ended.end_time_unix_nano = 0, START_NS
    early.start_time_unix_nano = 1
    for maps in (False, True):
        value = deep.events.add(name="deep").attributes.add(key="k").value
        for _ in range(MAX_DEPTH):
            value = value.kvlist_value.values.add(key="k").value if maps else value.array_value.values.add()
        value.double_value = 1
    large = roots(300, trace=2)
    for _, _, span in flat(large):
        span.attributes.add(key="text").value.string_value = 'a "quoted" text\n' * 1_000
    return [full, odd, large]


def test_what_was_exported_can_be_sent_again(tmp_path: Path) -> None:
    """A server that is sent an export has the same rows as the first: every field, every type, resources and scopes."""
    requests = everything()
    with a_store(tmp_path / "data") as store:
        commit(store, *map(a_batch, requests))
        stored = rows(store, ROWS)
    count = len(stored)
    assert count == sum(len(flat(request)) for request in requests)
    out = tmp_path / "out"
    for start, end in (("1970-01-01", "1970-01-02"), ("2026-11-20", "2026-11-24")):
        result = run("export", out, "--format", "otlp-json", "--from", start, "--to", end, "--data", tmp_path / "data")
        assert result.exit_code == 0, result.output
    files = sorted(out.rglob("*.jsonl"))
    assert [spans_in(file.read_bytes()) for file in files] == [3, count - 3]
    assert len(files[1].read_bytes().splitlines()) > 1
    with a_server(tmp_path / "other") as other:
        sent = run("send", *files, "--server", f"http://{other.otlp_http}")
        assert sent.exit_code == 0, sent.output
        assert other.store.wait_committed(PATIENCE_S)
        again = rows(other.store, ROWS)
    counted = len(again)  # by itself, as are the rows that differ: a failure would show all that they hold
    assert counted == count
    assert [row[:2] for row, as_stored in zip(again, stored, strict=True) if row != as_stored] == []


def test_spans_without_a_start_are_of_the_first_day(tmp_path: Path) -> None:
    """What never said when it started is exported with 1970-01-01, by a server too."""
    request = roots(1, trace=9)
    flat(request)[0][2].start_time_unix_nano = 0
    with a_server(tmp_path / "odd") as server:
        commit(server.store, a_batch(request))
        for form in ("parquet", "otlp-json"):
            days = ("--from", "1970-01-01", "--to", "1970-01-02", "--format", form)
            result = run("export", tmp_path / "out", *days, "--server", f"http://{server.http}")
            assert result.output == f"{tmp_path / 'out'}/day=1970-01-01: 1 span\n"


def test_a_directory_is_exported_for_all_tenants(tmp_path: Path) -> None:
    """Access to the files exports the spans of every tenant, in either form."""
    with a_store(tmp_path / "data") as store:
        for number, tenant in enumerate(["", "acme", "other"]):
            commit(store, a_batch(roots(1, trace=number), tenant=tenant))
    for form in ("parquet", "otlp-json"):
        result = run("export", tmp_path / form, *DAYS, "--format", form, "--data", tmp_path / "data")
        assert "day=2026-11-21: 3 spans" in result.output
    table = pq.read_table(tmp_path / "parquet" / "day=2026-11-21" / "spans.parquet")
    assert sorted(table.column("tenant").to_pylist()) == ["", "acme", "other"]


def test_without_an_end_all_days_until_now_are_exported(tmp_path: Path) -> None:
    """Where `--to` is left out, the last day is today."""
    now = dt.datetime.now(dt.UTC)
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(roots(2, start_ns=time.time_ns())))
    yesterday = f"{now - dt.timedelta(days=1):%Y-%m-%d}"
    result = run("export", tmp_path / "out", "--from", yesterday, "--data", tmp_path / "data")
    assert (result.exit_code, result.output.count(": 2 spans")) == (0, 1)
    assert "[default: tomorrow]" in run("export", "--help").output


@pytest.mark.parametrize(
    "days, option, message",
    [
        (("--from", "2026-11-21", "--to", "2026-11-21"), "--to", "the day after the last"),
        (("--from", "2026-11-21", "--to", "2026-11-20"), "--to", "the day after the last"),
        (("--from", "2200-01-01"), "--from", "has not come yet"),
        (("--from", "1969-12-31"), "--from", "not between 1970-01-01 and 2261-01-01"),
        (("--from", "2026-11-21", "--to", "9999-12-31"), "--to", "not between 1970-01-01 and 2261-01-01"),
        (("--from", "yesterday"), "--from", "yesterday"),
        (("--to", "2026-11-21"), "--from", "Missing option"),
    ],
)
def test_days_that_make_no_sense_are_refused(days: tuple[str, ...], option: str, message: str, tmp_path: Path) -> None:
    """An invalid day, or an empty range of days, is reported with the name of its option, and nothing is written."""
    result = run("export", tmp_path / "out", *days, "--data", tmp_path)
    assert result.exit_code == 2
    assert option in result.output
    assert message in result.output
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_written_is_told(sources: list[tuple[str, str]], tmp_path: Path) -> None:
    """If a folder cannot be made, the command ends with a message."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "day=2026-11-21").write_text("a file")
    for form in ("parquet", "otlp-json"):
        result = run("export", tmp_path / "out", *DAYS, "--format", form, *sources[0])
        assert result.exit_code == 1
        assert "the export cannot be written" in result.output


def test_an_older_server_is_told_apart(tmp_path: Path) -> None:
    """What answers with something else than lines is not written to a file that claims to hold them."""
    with a_scripted_server() as url:
        Answers.queue = [(200, {"content-type": "application/vnd.apache.arrow.stream"}, b"ARROW")]
        result = run("export", tmp_path / "out", *DAYS, "--format", "otlp-json", "--server", url)
    assert result.exit_code == 1
    assert "cannot export OTLP" in result.output
    assert not (tmp_path / "out").exists()


LINE = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"1"}]}]}]}\n'


@pytest.mark.parametrize("begun", [LINE, LINE + LINE[:20], b""])
def test_an_answer_that_breaks_off_leaves_no_file(begun: bytes, tmp_path: Path) -> None:
    """If the server disconnects in the middle of a day, the command fails, and nothing of that day stays."""
    with a_scripted_server() as url:
        Answers.queue = [(200, {"content-type": LINES_TYPE, "content-length": "1000"}, begun)]
        result = run("export", tmp_path / "out", *DAYS, "--format", "otlp-json", "--server", url)
    assert result.exit_code == 1
    assert "no server answers" in result.output
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@contextmanager
def a_server_that_stalls(answer: bytes) -> Iterator[str]:
    """Yield the URL of a server that begins to answer, and then neither goes on nor goes away."""
    stalled = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)
                stalled.wait(PATIENCE_S)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stalled.set()
            thread.join()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_export_leaves_no_file_that_looks_whole(
    number: signal.Signals, sources: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Whatever ends it in the middle of a day, the partial file has another name, and the next export works."""
    out = tmp_path / "out"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {LINES_TYPE}\r\ncontent-length: 1000\r\n\r\n".encode()
    command = [TRACEJURY, "export", str(out), *DAYS, "--format", "otlp-json", "--server"]
    with a_server_that_stalls(head + LINE) as url:
        process = forking.start([*command, url], env=environment())
        until(lambda: list(out.rglob("*.part")), bool)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) != 0
    left = [path.name for path in out.rglob("*") if path.is_file()]
    assert [name for name in left if not name.endswith(".part")] == []
    run("export", out, *DAYS, "--format", "otlp-json", *sources[0])
    assert sum(spans_in(file.read_bytes()) for file in out.rglob("*.jsonl")) == 6


def test_a_later_export_takes_the_place_of_an_earlier_one(sources: list[tuple[str, str]], tmp_path: Path) -> None:
    """A day exported again is replaced as a whole, and only its owner reads it, unless others read the earlier file."""
    for mode in (0o600, 0o640):
        for form in ("parquet", "otlp-json"):
            assert run("export", tmp_path / "out", *DAYS, "--format", form, *sources[0]).exit_code == 0
        files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
        assert sorted(path.name for path in files) == ["spans.parquet"] * 2 + ["traces.jsonl"] * 2
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {mode}
        for path in files:
            path.chmod(0o640)


def test_a_trace_with_more_spans_than_any_list_shows_is_written_whole(tmp_path: Path) -> None:
    """One trace as OTLP/JSON has all of its spans, over the API, its page, and in a directory without a server."""
    request = roots(10_050)
    sent = [(span.span_id, span.name) for _, _, span in flat(request)]
    with a_server(tmp_path / "data") as server:
        commit(server.store, a_batch(request))
        for path in (f"/api/v1/traces/{trace_id(0)}/otlp", f"/traces/{trace_id(0)}/otlp"):
            answer = httpx.get(f"http://{server.http}{path}", trust_env=False, timeout=PATIENCE_S)
            assert answer.headers["content-type"] == "application/json"
            read = ExportTraceServiceRequest.FromString(to_protobuf(answer.content))
            assert [(span.span_id, span.name) for _, _, span in flat(read)] == sent
    shown = run("traces", "show", trace_id(0), "--otlp", "--data", tmp_path / "data")
    assert shown.output.count('"startTimeUnixNano"') == 10_050
