"""What has changed within a day, as git tells it."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.changed import changed_files, is_about
from tests.source_tree import ROOT

HOUR_S = 60 * 60
NEWEST_S = 1_790_000_000


def commit(repository: Path, hours_ago: float, *names: str) -> None:
    """A commit of some files, so long before the newest."""
    for name in names:
        repository.joinpath(name).write_text(str(hours_ago), encoding="utf-8")
    at = f"{int(NEWEST_S - hours_ago * HOUR_S)} +0000"
    who = {f"GIT_{role}_{field}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
    env = os.environ | who | {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at, "GIT_CONFIG_GLOBAL": os.devnull}
    for command in (["add", "."], ["commit", "--quiet", "--message", "x"]):
        subprocess.run(["git", "-C", repository, *command], check=True, env=env)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One without commits."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def test_what_changed_within_a_day_is_told(repository: Path) -> None:
    """All commits of the day before the newest count, whenever that was, and what is not committed yet."""
    commit(repository, 50, "old", "both")
    commit(repository, 25, "earlier")
    commit(repository, 23, "today", "both")
    commit(repository, 0, "newest")
    repository.joinpath("old").write_text("not committed", encoding="utf-8")
    assert changed_files(repository) == frozenset({"today", "both", "newest", "old"})


def test_a_short_history_does_not_say(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A clone of the newest commit alone, a repository without commits, and a folder that is none, say nothing."""
    assert changed_files(repository) is None
    commit(repository, 0, "one")
    assert changed_files(repository) is None
    assert changed_files(tmp_path_factory.mktemp("none")) is None


@pytest.mark.parametrize(
    "file, paths, is_meant",
    [
        ("storage/ingest/spool.py", ["storage/ingest"], True),
        ("storage/ingest_old.py", ["storage/ingest"], False),
        ("storage/queries/ingest/state.sql", ["rules", "storage/ingest"], True),
        ("storage/queries/judging/state.sql", ["storage/ingest"], False),
        ("tests/test_crash.py", ["tests/test_crash.py"], True),
    ],
)
def test_code_is_in_folders(file: str, paths: list[str], is_meant: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A folder stands for all below it, and one of the storage also for its statements."""
    assert is_about({file}, paths) == is_meant
    assert not is_about((), paths)


def test_tests_of_kills_say_what_they_are_about() -> None:
    """Each names folders that there are."""
    texts = [file.read_text(encoding="utf-8") for file in sorted((ROOT / "tests").rglob("test_*.py"))]
    marks = [told for text in texts for told in re.findall(r"^@pytest\.mark\.kill\b(.*)$", text, re.MULTILINE)]
    assert len(marks) >= 10  # or they are written in another way
    for mark in marks:
        paths = re.findall(r'"([^"]+)"', mark)
        assert paths, mark
        assert all((ROOT / path).is_dir() for path in paths), mark


def test_what_a_change_has_to_pass_kills_what_changed() -> None:
    """Before the whole suite, whose summary is the last line."""
    commands = re.findall(
        r"^(?:exec )?make .*?(\w+) </dev/null$", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE
    )
    assert commands == ["kills", "test"]
