"""Setup shared by all tests: hypothesis profiles, other random seeds, and comparison with golden files."""

import gc
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings

from collector.memory import collect_rarely
from tests import forking
from tests.again import FailureLines, flaky
from tests.changed import PARTS, Changes, left_out_line
from tests.quick import pure_files
from tests.source_tree import ROOT
from tests.trying import SOAK, try_often

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The machine is shared with a server under load, so slowness proves nothing here; pytest-timeout catches a hang.
_PATIENT: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tracejury", _PATIENT, max_examples=40)  # for tests that do not set their own number
settings.register_profile(SOAK, _PATIENT, max_examples=40)  # of which `try_often` makes 400
settings.load_profile("tracejury")

gc.disable()  # until all are collected: 8.7 s of CPU in each worker, and 15.6 s with garbage collection
forking.fork_children()  # of the servers that run in the process of the tests

LARGE_FILES: Final = (
    "test_failing_judges",
    "test_deletions",
    "test_mcp_inspector",
    "test_quack",
    "test_web_pages",
    "test_extremes",
    "test_disk",
    "test_stopping",
    "test_connection_limits",
    "test_conditions",
    "test_tenants",
    "test_workers_judges",
)
"""The files that took most of the time in a run of 2,974 s, longest first. Simulated with the times of that run, three
workers are idle for 0.9 % of the time if these begin."""

_CHANGES: Final = pytest.StashKey[Changes]()
_COUNTS: Final = pytest.StashKey[dict[str, int]]()
_PURE: Final = pytest.StashKey[frozenset[str]]()

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag that writes the golden files again, how long functions are called, and how often to kill."""
    parser.addoption("--update-golden", action="store_true", help="Write tests/golden again; the diff is the review.")
    parser.addoption("--kills", type=int, default=3, help="Number of kills of a process by each test marked `kill`.")
    parser.addoption(
        "--changed", action="store_true", help="Leave out tests of unchanged subjects, and tests that run alone."
    )
    parser.addoption("--examples", type=int, default=2, help="Requests that are made up for each route and each check.")
    parser.addoption("--snippets", action="store_true", help="Install and run the examples of docs/capture.md.")
    parser.addoption("--fuzz-seconds", type=float, help="Call DuckDB's functions for so long, each time other ones.")


def pytest_configure(config: pytest.Config) -> None:
    """Compare with the record once: workers get what the controller has read."""
    FailureLines.register(config)
    if hasattr(config, "workerinput"):
        since, files = config.workerinput["changes"]
        known = {part: None if names is None else frozenset(names) for part, names in files.items()}
        config.stash[_CHANGES] = Changes(ROOT, since, known)
        config.stash[_PURE] = frozenset(config.workerinput["pure"])
    else:
        config.stash[_CHANGES] = Changes.read(ROOT) if config.getoption("--changed") else Changes(ROOT, {})
        config.stash[_PURE] = frozenset(map(str, pure_files()))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the comparison to a worker."""
    changes = node.config.stash[_CHANGES]
    files = {part: None if changed is None else sorted(changed) for part, changed in changes.files.items()}
    node.workerinput["changes"] = (dict(changes.since), files)
    node.workerinput["pure"] = sorted(node.config.stash[_PURE])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by what they need, and begin with the files that may take longest.

    Then no worker has one of those left when the others are done. With `--changed`, leave out what `make test` leaves
    out: tests whose subject has not changed since their part passed completely, and those that run alone.
    """
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("property")
        if str(item.path) in config.stash[_PURE]:
            item.add_marker("pure")
    if config.getoption("--changed"):
        _leave_out(config, items)
    changes = config.stash[_CHANGES] if config.getoption("--changed") else None
    try_often(items, changes)
    longest: dict[Path, float] = {}
    for item in items:
        mark = item.get_closest_marker("timeout")
        longest[item.path] = max(longest.get(item.path, 0.0), mark.args[0] if mark else 0.0)
    rank = {name: place for place, name in enumerate(LARGE_FILES)}
    items.sort(key=lambda item: (rank.get(item.path.stem, len(rank)), -longest[item.path]))


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    listed, changes = frozenset(flaky()), config.stash[_CHANGES]
    counts = dict.fromkeys(PARTS, 0)
    left_out = [item for item in items if item.nodeid in listed]
    for item in items:
        parts = [part for part in PARTS if item.get_closest_marker(part)]
        # A property alone is not a reason to leave a test out: its subject decides how many examples are tried.
        may_leave = item.nodeid not in listed and parts not in ([], ["property"])
        if may_leave and not any(_concern(changes, part, item) for part in parts):
            left_out.append(item)
            counts[parts[0]] += 1
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=left_out)
    config.stash[_COUNTS] = counts


def _concern(changes: Changes, part: str, item: pytest.Item) -> bool:
    mark = item.get_closest_marker("pages" if part == "browser" else part)
    return changes.concern(part, str(item.path.relative_to(ROOT)), mark.args if mark else ())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report what a worker left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(_COUNTS, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take it from one of them: all collect the same."""
    node.config.stash[_COUNTS] = getattr(node, "workeroutput", {}).get("left_out", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print a line for each part: the omitted tests, and the commit since which nothing of its subject has changed."""
    if not config.getoption("--changed"):
        return
    counts, changes = config.stash.get(_COUNTS, {}), config.stash[_CHANGES]
    for part in PARTS:
        terminalreporter.write_line(left_out_line(part, counts.get(part, 0), changes))


def pytest_collection_finish() -> None:
    """Collect garbage as the server does, and freeze all imported and collected objects, which stay."""
    gc.collect()
    gc.enable()
    collect_rarely()


@pytest.fixture
def seed() -> int:
    """Printed, so that a failure can be had again."""
    number = random.SystemRandom().randrange(1 << 32)
    print(f"seed {number}")  # noqa: T201 - pytest shows it with the failure
    return number


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """Return the number of kills per process: a few in each run of the suite, more before a release."""
    return int(request.config.getoption("--kills"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[str]:
    """One for all tests of pages; it starts with the first of them."""
    from tests.browser import a_chromium

    with a_chromium() as address:
        yield address


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator["Browser"]:
    """A connection to it, for the tests of one file."""
    from tests.browser import a_browser

    with a_browser(chromium) as connected:
        yield connected


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the file of that name in tests/golden."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"{file} is missing: run pytest with --update-golden"
        assert text == file.read_text(encoding="utf-8"), f"{name} has changed: run pytest with --update-golden"

    return compare
