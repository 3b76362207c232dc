"""The style of the source as a test: budgets that only ever get tighter, and one home for each kind of thing."""

import ast
import importlib.metadata
import math
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache

import click
import pytest
from pydantic import BaseModel

from collector import settings, settings_loading
from collector.cli.main import main
from tests.source_tree import PACKAGES, ROOT, files

FUNCTION_LINES = 60
FUNCTION_LINES_90TH = 30
FILE_LINES = 700
PARAMETERS = 6
# The ratchet: code over its budget, with its size. An entry that no longer fits exactly is an error, so a
# function can only shrink, and leaves the table once it is within the budget.
OVER_BUDGET: dict[str, int] = {}

# Uses of suffixes that are not file name extensions of users.
NO_ENDINGS = ["(name).suffix", "_TYPES", "chosen.suffix", '".localhost"', '".py"', 'key.endswith(".*")']
SQL_FOLDERS = {"queries", "schema", "views"}
SETTINGS = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


def test_functions_and_files_stay_within_their_budgets() -> None:
    """No function is longer than 60 lines or takes more than 6 parameters, and no file is longer than 700 lines."""
    functions = [function for file in files() for function in file.functions()]
    over = {function.name: function.lines for function in functions if function.lines > FUNCTION_LINES}
    over |= {f"{f.name}()": f.parameters for f in functions if f.parameters > PARAMETERS}
    over |= {file.path: lines for file in files() if (lines := len(file.text.splitlines())) > FILE_LINES}
    assert over == OVER_BUDGET


def test_most_functions_are_short() -> None:
    """Nine functions in ten have at most 30 lines."""
    lines = sorted(function.lines for file in files() for function in file.functions())
    assert lines[math.ceil(len(lines) * 0.9) - 1] <= FUNCTION_LINES_90TH


def test_packages_hold_no_code_of_their_own() -> None:
    """An `__init__.py` is a docstring, so importing one module never imports its siblings."""
    packages = [file for file in files(*PACKAGES, "tests", "benchmarks") if file.path.endswith("__init__.py")]
    assert [file.path for file in packages if len(file.tree.body) != 1 or not ast.get_docstring(file.tree)] == []


