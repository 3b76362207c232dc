"""The choice of tests to run: the subject of each, and the changes since its part was recorded."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import again, soaking
from tests.changed import (
    PARTS,
    SERVERS,
    Changes,
    changed_files,
    is_about,
    left_out_line,
    recorded,
    users_of_statements,
)
from tests.quick import pure_files
from tests.source_tree import ROOT


def git(repository: Path, *arguments: str) -> str:
    """Let git do something as a made-up person."""
    who = {f"GIT_{role}_{field}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
    env = os.environ | who | {"GIT_CONFIG_GLOBAL": os.devnull}
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, env=env, capture_output=True, text=True).stdout.strip()


def commit(repository: Path, *names: str) -> str:
    """Commit files with other content, and return the commit."""
    for name in names:
        file = repository / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{file.read_text('utf-8') if file.exists() else ''}# more\n", encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "x")
    return git(repository, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository of one commit, with an empty record."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    commit(tmp_path, "old", "tests/soaked.toml")
    return tmp_path


def after(*files: str) -> Changes:
    """Return changes of these files of this tree, in each part."""
    return Changes(ROOT, dict.fromkeys(PARTS, "0" * 40), dict.fromkeys(PARTS, frozenset(files)))


def test_all_that_differs_from_a_commit_has_changed(repository: Path) -> None:
    """Commits, edits and new files count; ignored files and the record do not."""
    since = commit(repository, "same", ".gitignore")
    commit(repository, "committed", "tests/soaked.toml")
    repository.joinpath("old").write_text("edited", encoding="utf-8")
    repository.joinpath("new").touch()
    repository.joinpath(".gitignore").write_text("ignored", encoding="utf-8")
    repository.joinpath("ignored").touch()
    repository.joinpath("\u00e9.sql").touch()
    assert changed_files(repository, since) == frozenset({"committed", "old", "new", ".gitignore", "\u00e9.sql"})


def test_an_unknown_commit_runs_everything(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No record, a commit of another history, a shallow clone and a folder without git compare with nothing."""
    lost = commit(repository, "lost")
    git(repository, "reset", "--quiet", "--hard", "HEAD~1")
    old = git(repository, "rev-parse", "HEAD")
    commit(repository, "new")
    shallow = tmp_path_factory.mktemp("shallow")
    git(repository, "clone", "--quiet", "--depth", "1", repository.as_uri(), str(shallow))
    assert changed_files(repository, old) == frozenset({"new"})
    unknown = [(repository, None), (repository, lost), (shallow, old), (tmp_path_factory.mktemp("none"), old)]
    assert [changed_files(*each) for each in unknown] == [None] * 4

    soaking.record(repository, "kill", lost)
    changes = Changes.read(repository)
    assert all(changes.concern(part, "old") for part in PARTS)
    lines = [left_out_line(part, 0, changes) for part in PARTS]
    assert f"{lost[:12]} is not in this history" in lines[0]
    assert all("names no commit" in line for line in lines[1:])


def test_only_a_clean_tree_is_recorded(repository: Path) -> None:
    """Other parts may be recorded already, and stay so; comments stay too."""
    newest = git(repository, "rev-parse", "HEAD")
    assert soaking.clean_commit(repository) == newest
    soaking.record(repository, "browser", newest)
    assert soaking.clean_commit(repository) == newest
    soaking.record(repository, "kill", "a")
    assert recorded(repository) == {"kill": "a", "browser": newest}
    assert repository.joinpath("tests", "soaked.toml").read_text("utf-8").startswith("# more\n")
    repository.joinpath("new").touch()
    assert soaking.clean_commit(repository) is None


def test_skipped_tests_are_counted(tmp_path: Path) -> None:
    """A part of which tests were skipped has not passed completely."""
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite skipped="2"/><testsuite skipped="1"/></testsuites>', encoding="utf-8")
    assert soaking.skipped(report) == 3


def test_a_second_run_is_as_hard_as_the_first() -> None:
    """Tests that failed run again with the kills and examples of the whole part, and with the machine to themselves."""
    options = ["-n", "3", "--dist", "worksteal", "--hypothesis-profile", "soak", "--timeout", "3000"]
    assert soaking.alone(options) == ["--hypothesis-profile", "soak", "--timeout", "3000"]
    assert soaking.alone(["-n", "3", "--kills", "20"]) == ["--kills", "20"]


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


