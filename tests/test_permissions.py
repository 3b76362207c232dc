"""File modes of data directories and backups: only the owner reads them, whatever the umask is."""

import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.engine.database import FILE_NAME, DatabaseOptions
from storage.store import Store, StoreOptions
from tests.live import a_live_server
from tests.serving import run
from tests.storing import a_batch, a_store, an_export, commit, rows
from tests.traffic import a_batch as some_spans
from tests.traffic import over_http

pytestmark = pytest.mark.costly("collector/children", "collector/cli", "collector/encryption_key.py", "storage")


@pytest.fixture(autouse=True)
def loose() -> Iterator[None]:
    """Yield a umask that hides nothing, as in a container without a profile."""
    before = os.umask(0)
    yield
    os.umask(before)


def readable_by_others(*directories: Path) -> dict[str, str]:
    """Return the modes of files and folders that others may read, write or enter, by path."""
    paths = [path for directory in directories for path in (directory, *directory.rglob("*"))]
    modes = {str(path): stat.S_IMODE(path.lstat().st_mode) for path in paths}
    return {path: f"{mode:04o}" for path, mode in modes.items() if mode & 0o077}


def test_a_server_and_its_backup_keep_others_out(tmp_path: Path) -> None:
    """Only the owner may access the directory of a serving process, its backup and a restored copy."""
    data, backup, restored = (tmp_path / name for name in ("data", "backup", "restored"))
    umask = ("sh", "-c", 'umask 0; exec "$@"', "sh")
    with a_live_server(data, before=umask, forked=False) as server, over_http(server) as send:
        assert send(some_spans(random.Random(1), 500).body).kind == "taken"
        server.committed(500)
        assert (data / f"{FILE_NAME}.wal").exists()
        assert list((data / "spool").iterdir())
        assert readable_by_others(data) == {}
        assert run("backup", backup, "--server", server.http).exit_code == 0
        assert server.stop() == 0
    os.umask(0)
    assert run("restore", backup, "--data", restored).exit_code == 0
    assert readable_by_others(data, backup, restored) == {}


def test_what_large_questions_put_on_disk_is_private(tmp_path: Path) -> None:
    """DuckDB creates its temporary files by itself, and they are private too."""
    data = tmp_path / "new" / "data"
    options = StoreOptions(database=DatabaseOptions(memory_limit="64MB"))
    with Store.open(data, options) as store, store._database.cursor() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE x AS SELECT md5(range::VARCHAR) || md5(hash(range)::VARCHAR) FROM range(2000000)"
        )
        assert list((data / "tmp").iterdir())
        assert readable_by_others(tmp_path / "new") == {}


def test_looser_files_of_before_are_tightened(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A start restricts our files; the directory, which may be a volume for a group, keeps its mode with a warning."""
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(an_export(3)))
    os.umask(0)
    theirs = tmp_path / "data" / "notes.txt"
    theirs.write_text("not ours")
    for path in (tmp_path / "data").rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o666)
    (tmp_path / "data").chmod(0o755)
    with a_store(tmp_path / "data") as store:
        assert rows(store, "SELECT count(*) FROM spans") == [(3,)]
        assert readable_by_others(tmp_path / "data") == {str(tmp_path / "data"): "0755", str(theirs): "0666"}
    assert [line for line in caplog.messages if "0755" in line] == [
        f"{tmp_path / 'data'} has mode 0755: other users see the names of its files; to prevent that, chmod 700"
    ]
