"""A server for tests of datasets and runs, and helpers for its requests."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from collector.app import Running
from tests.live import a_client
from tests.serving import a_server

LINES = {"content-type": "application/x-ndjson"}


class Offline:
    """The API of a running server."""

    def __init__(self, url: str, client: httpx.Client, running: Running | None = None) -> None:
        self.url = url
        self.running = running
        self._client = client

    def answer(self, method: str, path: str, **content: Any) -> httpx.Response:
        """Send a request; return the response with any status."""
        return self._client.request(method, f"{self.url}/api/v1/{path}", **content)

    def ask(self, method: str, path: str, status: int = 200, **content: Any) -> Any:
        """Send a request; return the document of a response with that status."""
        response = self.answer(method, path, **content)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    def begin(self, project: str = "shop", **more: Any) -> str:
        """Begin a run; return its id."""
        made = self.ask("POST", f"projects/{project}/runs", 201, json={"experimentName": "qa", **more})
        return str(made["runId"])

    def report(self, run: str, *items: Mapping[str, Any], status: int = 201, **headers: str) -> Any:
        """Report items of a run."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", f"runs/{run}/items", status, json={"items": [*items]}, headers=named)

    def end(self, run: str, status: str = "SUCCESS", answered: int = 200, **more: Any) -> Any:
        """Let a run have ended."""
        return self.ask("PATCH", f"runs/{run}", answered, json={"status": status, **more})

    def sql(self, statement: str) -> Any:
        """Query the server; return the rows."""
        return self.ask("POST", "sql", json={"sql": statement})["rows"]

    def dataset(self, name: str = "qa", **text: Any) -> Any:
        """Create a dataset."""
        return self.ask("POST", "datasets", 201, json={"name": name, **text})

    def version(self, *items: Mapping[str, Any], name: str = "qa", status: int = 201, **more: Any) -> Any:
        """Create a version with these items."""
        return self.ask("POST", f"datasets/{name}/versions", status, json={"items": [*items], **more})

    def items(self, name: str = "qa", version: object = "latest") -> list[dict[str, Any]]:
        """Return the items of a version, at most a thousand."""
        content: list[dict[str, Any]] = self.ask("GET", f"datasets/{name}/versions/{version}/items?size=1000")[
            "content"
        ]
        return content

    def imported(self, content: bytes | str, form: str = "jsonl", status: int = 201, **more: str) -> Any:
        """Import a file into the dataset `qa`."""
        parameters = {"format": form, **more}
        return self.ask("POST", "datasets/qa/import", status, content=content, params=parameters, headers=LINES)

    def exported(self, form: str, name: str = "qa", version: object = "latest") -> bytes:
        """Export a version as a file."""
        response = self.answer("GET", f"datasets/{name}/versions/{version}/export?format={form}")
        assert response.status_code == httpx.codes.OK, response.text
        return response.content


@contextmanager
def an_offline_server(data: Path, **settings: Any) -> Iterator[Offline]:
    """Yield the real server without keys."""
    with a_server(data, **settings) as running, a_client() as client:
        yield Offline(f"http://{running.http}", client, running)


def lines(*items: Mapping[str, Any]) -> str:
    """Return items as JSONL."""
    return "".join(f"{json.dumps(item)}\n" for item in items)
