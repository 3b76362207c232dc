"""A real Chromium for the tests of pages: Debian's, which is installed if possible."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser, BrowserContext, Page, Request, ViewportSize, sync_playwright

_PACKAGES: Final = ("chromium-headless-shell", "chromium")
"""The shell draws pages and has no windows: a page in a context of its own took 0.2 s of CPU in it, and 1.2 s in the
whole browser with `--headless=new`. Older systems do not have it."""
_NAMES: Final = (*_PACKAGES, "chromium-browser", "google-chrome")
_INSTALL_S: Final = 300
_PAGE_MS: Final = 30_000
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}
DESK: Final[ViewportSize] = {"width": 1280, "height": 860}
_AXE: Final = Path(AXE_FILE_PATH).read_text(encoding="utf-8")
_LISTENING: Final = re.compile(r"DevTools listening on (ws://\S+)")
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # tests run as root, in containers
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-port=0",
)


def find_chromium() -> str | None:
    """Return the path of the browser, after an attempt to install it if it is missing."""
    return _on_path() or (_installed() if shutil.which("apt-get") and os.geteuid() == 0 else None)


def _on_path() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def _installed() -> str | None:
    """Install it under a lock: several test runs may want it at once, and apt takes one at a time."""
    with (Path(tempfile.gettempdir()) / "tracejury-tests-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _on_path() is None:
            _apt_get("update", "-qq")
            for package in _PACKAGES:
                if _apt_get("install", "-y", "-qq", "--no-install-recommends", package, "fonts-dejavu-core"):
                    break
        return _on_path()


def _apt_get(*arguments: str) -> bool:
    """Run apt-get; return whether it succeeded."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            ["apt-get", *arguments], env=environment, capture_output=True, timeout=_INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@contextmanager
def a_chromium() -> Iterator[str]:
    """Start Chromium and yield its debugging address until the block ends; skip the test if there is no browser."""
    browser = find_chromium()
    if browser is None:
        pytest.skip("there is no Chromium, and it cannot be installed with apt-get here")
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            assert process.stderr is not None
            matches = (_LISTENING.search(line) for line in process.stderr)
            address = next(match[1] for match in matches if match)
            threading.Thread(target=process.stderr.read, daemon=True).start()
            try:
                yield address
            finally:  # of the command, which may be a script that waits for the browser, and of the browser
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def a_browser(address: str) -> Iterator[Browser]:
    """Connect to it. Keep it short: while connected, this thread counts as one that runs an event loop."""
    with sync_playwright() as playwright:
        yield playwright.chromium.connect_over_cdp(address)


@dataclass(slots=True)
class Watch:
    """A page, and the errors on it."""

    page: Page
    origin: str
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Go to a page of the server."""
        self.page.goto(self.origin + path)

    def scan(self) -> list[str]:
        """List the accessibility violations that axe reports: rules of WCAG 2.2 AA and good practice."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_AXE)
        run = "axe.run(document, {resultTypes: ['violations']})"
        violations: list[dict[str, Any]] = self.page.evaluate(run)["violations"]
        return [
            f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
            for each in violations
            for node in each["nodes"]
        ]

    def sideways(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return width


@contextmanager
def a_page(browser: Browser, origin: str, **options: Any) -> Iterator[Watch]:
    """Open a page in a browser without cookies; fail the test if anything went wrong on it.

    What counts: errors and warnings of the console, with them what the security policy forbade, errors of scripts, and
    requests to any other host.
    """
    context: BrowserContext = browser.new_context(**({"viewport": DESK} | options))
    context.set_default_timeout(_PAGE_MS)
    watch = Watch(context.new_page(), origin)
    host = urlsplit(origin).netloc

    def note_request(request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in {"data", "blob"} and parts.netloc != host:
            watch.problems.append(f"asked another host: {request.url}")

    context.on("request", note_request)
    watch.page.on("pageerror", lambda error: watch.problems.append(f"script: {error}"))
    watch.page.on(
        "console",
        lambda message: (
            watch.problems.append(f"console: {message.text}") if message.type in {"error", "warning"} else None
        ),
    )
    try:
        yield watch
    finally:
        context.close()
    assert watch.problems == []
