"""Parts of the suite that run only if their subject has changed since a commit with which the whole part has passed.

A part without a record, or with a commit that the history does not hold, runs completely.
"""

import ast
import re
import subprocess
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Final

import grimp

PARTS: Final = ("kill", "browser", "simulation", "costly", "pure", "property")
"""Tests of the first five run if their subject has changed; those of the last try more examples then."""
RECORD: Final = Path("tests", "soaked.toml")
UNUSED: Final = frozenset({str(RECORD), "tests/flaky.txt"})

EVERYTHING: Final = (
    "collector/memory.py",
    "pyproject.toml",
    "pytest.ini",
    "requirements-dev.lock",
    "requirements.lock",
    "setup.cfg",
    "tests/again.py",
    "tests/changed.py",
    "tests/conftest.py",
    "tests/forking.py",
    "tests/quick.py",
    "tests/source_tree.py",
    "tests/trying.py",
    "tests/zygote.py",
    "tox.ini",
)
"""What all tests build on. So is each conftest.py and each package file below `tests/`, which apply by their place."""
SERVERS: Final = (
    "collector/app.py",
    "collector/conditions.py",
    "collector/listening.py",
    "collector/logs.py",
    "collector/machine.py",
    "collector/sd_notify.py",
    "collector/self_tracing.py",
    "collector/components.py",
    "collector/program.py",
    "collector/secrets.py",
    "collector/server_conditions.py",
    "collector/server_meters.py",
    "collector/setting_groups.py",
    "collector/setting_values.py",
    "collector/settings.py",
    "collector/startup.py",
    "storage/aging.py",
    "storage/backoff.py",
    "storage/clock.py",
    "storage/delays.py",
    "storage/engine",
    "storage/errors.py",
    "storage/ingest/windows.py",
    "storage/ingest/writer.py",
    "storage/limit.py",
    "storage/memory.py",
    "storage/records.py",
    "storage/schema",
    "storage/sql.py",
    "storage/child_process.py",
    "storage/store.py",
    "storage/timing.py",
    "storage/versioned.py",
    "storage/views",
    "storage/wire.py",
    "storage/work.py",
)
"""What every server and store builds on, and with it each test of kills and of pages, and each costly one."""
_PAGES: Final = ("collector/api/base", "collector/api/serving", "tests/browser.py")
_PACKAGES: Final = ("collector", "evaluators", "rules", "storage", "tracejury")
_WEB_FILE: Final = re.compile(r"[\w-]+\.(?:html|css|js)\b")
_WORD: Final = re.compile(r"\w+")
_PROGRAM: Final = re.compile(r"tests\.\w+")  # `python -m tests.worker_process`
_LOADERS: Final = {"collector.cli.main": "collector.cli", "collector.api.serving.application": "collector.api"}
"""Modules that import others by names in a table, and the package of these. The graph does not show that."""
_NAMED: Final = re.compile(
    r"(?:import_module[(,]\s*|\bfrom )[\"']?((?:collector|evaluators|rules|storage|tracejury)(?:\.\w+)+)"
)
"""An import by name: `import_module("…")`, or the program of a child process, "from … import main"."""
_KNOWN: Final = frozenset({*_PACKAGES, "benchmarks", "deploy", "docs", "sdk", "tests"})
_READERS: Final = frozenset({"ROOT", "__file__", "resources"})
"""A file of tests with one of these words may read any file of the repository."""


def recorded(repository: Path) -> Mapping[str, str]:
    """Read the commit of each part that has passed completely."""
    file = repository / RECORD
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def changed_files(repository: Path, since: str | None) -> frozenset[str] | None:
    """Return the files that differ from a commit, uncommitted ones included; None if it is not in the history."""
    if since is None or git(repository, "merge-base", "--is-ancestor", since, "HEAD") is None:
        return None
    differing = git(repository, "diff", "--name-only", "--no-renames", "-z", since)
    untracked = git(repository, "ls-files", "--others", "--exclude-standard", "-z")
    if differing is None or untracked is None:
        return None
    changed = frozenset(filter(None, [*differing.split("\0"), *untracked.split("\0")])) - UNUSED
    return changed | users_of_statements(repository, changed)