@pytest.mark.parametrize(
    "file, parts",
    [
        ("docs/api.md", []),
        ("requirements.lock", [*PARTS]),
        ("tests/conftest.py", [*PARTS]),
        ("tests/corpus/some.json", ["kill"]),
        ("tests/schemathesis.toml", []),
        ("storage/engine/database.py", ["kill", "browser", "costly"]),
        ("collector/listeners/status.py", ["costly"]),
        ("storage/judging/jobs.py", ["kill"]),
        ("storage/queries/judging/claim.sql", ["kill"]),
        ("tests/worker_process.py", ["kill"]),
        ("collector/web/templates/rules.html", ["browser"]),
        ("collector/web/static/app.css", ["browser"]),
        ("collector/web/templates/review_queue.html", []),
        ("tests/browser.py", ["browser"]),
        ("rules/statistics/intervals.py", ["simulation", "pure", "property"]),
        ("rules/statistics/runs/__init__.py", ["simulation", "pure", "property"]),
        ("evaluators/text.py", []),
    ],
)
def test_a_change_concerns_the_parts_whose_subject_it_is(file: str, parts: list[str]) -> None:
    """One test of each part: kills of a worker, pages of rules, bodies of requests, and statistics."""
    tests = {
        "kill": ("tests/test_workers_crash.py", ["storage/judging"]),
        "browser": ("tests/test_web_rules.py", ["rules"]),
        "simulation": ("tests/test_statistics_simulated.py", []),
        "costly": ("tests/test_bodies.py", ["collector/listeners", "collector/otlp"]),
        "pure": ("tests/test_statistics_simulated.py", []),
        "property": ("tests/test_statistics_simulated.py", []),
    }
    assert [part for part in PARTS if after(file).concern(part, *tests[part])] == parts