def test_every_folder_of_code_is_a_package() -> None:
    """Each folder with a module in it has an `__init__.py`, as the wheel and the import contracts need."""
    folders = {(ROOT / file.path).parent for file in files()}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_the_root_holds_nothing_that_tests_wrote() -> None:
    """No file is committed beside those of the project, such as the output of a command that ran in its root."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a repository")
    top = {name.split(b"/")[0].decode(errors="replace") for name in listed.stdout.split(b"\0") if name}
    assert top <= {
        *PACKAGES, "benchmarks", "deploy", "docs", "sdk", "tests", ".ci", ".editorconfig", ".github", ".gitignore",
        ".git-blame-ignore-revs", ".pre-commit-config.yaml", "CONTRIBUTING.md", "SECURITY.md",
        "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "mkdocs.yml", "pyproject.toml",
        "requirements.lock", "requirements-dev.lock",
    }  # fmt: skip


def test_what_the_server_imports_is_locked_for_it() -> None:
    """A server is installed from requirements.lock, where packages of the tests alone are missing; or from extras."""
    locked = set(re.findall(r"^([a-z0-9.-]+)==", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE))
    owners = importlib.metadata.packages_distributions()
    nodes = [node for file in files(*PACKAGES) for node in ast.walk(file.tree)]
    modules = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    own = {*sys.stdlib_module_names, *PACKAGES, "tracejury"}  # the SDK, which is part of it
    imported = {module.partition(".")[0] for module in modules} - own
    distributions = {name: {re.sub(r"[-_.]+", "-", each.lower()) for each in owners.get(name, ())} for name in imported}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"].values()
    optional = {re.match(r"[a-z0-9-]+", each)[0] for extra in extras for each in extra}  # type: ignore[index]
    assert {name for name, each in distributions.items() if each.isdisjoint(locked | optional)} == set()


def test_catching_everything_gives_its_reason() -> None:
    """A broad `except` that does not raise again says why on its line."""
    silent = [
        f"{file.path}:{line}"
        for file in files()
        for line in file.silent_broad_handlers()
        if not re.search(r"# noqa: BLE001 - \w+", file.text.splitlines()[line - 1])
    ]
    assert silent == []


def test_the_environment_is_read_in_one_place() -> None:
    """Only the settings module reads environment variables, and one function passes some on to child processes."""
    readers = [file.path for file in files() for _ in file.environment_reads()]
    assert set(readers) == {"collector/settings_loading.py", "storage/child_process.py"}
    assert readers.count("storage/child_process.py") == 1


def test_rows_become_arrow_in_one_place() -> None:
    """DuckDB 1.5 and 2 need different calls, between which one module chooses."""
    readers = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "storage").rglob("*.py")
        if re.search(r"\.to_arrow_(table|reader)\(", path.read_text(encoding="utf-8"))
    }
    # Both read what `rows_of` of that module returns.
    assert readers == {"storage/engine/arrow.py", "storage/engine/cursor_pool.py", "storage/query/query_child.py"}


def test_endings_of_file_names_are_read_in_one_place() -> None:
    """Only one function reads file name extensions, so that uppercase ones are recognized everywhere."""
    reading = re.compile(r"""\.suffix\b(?! *=)|glob\(f?"\*\.\w|endswith\(\(?["']\.""")
    places = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for package in ("collector", "evaluators", "rules", "sdk/python/src")
        for path in sorted((ROOT / package).rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if reading.search(line) and not any(each in line for each in NO_ENDINGS)
    ]
    assert places == []


def test_every_sql_file_is_used_and_every_use_has_its_file() -> None:
    """The names in the calls of `sql.query` are the files of storage/queries, and no statement lives elsewhere."""
    calls = [call for file in files("storage") for call in file.calls("sql.query")]
    used = {ast.literal_eval(call.args[0]) for call in calls}
    statements = [path for package in PACKAGES for path in (ROOT / package).rglob("*.sql")]
    queries = [path.stem for path in statements if path.parent.parent.name == "queries"]
    assert sorted(used) == sorted(queries)  # each name is there once, whatever its room
    assert {path.relative_to(ROOT).parts[:2] for path in statements} == {("storage", folder) for folder in SQL_FOLDERS}


def test_every_sql_file_opens_with_what_it_answers() -> None:
    """Each statement is headed by a comment."""
    statements = sorted((ROOT / "storage").rglob("*.sql"))
    assert [path.name for path in statements if not re.match(r"-- \w", path.read_text(encoding="utf-8"))] == []


def test_what_is_put_into_a_statement_stands_in_no_comment() -> None:
    """The second line of what replaces a name in a comment would be SQL."""
    parts = {part for file in files("storage") for part in re.findall(r'replace\("(\$\w+)", sql\.', file.text)}
    comments = [
        (path.name, line)
        for path in sorted((ROOT / "storage").rglob("*.sql"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("--")
    ]
    assert len(parts) > 4
    assert [name for name, line in comments if parts & set(re.findall(r"\$\w+", line))] == []


def test_every_setting_is_documented() -> None:
    """The page of the configuration names each setting as the YAML file spells it."""
    assert [name for name in _setting_names(settings.Settings) if f"`{name}`" not in SETTINGS] == []


def test_every_command_and_option_is_documented() -> None:
    """The page of the command line names each command and each of its options."""
    names = _command_line(main, "tracejury")
    assert [name for name in names if not re.search(rf"{re.escape(name)}(?![\w-])", COMMANDS)] == []


def test_the_example_configuration_loads() -> None:
    """The file in deploy/ is a configuration as it stands."""
    settings_loading.load_settings(ROOT / "deploy" / "config.example.yaml", flags={}, environ={})


def test_every_test_states_its_claim() -> None:
    """Each test has a docstring of one sentence."""
    tests = [
        (f"{file.path}:{node.name}", ast.get_docstring(node) or "")
        for file in files("tests")
        for node in ast.walk(file.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert [name for name, claim in tests if not claim.endswith(".") or re.search(r"[.!?]\s+[A-Z]", claim)] == []


@pytest.mark.parametrize(
    "module", ["rules", "evaluators", "storage.records", "storage.errors", "collector.live.jobs.work.child"]
)
def test_deciding_and_judging_need_no_database(module: str) -> None:
    """Importing a package that decides, or the nouns it decides about, does not load DuckDB."""
    assert "duckdb" not in loaded_by(module)


@pytest.mark.parametrize("library", ["scipy", "openai", "jsonschema"])
def test_a_server_starts_without_what_it_may_never_need(library: str) -> None:
    """Large libraries that are seldom needed are loaded on first use."""
    assert library not in loaded_by("collector.program")


@pytest.mark.parametrize("library", ["rich", "httpx", "numpy", "pydantic", "duckdb"])
def test_the_command_line_loads_the_command_that_is_given(library: str) -> None:
    """A command loads only its own libraries, and none that only others need, such as tables or a client."""
    assert library not in loaded_by("collector.cli.main")


def test_no_command_loads_the_database_before_it_opens_one() -> None:
    """Commands that ask a server pay nothing for DuckDB, whatever documents they read."""
    modules = sorted(ROOT.joinpath("collector", "cli").glob("[a-z]*.py"))
    assert "duckdb" not in loaded_by(", ".join(f"collector.cli.{module.stem}" for module in modules))


@cache
def loaded_by(module: str) -> frozenset[str]:
    """Return the names of all modules that importing one loads."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    return frozenset(done.stdout.split())


def _setting_names(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _setting_names(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _command_line(command: click.Command, path: str) -> Iterator[str]:
    yield path
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield max(parameter.opts, key=len)
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _command_line(child, f"{path} {name}")


def test_processes_of_our_own_are_started_in_one_place() -> None:
    """Whatever else starts a process runs a program of the operator's, with an environment of its own."""
    calls = (".Popen(", "subprocess.run(", "subprocess_exec", "os.fork(")
    packages = ("collector/", "evaluators/", "rules/", "storage/")
    starts = {file.path for file in files() if file.path.startswith(packages) and any(c in file.text for c in calls)}
    programs = {"evaluators/process.py", "evaluators/supervisor.py"}
    assert starts == {"storage/child_process.py", *programs}