def users_of_statements(repository: Path, changed: Iterable[str]) -> frozenset[str]:
    """Return the modules that name a changed statement, which may lie in the folder of another part of the storage."""
    names = {f'"{Path(file).stem}"' for file in changed if file.startswith("storage/queries/")}
    modules = repository.glob("storage/**/*.py") if names else ()
    texts = {str(module.relative_to(repository)): module.read_text(encoding="utf-8") for module in modules}
    return frozenset(module for module, text in texts.items() if any(name in text for name in names))


def git(repository: Path, *arguments: str) -> str | None:
    """Return the output of git; None if it fails or is not installed."""
    try:
        done = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def is_about(changed: Iterable[str], paths: Sequence[str]) -> bool:
    """Return whether a changed file is one of these, or lies in one of these folders."""
    # The statements of a folder of `storage` lie in a folder of their own.
    statements = [path.replace("storage/", "storage/queries/", 1) for path in paths if path.startswith("storage/")]
    return any(file == path or file.startswith(f"{path}/") for file in changed for path in [*paths, *statements])


@dataclass(frozen=True)
class Changes:
    """The changes since each part was recorded, compared with the subjects of tests."""

    repository: Path
    since: Mapping[str, str]
    files: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    """By part; None if the whole part has to run."""

    @classmethod
    def read(cls, repository: Path) -> "Changes":
        """Compare the working tree with the record."""
        since = recorded(repository)
        return cls(repository, since, {part: changed_files(repository, since.get(part)) for part in PARTS})

    def concern(self, part: str, test_file: str, subject: Sequence[str] = ()) -> bool:
        """Return whether a change since the record concerns a test, given the arguments of its mark."""
        changed = self.files[part]
        if changed is None or is_about(changed, EVERYTHING) or any(map(_is_unknown, changed)):
            return True
        if not changed.isdisjoint(self._tests_behind(test_file)) or self._may_read(changed, test_file):
            return True
        if part in {"simulation", "pure"} and not _READERS.isdisjoint(_words_behind(self.repository, test_file)):
            return bool(changed)
        if part in {"simulation", "pure", "property"}:
            return not self._packages_or_modules(changed).isdisjoint(self._modules_behind(test_file))
        if part == "browser":
            rooms = is_about(changed, _PAGES) or not changed.isdisjoint(self._pages(tuple(subject)))
            return rooms or is_about(changed, SERVERS)
        shared, behind = _shared(self._graph, tuple(subject))
        # Prompts, prices and the like; `users_of_statements` knows who reads a statement.
        data = {file for file in changed if not file.endswith((".py", ".sql"))}
        return is_about(changed, [*SERVERS, *subject, *shared]) or not self._packages_or_modules(data).isdisjoint(
            behind
        )

    @cached_property
    def _graph(self) -> "grimp.ImportGraph":
        # The folder is that of import-linter, which has filled it for most of these packages.
        return grimp.build_graph(*_PACKAGES, cache_dir=str(self.repository / ".import_linter_cache"))

    def _tests_behind(self, test_file: str) -> frozenset[str]:
        return _behind(self.repository, test_file)[0]

    def _may_read(self, changed: Collection[str], test_file: str) -> bool:
        # Data of `tests/` concerns the tests that name it or its folder, themselves or in a helper.
        words = _words_behind(self.repository, test_file)
        data = (Path(file) for file in changed if file.startswith("tests/") and not file.endswith(".py"))
        return any(words.issuperset(_WORD.findall(Path(file.parts[1]).stem)) for file in data)

    def _modules_behind(self, test_file: str) -> frozenset[str]:
        """Return the modules that a file of tests and its helpers import, and all that these build on."""
        names = _behind(self.repository, test_file)[1]
        modules = self._graph.modules
        waiting = {each for name in names for each in (name, name.rpartition(".")[0]) if each in modules}
        behind = set[str]()
        while waiting:
            new = waiting.union(*(self._graph.find_upstream_modules(each) for each in waiting)) - behind
            behind |= new
            waiting = {each for module in new for each in self._loaded_by_name(module)} & modules - behind
        return frozenset(behind)

    def _loaded_by_name(self, module: str) -> set[str]:
        if module in _LOADERS:
            return self._graph.find_descendants(_LOADERS[module])
        return set(_NAMED.findall(_source(self.repository, module)))

    def _packages_or_modules(self, changed: Collection[str]) -> set[str]:
        """Return the modules that changed; of files that are not Python, all modules of the package that holds them."""
        modules = set()
        for file in changed:
            path = Path(file.removeprefix("sdk/python/src/"))
            name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
            if path.suffix == ".py":
                modules.add(name)
                continue
            name = name.replace("storage.queries.", "storage.", 1).replace("storage.schema.", "storage.engine.", 1)
            while name and name not in self._graph.modules:
                name = name.rpartition(".")[0]
            modules |= {name, *self._graph.find_descendants(name)} if name else set()
        return modules

    def _pages(self, rooms: tuple[str, ...]) -> frozenset[str]:
        return _page_files(self.repository, self._graph, rooms)


