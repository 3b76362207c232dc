"""Commands with a server of another version, whose answers have other fields and texts than this version."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.serving import a_server, run

ANNOTATION = {
    "tenant": "", "target": "trace", "traceId": "a" * 32, "name": "verdict", "verdict": "CORRECT", "label": "CORRECT",
    "score": None, "passed": True, "overriddenExpectedOutput": None, "source": "person", "author": "ann",
    "withdrawn": False, "superseded": False, "createdAt": "2026-11-21T10:00:00Z",
}  # fmt: skip
"""An annotation without `errorKind`, `note`, and the ids of other kinds of target."""


@contextmanager
def a_server_that_answers(document: object) -> Iterator[str]:
    """Start a server that answers every request with one document."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_a_field_that_may_be_null_may_be_missing() -> None:
    """It is read as null, in each document of a list."""
    with a_server_that_answers([ANNOTATION, ANNOTATION | {"note": "right"}]) as url:
        listed = run("annotations", "list", "--server", url)
    assert (listed.exit_code, listed.output.count("CORRECT"), "right" in listed.output) == (0, 2, True)


def test_a_text_of_a_newer_server_is_printed() -> None:
    """A text of which this version knows others only is one as good as they, whatever it is in."""
    with a_server_that_answers([ANNOTATION | {"source": "committee", "verdict": "DISPUTED"}]) as url:
        listed = run("annotations", "list", "--server", url)
    assert (listed.exit_code, "CORRECT" in listed.output) == (0, True)


def test_a_field_that_is_needed_is_named_with_the_version() -> None:
    """The error names the missing field, the version that needs it, and the place of the server's own version."""
    with a_server_that_answers([{name: value for name, value in ANNOTATION.items() if name != "author"}]) as url:
        listed = run("annotations", "list", "--server", url)
    assert listed.exit_code == 1
    for text in ("has no author", f"tracejury {version('tracejury')} needs", "/openapi.json"):
        assert text in listed.output


def test_the_status_of_the_first_release_is_printed(tmp_path: Path) -> None:
    """Its answers lack what later versions count."""
    with a_server(tmp_path) as server:
        status: dict[str, Any] = json.loads(run("status", "--json", "--server", f"http://{server.http}").output)
    for part, name in (("server", "dropped"), ("rules", "comparingAnew"), ("jobs", "tried")):
        del status[part][name]
    with a_server_that_answers(status) as url:
        printed = run("status", "--server", url)
    assert (printed.exit_code, "0 active rules" in printed.output) == (0, True)