@pytest.mark.parametrize(
    "file, test_file, is_concerned",
    [
        ("tests/corpus/vercel-7/chat/spans.json", "tests/test_web_traces.py", True),  # by its helper, tests.recorded
        ("tests/corpus/vercel-7/chat/spans.json", "tests/test_crash.py", False),
        ("tests/golden/prompts/judge.txt", "tests/test_agent_judges.py", True),
        ("tests/golden/prompts/judge.txt", "tests/test_crash.py", False),
        ("tests/schemathesis.toml", "tests/test_contract.py", True),
        ("tests/schemathesis.toml", "tests/test_bodies.py", False),
    ],
)
def test_data_of_the_tests_concerns_those_that_name_it(file: str, test_file: str, is_concerned: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A recording or golden file concerns each test that names it or its folder, or whose helper does."""
    assert after(file).concern("kill", test_file) == is_concerned


@pytest.mark.parametrize("name", ["docs/api.md", "deploy/compose.yaml", "storage/ingest/spool.py"])
def test_a_pure_test_that_reads_the_repository_depends_on_every_file(name: str) -> None:
    """The imports of such a test do not include the files it reads, such as documents."""
    assert after(name).concern("pure", "tests/test_documents.py")
    assert not after(name).concern("pure", "tests/test_markdown.py")


def test_commands_that_are_loaded_by_name_concern_tests_of_the_command_line() -> None:
    """No import leads from the entry point to the module of a command."""
    assert after("collector/cli/traces.py").concern("pure", "tests/test_times.py")


def test_a_statement_concerns_the_modules_that_name_it() -> None:
    """It may lie in the folder of another part of the storage than they do."""
    users = users_of_statements(ROOT, ["storage/queries/judging/last_result.sql"])
    assert "storage/alerting/monitors.py" in users
    assert "storage/judging/jobs.py" not in users


@pytest.mark.parametrize("module", ["collector/api/alerting/monitors.py", "collector/live/jobs/work/child.py"])
def test_modules_that_are_loaded_by_name_are_part_of_a_subject(module: str) -> None:
    """Routes are in a table of names, and the program of a child process is a text: no import leads to either."""
    assert after(module).concern("simulation", "tests/test_stable_services.py")


def test_code_that_nothing_knows_concerns_every_test() -> None:
    """A new package is in no graph and in no mark; a benchmark belongs to the tests that import it."""
    assert after("another/module.py").concern("kill", "tests/test_crash.py")
    assert after("benchmarks/crowds.py").concern("costly", "tests/test_crowds.py")
    assert not after("benchmarks/crowds.py").concern("costly", "tests/test_disk.py")


def test_modules_beside_the_packages_belong_to_what_imports_them() -> None:
    """A mark names the folder of its subject; what several folders share follows from the imports."""
    assert after("collector/follower.py").concern("costly", "tests/test_settling.py", ("collector/live",))
    assert not after("collector/follower.py").concern("costly", "tests/test_chat_reply.py", ("evaluators",))
    assert after("sdk/python/src/tracejury/strict_json.py").concern(
        "costly", "tests/test_chat_reply.py", ("evaluators",)
    )


def test_data_of_the_product_belongs_to_subjects_that_build_on_its_package() -> None:
    """Prices and prompts are not modules, so the graph does not name them; views belong to every store."""
    live = ("tests/test_jobs.py", ("collector/live",))
    assert after("evaluators/prompts/llm_judge.txt").concern("costly", *live)
    assert after("collector/conventions/prices.toml").concern("costly", *live)
    assert after("storage/views/run_sums.sql").concern("costly", "tests/test_run_diff.py", ("storage/offline",))
    assert not after("docs/rules.md").concern("costly", *live)


@pytest.mark.parametrize(
    "file", ["pytest.ini", "setup.cfg", "conftest.py", "tests/conventions/conftest.py", "tests/__init__.py"]
)
def test_files_that_apply_by_their_place_concern_every_test(file: str) -> None:
    """No test names them or imports them."""
    assert after(file).concern("costly", "tests/test_chat_reply.py", ("evaluators",))
    assert after(file).concern("pure", "tests/test_statistics_formulas.py")


def test_a_test_that_starts_a_program_is_not_pure() -> None:
    """The imports of such a test do not include the program's, even if the SDK starts it."""
    names = {file.name for file in pure_files()}
    assert {"test_sdk_deciding.py", "test_code_judge.py", "test_crash.py"}.isdisjoint(names)
    assert "test_statistics_formulas.py" in names


def test_data_belongs_to_the_modules_beside_it() -> None:
    """Statements and prompts concern the properties of what reads them; a page without a room stands for all rooms."""
    assert after("storage/queries/ingest/insert_spans.sql").concern("property", "tests/test_store.py")
    assert not after("storage/queries/ingest/insert_spans.sql").concern("property", "tests/test_markdown.py")
    assert after("collector/web/static/review.js").concern("browser", "tests/test_web_pages.py")


def test_marks_name_what_tests_are_about() -> None:
    """Each test of kills and each costly one names code, and each file of pages names rooms, that exist."""
    texts = [file.read_text(encoding="utf-8") for file in sorted((ROOT / "tests").rglob("test_*.py"))]
    for mark, folder in (("kill", ROOT), ("costly", ROOT), ("pages", ROOT / "collector" / "web")):
        pattern = rf"^(?:@|pytestmark = |    )pytest\.mark\.{mark}\b([^)]*)\)"
        marks = [mark for text in texts for mark in re.findall(pattern, text, re.MULTILINE)]
        assert len(marks) >= 10  # or they are written in another way
        for name in marks:
            paths = re.findall(r'"([^"]+)"', name)
            assert paths, name
            assert all((folder / path).exists() for path in paths), name


def test_all_code_is_what_some_costly_test_is_about() -> None:
    """A new folder or module is named by a mark, or is one of these, whose tests always run."""
    texts = [file.read_text(encoding="utf-8") for file in sorted((ROOT / "tests").rglob("test_*.py"))]
    pattern = re.compile(r"^(?:@|pytestmark = |    )pytest\.mark\.(?:kill|costly)\(([^)]*)\)", re.MULTILINE)
    marks = {path for text in texts for mark in pattern.findall(text) for path in re.findall(r'"([^"]+)"', mark)}
    packages = ("collector", "evaluators", "rules", "storage")
    files = [str(file.relative_to(ROOT)) for package in packages for file in (ROOT / package).rglob("*.py")]
    assert {Path(file).stem for file in files if not is_about([file], [*SERVERS, *sorted(marks)])} == {
        "__init__", "alert_lines", "beginning", "declared_fields", "follower", "json_values", "meters", "sample",
        "sample_agents", "span_tree",
    }  # fmt: skip


def test_known_flaky_tests_exist_and_are_few() -> None:
    """A list that only grows would be a second suite; a name that no test has would run nothing."""
    names = again.flaky()
    assert len(names) <= 8
    for name in names:
        file, _, function = name.partition("::")
        assert f"def {function.partition('[')[0]}(" in ROOT.joinpath(file).read_text("utf-8"), name


def test_what_a_change_has_to_pass_is_one_command() -> None:
    """It leaves out unchanged parts and runs the flaky tests alone; `make soak` runs every part."""
    commands = re.findall(
        r"^(?:exec )?make .*?(\w+) </dev/null$", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE
    )
    assert commands == ["test"]
    makefile = ROOT.joinpath("Makefile").read_text("utf-8")
    soak = re.search(r"^soak: (.*)$", makefile, re.MULTILINE)
    assert soak is not None
    assert soak[1].split() == [f"soak-{part}" for part in PARTS]
    assert all(f"tests.soaking {part} " in makefile for part in PARTS)
