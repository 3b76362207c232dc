"""What all tests share: how hypothesis searches, where other randomness begins, and what is compared with files."""

import gc
import random
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings

from collector.memory import collect_rarely
from tests import forking
from tests.changed import changed_files, is_about
from tests.source_tree import ROOT
from tests.trying import SOAK

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The machine is shared with a server under load, so slowness proves nothing here; pytest-timeout catches a hang.
_PATIENT: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tracejury", _PATIENT, max_examples=40)  # where a test does not name its own number
settings.register_profile(SOAK, _PATIENT, max_examples=400)
settings.load_profile("tracejury")

forking.fork_children()  # of the servers that run in the process of the tests

LARGE_FILES: Final = frozenset({"test_access_matrix", "test_delivery", "test_quack", "test_tenants", "test_web_pages"})
"""Files of many tests, none of which takes long by itself. Of pages and of tenants, all took 110 and 101 s of CPU on a
busy machine; the others take the most of what is left, by four tests of each file."""

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag that writes the golden files again, how long functions are called, and how often to kill."""
    parser.addoption("--update-golden", action="store_true", help="Write tests/golden again; the diff is the review.")
    parser.addoption("--kills", type=int, default=3, help="How often the tests marked `kill` kill a process.")
    parser.addoption("--changed", action="store_true", help="Of these, only those whose code changed within a day.")
    parser.addoption("--examples", type=int, default=2, help="Requests that are made up for each route and each check.")
    parser.addoption("--fuzz-seconds", type=float, help="Call DuckDB's functions for so long, each time other ones.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by what they need, and begin with the files that may take longest.

    Then no worker has one of those left when the others are done. With `--changed`, leave out the tests that kill code
    which has not changed.
    """
    if config.getoption("--changed"):
        changed = changed_files(ROOT)
        left_out = [item for item in items if not _kills_what_changed(item, changed)]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("property")
    longest: dict[Path, float] = {}
    for item in items:
        mark = item.get_closest_marker("timeout")
        longest[item.path] = max(longest.get(item.path, 0.0), mark.args[0] if mark else 0.0)
    items.sort(key=lambda item: (-longest[item.path], item.path.stem not in LARGE_FILES))


def _kills_what_changed(item: pytest.Item, changed: Collection[str] | None) -> bool:
    mark = item.get_closest_marker("kill")
    return mark is None or changed is None or is_about(changed, [str(item.path.relative_to(ROOT)), *mark.args])


def pytest_collection_finish() -> None:
    """Collect garbage as the server does, and no more look at what was imported and collected, which stays."""
    gc.collect()
    collect_rarely()


@pytest.fixture
def seed() -> int:
    """Printed, so that a failure can be had again."""
    number = random.SystemRandom().randrange(1 << 32)
    print(f"seed {number}")  # noqa: T201 - pytest shows it with the failure
    return number


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How often to kill a process: a few times in each run of the suite, and more often before a release."""
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
