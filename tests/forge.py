"""A server that speaks as much of GitHub's and GitLab's API of comments as the gate needs."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token"
COMMENTS = re.compile(r"/repos/me/agent/issues/7/comments|/projects/3/merge_requests/7/notes")
ONE = re.compile(r"/repos/me/agent/issues/comments/(\d+)|/projects/3/merge_requests/7/notes/(\d+)")


class Forge(ThreadingHTTPServer):
    """The comments of one request, and the received requests."""

    daemon_threads = True

    def __init__(self, *, read_only: bool = False) -> None:
        self.comments: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str]] = []
        self.read_only = read_only
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """Responses as the two services document them."""

    server: Forge

    def do_GET(self) -> None:
        """Send a page of comments."""
        if self._may(reading=True) and COMMENTS.fullmatch(urlsplit(self.path).path):
            query = parse_qs(urlsplit(self.path).query)
            size, page = int(query["per_page"][0]), int(query["page"][0])
            self._answer(200, self.server.comments[(page - 1) * size : page * size])
        else:
            self._answer(404, {"message": "Not Found"})

    def do_POST(self) -> None:
        """Create a comment."""
        if not self._may(reading=False):
            self._answer(403, {"message": "Resource not accessible by integration"})
            return
        comment = {"id": 1000 + len(self.server.comments), "body": self._body()["body"]}
        self.server.comments.append(comment)
        self._answer(201, comment)

    def _change(self) -> None:
        matched = ONE.fullmatch(self.path)
        if not self._may(reading=False) or matched is None:
            self._answer(403, {"message": "Resource not accessible by integration"})
            return
        number = int(matched[1] or matched[2])
        comment = next(each for each in self.server.comments if each["id"] == number)
        comment["body"] = self._body()["body"]
        self._answer(200, comment)

    def do_PATCH(self) -> None:
        """Change a comment, as on GitHub."""
        self._change()

    def do_PUT(self) -> None:
        """Change a comment, as on GitLab."""
        self._change()

    def _may(self, *, reading: bool) -> bool:
        self.server.requests.append((self.command, self.path))
        known = {self.headers.get("Authorization"), self.headers.get("PRIVATE-TOKEN")} & {f"Bearer {TOKEN}", TOKEN}
        return bool(known) and (reading or not self.server.read_only)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def a_forge(*, read_only: bool = False) -> Iterator[Forge]:
    """Yield the server while it runs."""
    with Forge(read_only=read_only) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
