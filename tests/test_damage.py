"""Damage of stored data: every flipped bit ends in right answers or in a report, never in silence."""

import collections
import datetime as dt
import re
import shlex
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from collector.api.operations.backup import open_backup
from collector.escaping import one_line
from storage.engine.database import FILE_NAME
from storage.engine.log_end import lost_commits
from storage.errors import Damaged, Overloaded, Unusable
from storage.ingest.batch import SpanBatch
from storage.ingest.spool import Position, Spool
from storage.store import Store
from storage.upkeep.checking import check_database
from storage.upkeep.deletions import DONE, DeletionCriteria
from tests.access import a_closed_server
from tests.damaging import blocks, flip, flip_in_block
from tests.live import until
from tests.serving import run
from tests.storing import START_NS, a_batch, a_record, a_store, an_export, commit, files_no_larger_than, trace_id

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/cli",
    "collector/listeners",
    "collector/exporters",
    "collector/ingest.py",
    "collector/live",
    "collector/otlp",
    "storage",
)

START = dt.datetime.fromtimestamp(START_NS // 10**9, dt.UTC)
DAY, NEXT_DAY = f"{START:%Y-%m-%d}", f"{START + dt.timedelta(days=2):%Y-%m-%d}"
WHOLE = "SELECT count(*), bit_xor(hash(s)) FROM span AS s"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory whose log was moved into the file, with several blocks of spans."""
    data = tmp_path_factory.mktemp("stopped")
    with a_store(data) as store:
        for number in range(3):
            commit(store, a_batch(an_export(8192, trace=number, first=8192 * number)))
    return data


@pytest.fixture
def data(stopped: Path, tmp_path: Path) -> Path:
    """Return a copy of it, to be damaged."""
    return Path(shutil.copytree(stopped, tmp_path / "data"))


@pytest.fixture(scope="module")
def checked(stopped: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Result]]:
    """Return a copy of it, and the report of `tracejury check` while each block is damaged."""
    data = Path(shutil.copytree(stopped, tmp_path_factory.mktemp("checked") / "data"))
    results = {}
    for number in blocks(data / FILE_NAME):
        flip_in_block(data / FILE_NAME, number)
        results[number] = run("check", data)
        flip_in_block(data / FILE_NAME, number)
    return data, results


@pytest.fixture(scope="module")
def used(checked: tuple[Path, dict[int, Result]]) -> dict[int, str]:
    """Return the blocks that are in use, and what a check reports when each is damaged."""
    damage = re.compile(r"^Error: (.*); these help:$", re.MULTILINE)
    reports = {number: damage.search(result.output) for number, result in checked[1].items()}
    return {number: report[1] for number, report in reports.items() if report}


@pytest.fixture(scope="module")
def of_spans(stopped: Path, used: dict[int, str], tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return a block without which the server starts, and some spans cannot be read."""
    for number in (number for number, report in used.items() if report.startswith("table span: ")):
        copy = Path(shutil.copytree(stopped, tmp_path_factory.mktemp("one") / "data"))
        flip_in_block(copy / FILE_NAME, number)
        with suppress(Unusable), a_store(copy):
            return number
    pytest.fail("a server starts without none of them")


@pytest.mark.costly(
    "collector/access", "collector/api", "collector/cli", "collector/exporters", "collector/otlp", "storage"
)
def test_a_block_that_no_check_reports_is_free(stopped: Path, used: dict[int, str], tmp_path: Path) -> None:
    """A database with all blocks damaged that the check passes over answers as before."""
    free = [number for number in blocks(stopped / FILE_NAME) if number not in used]
    shutil.copytree(stopped, tmp_path / "data")
    for number in free:
        flip_in_block(tmp_path / "data" / FILE_NAME, number)
    shutil.copytree(stopped, tmp_path / "sound")
    with a_store(tmp_path / "sound") as one, a_store(tmp_path / "data") as other:
        whole = []
        for store in (one, other):
            with store._database.cursor() as cursor:
                whole.append(cursor.execute(WHOLE).fetchall())
    assert whole[0] == whole[1]
    assert len(used) > len(free)


def test_each_byte_of_the_headers_is_checked(stopped: Path, tmp_path: Path) -> None:
    """Whatever bit of the file's three headers is wrong, the check reports it, or reads the right values."""
    sound = check_database(stopped / FILE_NAME)
    copy = tmp_path / FILE_NAME
    for offset in range(0, 3 * 4096, 397):
        shutil.copyfile(stopped / FILE_NAME, copy)
        flip(copy, offset)
        report = check_database(copy)
        assert report.damage or report.tables == sound.tables, f"byte {offset}"


def test_damage_met_by_a_query_is_reported_everywhere(data: Path, of_spans: int) -> None:
    """The client gets a 500 that names damage, and so do readiness, status, metrics and a backup; spans are taken."""
    flip_in_block(data / FILE_NAME, of_spans)
    with a_closed_server(data) as server:
        key = server.keys["admin"]
        # The sums of traces, which a start continues, may have read the block before.
        answer = server.ask("POST", "/api/v1/sql", key=key, json={"sql": WHOLE})
        assert (answer.status_code, "data of this server is damaged" in answer.json()["detail"]) == (500, True)
        ready = until(lambda: server.ask("GET", "/ready"), lambda answer: answer.json()["status"] == "damaged")
        assert ready.status_code == 200
        (condition,) = server.ask("GET", "/api/v1/status", key=key).json()["server"]["conditions"]
        assert condition["name"] == "data_damaged"
        assert "`tracejury check`" in condition["message"]
        metrics = server.ask("GET", "/metrics", key=key).text
        assert 'tracejury_conditions{name="data_damaged"} 1.0' in metrics
        assert float(metrics.partition("\ntracejury_damage_errors_total ")[2].split()[0]) >= 1
        backup = server.ask("POST", "/api/v1/backup", key=server.keys["operator"])
        assert (backup.status_code, "damaged" in backup.json()["detail"]) == (500, True)
        commit(server.running.store, a_batch(an_export(1, trace=9, first=10**6)))


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_damage_in_the_middle_of_an_export_cuts_it_off(
    data: Path, of_spans: int, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The client sees that the answer is not complete, the condition holds, and one line of the log says why."""
    flip_in_block(data / FILE_NAME, of_spans)
    with a_closed_server(data) as server:
        key, (host, port) = server.keys["admin"], server.running.http.rsplit(":", 1)
        path = "/api/v1/export/spans?from=1970-01-01T00:00:00Z&to=2261-01-01T00:00:00Z&format=arrow"
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(f"GET {path} HTTP/{version}\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n\r\n".encode())
            with pytest.raises(ConnectionResetError):
                collections.deque(iter(lambda: client.recv(1 << 16), b""), maxlen=0)
        (condition,) = until(lambda: server.ask("GET", "/api/v1/status", key=key).json()["server"]["conditions"], bool)
        assert condition["name"] == "data_damaged"
    cut = [each for each in caplog.records if "cut off" in each.message]
    assert [("damaged" in each.message, each.exc_info) for each in cut] == [(True, None)]
    assert [
        each.message for each in caplog.records if each.name.startswith("uvicorn") and each.levelname == "ERROR"
    ] == []


def test_a_statement_cannot_pretend_damage(data: Path) -> None:
    """The words of an error that a client makes up are an error of the client."""
    with a_closed_server(data) as server:
        for text in ("Corrupt database file", "IO Error: Corrupt database file"):
            body = {"sql": f"SELECT error('{text}')"}
            assert server.ask("POST", "/api/v1/sql", key=server.keys["viewer"], json=body).status_code == 400
        assert not server.running.store.damage.places


def test_a_backup_of_damaged_data_fails(data: Path, of_spans: int, tmp_path: Path) -> None:
    """`tracejury backup` exits with 1 and leaves nothing behind, not even an empty directory."""
    flip_in_block(data / FILE_NAME, of_spans)
    result = run("backup", tmp_path / "backup", "--data", data)
    assert result.exit_code == 1
    assert "run `tracejury check" in result.output
    assert "damaged" in result.output
    assert not (tmp_path / "backup").exists()


@pytest.mark.costly(
    "collector/access", "collector/api", "collector/cli", "collector/exporters", "collector/otlp", "storage"
)
def test_a_damaged_backup_is_not_restored(stopped: Path, used: dict[int, str], tmp_path: Path) -> None:
    """`tracejury restore` reads all of the copy, and leaves no database if it finds damage."""
    (tmp_path / "backup").mkdir()
    shutil.copyfile(stopped / FILE_NAME, tmp_path / "backup" / FILE_NAME)  # as a backup is
    for number in used:
        flip_in_block(tmp_path / "backup" / FILE_NAME, number)
        result = run("restore", tmp_path / "backup", "--data", tmp_path / "again")
        assert (result.exit_code, (tmp_path / "again").exists()) == (1, False), f"block {number}: {result.output}"
        flip_in_block(tmp_path / "backup" / FILE_NAME, number)
    assert run("restore", tmp_path / "backup", "--data", tmp_path / "again").exit_code == 0


def test_the_server_refuses_a_copy_that_cannot_be_read(
    data: Path, of_spans: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Even if no query met the damage before, a backup over the API fails, is noted, and is not logged as done."""
    flip_in_block(data / FILE_NAME, of_spans)
    with a_store(data) as store:
        with pytest.raises(Damaged, match="span"), caplog.at_level("INFO"):
            open_backup(store, data)
        assert "backup" in store.damage.places
    assert "a backup failed" in caplog.text
    assert "a backup is done" not in caplog.text


def test_a_copy_under_way_has_no_name(data: Path) -> None:
    """While a backup waits to be written there is no file of it in the directory, so a kill leaves none."""
    blocking, go_on = threading.Event(), threading.Event()
    with a_store(data) as store:
        before = names(data)

        def block() -> None:
            blocking.set()
            go_on.wait()

        blocker = threading.Thread(target=store._writer.between, args=(block,))
        blocker.start()
        blocking.wait()
        copies = []
        copying = threading.Thread(target=lambda: copies.append(open_backup(store, data)))
        copying.start()
        descriptors = Path("/proc/self/fd")
        until(lambda: [link for link in descriptors.iterdir() if is_copy(link, data)], bool)
        assert names(data) == before
        go_on.set()
        copying.join()
        blocker.join()
        assert names(data) == before
        with copies[0]:
            assert copies[0].read(12)[8:] == b"DUCK"


def names(data: Path) -> set[str]:
    """Return the files of a directory without DuckDB's log, which comes and goes."""
    return {path.name for path in data.iterdir()} - {f"{FILE_NAME}.wal"}


def is_copy(descriptor: Path, data: Path) -> bool:
    """Return whether an open file is a copy in progress in a directory."""
    try:
        target = descriptor.readlink()
    except FileNotFoundError:
        return False
    return target.parent == data and (target.name.endswith("(deleted)") or target.name.startswith("backup-"))


def test_a_start_removes_what_a_killed_process_left(data: Path) -> None:
    """Copies, partial copies and scratch files of a killed process are removed once the next one is open."""
    left = ["backup-x1", f"{FILE_NAME}.part", "tmp/duckdb_temp_storage_S32K-0.tmp", "quack/answer.parquet"]
    for name in left:
        (data / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(data / FILE_NAME, data / name)
    with a_store(data):
        assert [name for name in left if (data / name).exists()] == []


def test_a_deletion_waits_for_copies_in_the_directory(tmp_path: Path) -> None:
    """While another database in the directory may hold the text, a deletion is not done, and says why."""
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(an_export(5)))
        (tmp_path / "data" / "old").mkdir()
        copy = tmp_path / "data" / "old" / "copy.duckdb"
        with copy.open("w+b") as file:
            store.backup(file)
        store.deletions.request(
            DeletionCriteria(tenant="", trace_id=trace_id(0)), now_us=START_NS // 1000, created_by=None
        )

        def state() -> str:
            try:
                while store.erasure.work():
                    pass
            except Overloaded as error:
                return str(error)
            (deletion,) = store.deletions.page(tenant=None, skip=0, most=1)
            return deletion.state

        assert f"{copy}: a copy of the database" in state()
        assert store.erasure.blocked is not None
        copy.rename(tmp_path / "elsewhere.duckdb")
        assert state() == DONE
        assert store.erasure.blocked is None


def test_check_reads_everything_and_changes_nothing(
    data: Path, checked: tuple[Path, dict[int, Result]], used: dict[int, str], tmp_path: Path
) -> None:
    """`tracejury check` finds no damage in a sound directory, and exits with 1 for each damaged block or record."""
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    result = run("check", data)
    assert (result.exit_code, "no damage" in result.output, "\nspan: " in result.output) == (0, True, True)
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
    for number, result in checked[1].items():
        was_used = number in used
        assert (result.exit_code, "tracejury restore" in result.output) == (was_used, was_used), f"block {number}"
        tables = re.findall(r"^([a-z_]+): .* rows?$", result.output, re.MULTILINE)
        damaged = re.findall(r"table ([a-z_]+): ", result.output)
        assert not {*tables} & {*damaged}, f"block {number}"
    assert run("check", tmp_path).exit_code == 1


@pytest.mark.parametrize(
    "statement", ["DROP TABLE tracejury_schema", "UPDATE tracejury_schema SET version = 9999 WHERE version = 49"]
)
def test_check_reports_what_a_start_refuses(data: Path, statement: str) -> None:
    """A sound database of something else, or of another version, ends both with exit status 1 and the same words."""
    with duckdb.connect(str(data / FILE_NAME)) as connection:
        connection.execute(statement)
    with pytest.raises(Unusable) as refused:
        Store.open(data)
    result = run("check", data)
    assert (result.exit_code, one_line(str(refused.value)) in result.output) == (1, True)
    assert "no damage" not in result.output


def test_check_finds_each_damaged_record_of_the_spool(tmp_path: Path) -> None:
    """A byte that is changed anywhere in a record of the spool is reported with its place, and the other is whole."""
    spool = Spool(tmp_path / "spool", after=Position())
    groups = spool.append([a_batch(an_export(2, trace=number)) for number in (1, 2)])
    spool.close()
    (segment,) = (tmp_path / "spool").glob("*.spool")
    whole = segment.read_bytes()
    assert Spool.check(tmp_path / "spool", Position()).records == len(groups)
    for offset in range(0, len(whole), 97):
        segment.write_bytes(whole[:offset] + bytes([whole[offset] ^ 8]) + whole[offset + 1 :])
        for committed in range(3):
            report = Spool.check(tmp_path / "spool", Position(committed))
            expected = (1, 1, int(committed < 1 + (offset >= len(whole) // 2)))
            assert (report.records, len(report.damaged), report.loss.records) == expected, f"byte {offset}"
            assert report.loss.rows + 2 * report.loss.uncounted == 2 * expected[2], f"byte {offset}"


def test_a_directory_in_use_is_not_checked(data: Path) -> None:
    """`tracejury check` says that the server has to stop first."""
    with a_closed_server(data):
        result = run("check", data)
    assert (result.exit_code, "stop its server first" in result.output) == (1, True)


SERVE = ("--http", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")


def commands_in(output: str, **names: Path | str) -> list[list[str]]:
    """Return the commands of a list of advice, each split into words, with its uppercase placeholders filled in."""
    commands = [re.sub(r"[A-Z][A-Z-]+", lambda word: str(names[word[0]]), text) for text in ADVICE.findall(output)]
    return [shlex.split(command) for command in commands]


ADVICE = re.compile(r"^- `([^`]+)`", re.MULTILINE)


def exported(directory: Path) -> int:
    """Count the spans in the files of an export."""
    return sum(pq.read_metadata(path).num_rows for path in directory.rglob("*.parquet"))


def test_each_command_that_a_refused_start_names_works(data: Path, stopped: Path, tmp_path: Path) -> None:
    """A database whose headers are damaged is not opened and stays as it is; a restored backup has all spans."""
    assert run("backup", tmp_path / "backup", "--data", shutil.copytree(stopped, tmp_path / "copy")).exit_code == 0
    for header in (4096, 8192):
        flip(data / FILE_NAME, header + 20)
    before = (data / FILE_NAME).read_bytes()
    result = run("serve", "--data", data, *SERVE)
    assert result.exit_code == 1
    assert (data / FILE_NAME).read_bytes() == before
    check, restore = commands_in(result.output, BACKUP=tmp_path / "backup", NEW=tmp_path / "new")
    assert run(*check[1:]).exit_code == 1
    assert run(*restore[1:]).exit_code == 0
    with a_store(tmp_path / "new") as store:
        assert store.totals.stored == 3 * 8192


def test_a_start_succeeds_once_a_damaged_log_is_taken_away(killed: Path, tmp_path: Path) -> None:
    """The command that moves the log away is named for a damaged log, and the spans come back from the spool."""
    data = Path(shutil.copytree(killed, tmp_path / "data dir"))
    log = data / f"{FILE_NAME}.wal"
    flip(log, list(entries(log.read_bytes()))[-3] + 17)
    result = run("serve", "--data", data, *SERVE)
    assert (result.exit_code, "since the last checkpoint are lost" in result.output) == (1, True), result.output
    *_, move = ADVICE.findall(result.output)
    assert move.startswith("mkdir "), result.output
    assert move in run("check", data).output
    subprocess.run(move, shell=True, check=True)  # noqa: S602 - as a person runs it
    assert run("check", data).exit_code == 0
    with a_store(data) as store:
        assert store.totals.stored == 300


@pytest.mark.costly(
    "collector/access", "collector/api", "collector/cli", "collector/exporters", "collector/otlp", "storage"
)
def test_what_can_be_read_of_a_damaged_database_is_exported(
    checked: tuple[Path, dict[int, Result]], used: dict[int, str], tmp_path: Path
) -> None:
    """The export that `check` names writes the spans of each block that is whole, and says how many it left out."""
    (data, results), counts = checked, {}
    for number, report in used.items():
        if not report.startswith("table "):
            continue
        flip_in_block(data / FILE_NAME, number)
        *_, export = commands_in(
            results[number].output, BACKUP="backup", NEW="new", OUT=tmp_path / str(number), **{"YYYY-MM-DD": DAY}
        )
        result = run(*export[1:], "--to", NEXT_DAY)
        counts[number] = exported(tmp_path / str(number))
        left_out = re.search(r"damaged: ([0-9,]+) spans?(, and others)?", result.output)
        lost = int(left_out[1].replace(",", "")) if left_out else 0
        assert result.exit_code == int(left_out is not None), (report, result.output)
        if left_out is None or not left_out[2]:
            assert counts[number] + lost == 3 * 8192, (report, result.output)
        assert counts[number] >= 8192, (report, result.output)
        flip_in_block(data / FILE_NAME, number)
    assert len(counts) > 1


@pytest.mark.parametrize("form", ["parquet", "otlp-json"])
def test_a_server_exports_around_damage_if_it_is_asked_to(
    data: Path, of_spans: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """`tracejury export --server` writes the undamaged spans, and counts the omitted ones; a plain request fails."""
    flip_in_block(data / FILE_NAME, of_spans)
    with a_closed_server(data) as server:
        monkeypatch.setenv("TRACEJURY_API_KEY", server.keys["admin"])
        address = ("--server", f"http://{server.running.http}")
        days = ("--from", DAY, "--to", NEXT_DAY)
        result = run("export", tmp_path / "out", *days, *address, "--format", form)
        path = f"/api/v1/export/spans?from={DAY}T00:00:00Z&to={NEXT_DAY}T00:00:00Z"
        with suppress(httpx.TransportError):  # damage that is met after the first piece ends the answer
            assert server.ask("GET", path, key=server.keys["admin"]).status_code == 500
    left_out = re.search(r"damaged: ([0-9,]+) spans?(, and others)?.* are left out", result.output)
    assert left_out is not None, result.output
    assert result.exit_code == 1
    lines = "".join(file.read_text() for file in (tmp_path / "out").rglob("*.jsonl"))
    written = exported(tmp_path / "out") + lines.count('"spanId"')
    assert 8192 <= written < 3 * 8192
    assert left_out[2] or written + int(left_out[1].replace(",", "")) == 3 * 8192
    assert "leftOut" not in lines


def test_advice_for_a_backup_is_about_backups(stopped: Path, used: dict[int, str], tmp_path: Path) -> None:
    """`tracejury check` of a damaged backup says to make or to restore another one, and speaks of no log or server."""
    (tmp_path / "backup").mkdir()
    shutil.copyfile(stopped / FILE_NAME, tmp_path / "backup" / FILE_NAME)
    flip_in_block(tmp_path / "backup" / FILE_NAME, min(used))
    result = run("check", tmp_path / "backup")
    assert result.exit_code == 1
    assert ADVICE.findall(result.output)[:2] == ["tracejury backup OTHER", "tracejury restore BACKUP --data NEW"]
    assert "WAL" not in result.output


def spooled(data: Path, *sizes: int) -> list[int]:
    """Make a data directory with a spool of batches that are not committed; return where their records end."""
    with a_store(data):
        pass
    spool, ends = Spool(data / "spool", after=Position()), []
    for number, size in enumerate(sizes):
        spool.append([a_batch(an_export(size, trace=number, first=1000 * number))])
        ends.append(spool.nbytes)
    spool.close()
    return ends


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("record", [0, 1, 2])
def test_a_damaged_record_of_the_spool_is_counted_as_lost_once(tmp_path: Path, record: int, *, is_whole: bool) -> None:
    """A start that meets a damaged record, or one that it cannot read, commits the others and reports the loss once."""
    data = tmp_path / "data"
    ends = spooled(data, 2, 2, 2)
    (segment,) = (data / "spool").glob("*.spool")
    if is_whole:
        batch, written = a_batch(an_export(2)), segment.read_bytes()
        strange = batch.spans.set_column(0, "tenant", pa.array([{"a": 1}] * 2))
        whole = a_record(record + 1, SpanBatch(spans=strange, resources=batch.resources, scopes=batch.scopes))
        segment.write_bytes(written[: [0, *ends][record]] + whole + written[ends[record] :])
    else:
        flip(segment, ends[record] - 100)
    result = run("check", data)
    assert (result.exit_code, "2 spans and log records in damaged records" in result.output) == (1, True)
    with a_store(data) as store:
        assert store.totals.stored == 4
        (message,) = store.damage.places.values()
        assert message.startswith("2 spans and log records in damaged records (records: 1) were acknowledged and are ")
        assert (store.damage.count, store.damage.lost_rows) == (1, 2)
    with a_store(data) as store:
        assert (store.damage.places, store.totals.stored) == ({}, 4)
    assert len(list((data / "spool").glob("*.unreadable"))) == is_whole
    assert run("check", data).exit_code == 0


def test_a_full_disk_does_not_prevent_a_start_on_a_damaged_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing can be committed, the loss is reported and the file stays; a start with room removes it."""
    monkeypatch.setattr("storage.store._RECOVERY_S", 0.1)
    data = tmp_path / "data"
    ends = spooled(data, 200, 200)
    (segment,) = (data / "spool").glob("*.spool")
    flip(segment, ends[0] - 100)
    with files_no_larger_than(3000):
        store = Store.open(data)
        assert (store.damage.lost_rows, store.totals.stored, segment.exists()) == (200, 0, True)
        store.close(0.1)
    with a_store(data) as store:
        assert (store.damage.lost_rows, store.totals.stored, segment.exists()) == (200, 200, False)


@pytest.mark.parametrize("offset", [1, 6, 12, 20, 300])
def test_a_damaged_record_that_is_committed_is_no_loss(tmp_path: Path, offset: int) -> None:
    """Wherever in a record a byte is wrong, neither a start nor `check` reports a loss if its spans are committed."""
    data = tmp_path / "data"
    with a_store(data) as store:
        commit(store, a_batch(an_export(7)))
    (segment,) = (data / "spool").glob("*.spool")
    flip(segment, offset)
    result = run("check", data)
    assert (result.exit_code, "none is lost" in result.output) == (1, True), result.output
    with a_store(data) as store:
        assert (store.damage.places, store.damage.lost_rows, store.totals.stored) == ({}, 0, 7)
    assert run("check", data).exit_code == 0


def test_a_record_that_a_kill_tore_is_no_damage(tmp_path: Path) -> None:
    """The end of a segment without the rest of its record was never answered."""
    data = tmp_path / "data"
    with a_store(data):
        pass
    spool = Spool(data / "spool", after=Position())
    spool.append([a_batch(an_export(2, trace=number)) for number in (1, 2)])
    spool.close()
    (segment,) = (data / "spool").glob("*.spool")
    segment.write_bytes(segment.read_bytes()[:-50])
    with a_store(data) as store:
        assert store.totals.stored == 2
        assert not store.damage.places


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory as a kill leaves it: the database has a log."""
    data = tmp_path_factory.mktemp("killed")
    with a_store(data / "made") as store:
        for number in range(6):
            commit(store, a_batch(an_export(50, trace=number, first=50 * number)))
        shutil.copytree(data / "made", data / "data")
    return data / "data"


def entries(log: bytes) -> Iterator[int]:
    """Yield the offsets of the entries in DuckDB's log, after its header."""
    offset = log.index(b"\xff\xff") + 2
    while offset < len(log):
        yield offset
        offset += 16 + struct.unpack_from("<Q", log, offset)[0]
    assert offset == len(log)


def spans_in(database: Path) -> int | None:
    """Count the spans that DuckDB reads of a database and its log; None if it reports an error."""
    with duckdb.connect() as connection:
        try:
            connection.execute(f"ATTACH '{database}' AS t (READ_ONLY)")
            ((count,),) = connection.execute("SELECT count(*) FROM t.span").fetchall()
        except duckdb.Error:
            return None
    return int(count)


def test_commits_that_duckdb_drops_in_silence_are_reported(killed: Path, tmp_path: Path) -> None:
    """Whatever bit of a log's lengths is wrong, DuckDB reports it, or all rows are read, or the loss is reported."""
    copy = Path(shutil.copytree(killed, tmp_path / "data")) / FILE_NAME
    log = copy.with_name(f"{FILE_NAME}.wal")
    whole = log.read_bytes()
    assert (spans_in(copy), lost_commits(copy)) == (300, None)
    starts = list(entries(whole))
    dropped = []
    for offset in [*range(0, starts[0], 3), *(start + number for start in starts[-9::2] for number in (0, 2, 7))]:
        flip(log, offset, 0x40)
        if (count := spans_in(copy)) not in {None, 300}:
            dropped.append(count)
            assert lost_commits(copy) is not None, f"byte {offset}"
        flip(log, offset, 0x40)
    assert dropped


def test_a_log_that_a_kill_cut_is_no_damage(killed: Path, tmp_path: Path) -> None:
    """A log without its end, wherever it was cut, is not reported, even if a client's text ends a commit."""
    copy = Path(shutil.copytree(killed, tmp_path / "data")) / FILE_NAME
    log = copy.with_name(f"{FILE_NAME}.wal")
    whole = log.read_bytes()
    for size in range(0, len(whole), 1009):
        log.write_bytes(whole[:size])
        assert lost_commits(copy) is None, f"{size} bytes"
    log.write_bytes(whole[:-300] + whole[-21:] + bytes(100))
    assert lost_commits(copy) is None


def test_check_and_a_start_report_lost_commits(killed: Path, tmp_path: Path) -> None:
    """`tracejury check` exits with 1 and changes nothing; the start that drops the commits raises the condition."""
    data = Path(shutil.copytree(killed, tmp_path / "data"))
    log = data / f"{FILE_NAME}.wal"
    before = log.read_bytes()
    flip(log, list(entries(before))[-5] + 7)
    damaged = log.read_bytes()
    result = run("check", data)
    assert (result.exit_code, "are lost" in result.output, log.read_bytes()) == (1, True, damaged), result.output
    assert "no damage" not in result.output
    with a_closed_server(data) as server:
        until(lambda: server.ask("GET", "/ready").json()["status"], lambda status: status == "damaged")
        (message,) = server.running.store.damage.places.values()
    assert "are lost; spans among them come back" in message
    with a_store(data) as store:
        assert not store.damage.places