def left_out_line(part: str, count: int, changes: Changes) -> str:
    """Say how many tests of a part were left out, and why."""
    since = changes.since.get(part)
    if since is None:
        return f"{part}: runs completely, because {RECORD} names no commit with which it passed"
    if changes.files[part] is None:
        return f"{part}: runs completely, because {since[:12]} is not in this history"
    if part == "property":
        return f"{part}: 10 examples in place of 40 where nothing that the tests build on changed since {since[:12]}"
    return f"{part}: {count} tests left out, whose subject has not changed since {since[:12]}"


def _is_unknown(file: str) -> bool:
    path = Path(file)
    # Python and pytest load these by their location: no test imports them.
    by_place = path.name == "conftest.py" or (path.parts[0] == "tests" and path.name == "__init__.py")
    return by_place or (path.suffix == ".py" and path.parts[0] not in _KNOWN)


def _file(module: str) -> str:
    folder = "sdk/python/src/" if module.partition(".")[0] == "tracejury" else ""
    return f"{folder}{module.replace('.', '/')}.py"


@cache
def _source(repository: Path, module: str) -> str:
    file = repository / _file(module)
    return file.read_text(encoding="utf-8") if file.exists() else ""


@cache
def _behind(repository: Path, test_file: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the files of tests and benchmarks that a file uses, itself included, and the names that all import."""
    files, names, waiting = {test_file}, set[str](), [test_file]
    while waiting:
        imported = _named(repository / waiting.pop())
        names |= imported
        for name in imported:
            file = f"{name.replace('.', '/')}.py"
            if name.startswith(("benchmarks.", "tests.")) and file not in files and repository.joinpath(file).exists():
                files.add(file)
                waiting.append(file)
    return frozenset(files), frozenset(names)


@cache
def _words_behind(repository: Path, test_file: str) -> frozenset[str]:
    files = [repository / file for file in _behind(repository, test_file)[0]]
    return frozenset(word for file in files for word in _WORD.findall(file.read_text(encoding="utf-8")))


@cache
def _named(file: Path) -> frozenset[str]:
    """Return the modules that a file of tests imports or starts."""
    text = file.read_text(encoding="utf-8")
    names = set(_PROGRAM.findall(text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


@cache
def _shared(graph: "grimp.ImportGraph", paths: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Return all modules that a subject builds on; before them, the files of those beside the packages."""
    packages = {path.replace("/", ".") for path in paths} & graph.modules
    modules = {module for module in graph.modules if is_about([_file(module)], paths)} | packages
    behind = modules.union(*(graph.find_upstream_modules(each) for each in modules))
    beside = (each for each in behind if each.count(".") == 1 and not graph.find_children(each))
    return frozenset(map(_file, beside)), frozenset(behind)


@cache
def _page_files(repository: Path, graph: "grimp.ImportGraph", rooms: tuple[str, ...]) -> frozenset[str]:
    """Return the files of rooms of `collector/web`, of all rooms if none is named, and what every page builds on.

    Templates, scripts and styles belong to the modules and templates that name them.
    """
    web = repository / "collector" / "web"
    if not rooms:
        return frozenset(str(file.relative_to(repository)) for file in web.rglob("*") if file.is_file())
    own = {module for room in rooms for module in graph.find_descendants(f"collector.web.{room}")}
    modules = own.union(*(graph.find_upstream_modules(each) for each in own))
    files = {repository / f"{module.replace('.', '/')}.py" for module in modules if module.startswith("collector.web.")}
    files |= {file for file in web.iterdir() if file.is_file()}
    waiting = [file for file in files if file.exists()]
    while waiting:
        for name in _WEB_FILE.findall(waiting.pop().read_text(encoding="utf-8")):
            for file in (web / "templates" / name, web / "static" / name):
                if file.exists() and file not in files:
                    files.add(file)
                    waiting.append(file)
    return frozenset(str(file.relative_to(repository)) for file in files)
