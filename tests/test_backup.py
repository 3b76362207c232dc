"""A backup is the database of one moment, whatever goes on meanwhile."""

import random
import threading
from pathlib import Path

import pytest

from storage.engine.database import FILE_NAME
from storage.store import Store
from tests.live import a_live_server, until
from tests.serving import run
from tests.storing import a_batch, a_store, an_export, commit, rows
from tests.traffic import a_batch as some_spans
from tests.traffic import over_http

pytestmark = pytest.mark.costly("storage")

TABLES = ("span", "trace_part", "trace_reading", "tool_call")
CONTENT = "SELECT count(*), sum(hash(t)::HUGEINT) FROM {table} AS t WHERE {bound}"


def content(store: Store, batch: object) -> dict[str, object]:
    """Summarize the commits up to a batch in each table: counts, and sums of hashes of whole rows."""
    bound = {"span": f"batch <= {batch}", "trace_part": f"batch <= {batch}"}
    statements = {table: CONTENT.format(table=table, bound=bound.get(table, "true")) for table in TABLES[:2]}
    with store._database.cursor() as cursor:  # hashes of whole rows, in statements of clients, have a limit of memory
        return {table: cursor.execute(statement).fetchall() for table, statement in statements.items()}


@pytest.mark.timeout(600)
def test_a_backup_restored_elsewhere_equals_the_original(tmp_path: Path, seed: int) -> None:
    """Row by row, a backup that was made under ingest is what the original held at one moment, and nothing was lost."""
    source = random.Random(seed)
    stopped = threading.Event()
    with a_live_server(tmp_path / "data") as server, over_http(server) as send:
        for _ in range(20):
            assert send(some_spans(source, 500).body).kind == "taken"

        def ingest() -> None:
            while not stopped.wait(0.01):
                assert send(some_spans(source, 500).body).kind == "taken"

        thread = threading.Thread(target=ingest)
        thread.start()
        for number in range(3):
            result = run("backup", tmp_path / f"backup{number}", "--server", server.http)
            assert result.exit_code == 0, result.output
        stopped.set()
        thread.join()
        until(lambda: server.sql("SELECT count(*) FROM span")[0][0], lambda count: count == server.tally().committed)
        assert server.stop() == 0
    assert "backup-" not in " ".join(path.name for path in (tmp_path / "data").iterdir())
    batches = []
    with a_store(tmp_path / "data") as original:
        for number in range(3):
            result = run("restore", tmp_path / f"backup{number}", "--data", tmp_path / f"again{number}")
            assert result.exit_code == 0, result.output
            with a_store(tmp_path / f"again{number}") as restored:
                ((batch, stored),) = rows(restored, "SELECT batch, stored FROM ingest_state")
                assert content(restored, batch) == content(original, batch)
                assert rows(restored, "SELECT count(*) FROM span") == [(stored,)]
                batches.append(batch)
                commit(restored, a_batch(an_export(3)))
    assert len(set(batches)) > 1


def test_checkpoints_in_the_middle_do_no_harm(tmp_path: Path) -> None:
    """A copy during which the file was checkpointed is made again, so that the result is consistent."""
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(an_export(20_000)))

        def checkpoint() -> None:
            for number in range(1, 15):
                commit(store, a_batch(an_export(1000, trace=number, first=20_000 * number)))
                store._database.checkpoints.make()

        thread = threading.Thread(target=checkpoint)
        thread.start()
        with (tmp_path / FILE_NAME).open("w+b") as file:
            store.backup(file)
        thread.join()
    with a_store(tmp_path) as copy:
        ((spans,),) = rows(copy, "SELECT count(DISTINCT span_id) FROM spans")
        assert rows(copy, "SELECT stored FROM ingest_state") == [(spans,)]


def test_a_directory_is_backed_up_without_a_server(tmp_path: Path) -> None:
    """`tracejury backup --data` opens the files, and neither command overwrites anything."""
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(an_export(3)))
    assert run("backup", tmp_path / "backup", "--data", tmp_path / "data").exit_code == 0
    again = run("backup", tmp_path / "backup", "--data", tmp_path / "data")
    assert "exists already" in again.output
    assert run("restore", tmp_path / "backup", "--data", tmp_path / "new").output.endswith("3 spans were ever stored\n")
    assert "holds a database already" in run("restore", tmp_path / "backup", "--data", tmp_path / "new").output
    assert "holds no backup" in run("restore", tmp_path, "--data", tmp_path / "other").output
    (tmp_path / "backup" / FILE_NAME).write_text("nothing")
    assert run("restore", tmp_path / "backup", "--data", tmp_path / "third").exit_code == 1
