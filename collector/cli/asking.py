"""Requests of the commands that need a running server, because they change something or look at what it does."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
from pydantic import BaseModel

from collector.cli.answer_view import read_view
from collector.cli.connecting import ServerRequests, ServerUnreachable, connect, default_server, json_of, reachable
from collector.cli.directory import read_settings
from collector.visible import one_line


class ServerClient(ServerRequests):
    """A running server, over its HTTP API."""

    def get(self, path: str, **parameters: str | int | None) -> object:
        """What is there.

        Raises:
            click.ClickException: nothing is, or nobody answers.
        """
        return self._ask("GET", path, params={name: value for name, value in parameters.items() if value is not None})

    def whole(self, path: str) -> list[object]:
        """A list, whole: its pages one after the other.

        Raises:
            click.ClickException: it is no list, or nobody answers.
        """
        found: list[object] = []
        place = path
        while place:
            response, page = self._answer("GET", place)
            if not isinstance(page, list):
                raise self.refusal(response)
            found += page
            more = httpx.URL(response.links.get("next", {}).get("url", "")).query  # nothing else of it: keys go along
            place = f"{path}?{more.decode()}" if more else ""
        return found

    def post(self, path: str, body: Mapping[str, object] | None = None) -> object:
        """What came of it.

        Raises:
            click.ClickException: nothing did, or nobody answers.
        """
        return self._ask("POST", path, json=body)

    def put(self, path: str, body: Mapping[str, object]) -> object:
        """What it is from here on.

        Raises:
            click.ClickException: it was refused, or nobody answers.
        """
        return self._ask("PUT", path, json=body)

    def patch(self, path: str, body: Mapping[str, object]) -> object:
        """What came of changing some of it.

        Raises:
            click.ClickException: it was refused, or nobody answers.
        """
        return self._ask("PATCH", path, json=body)

    def delete(self, path: str) -> None:
        """Have it gone.

        Raises:
            click.ClickException: it was refused, or nobody answers.
        """
        self._ask("DELETE", path)

    def listed(self, path: str, limit: int, **parameters: str | None) -> list[object]:
        """The first `limit` of a list that comes in pages.

        Raises:
            click.ClickException: it is no such list, or nobody answers.
        """
        found: list[object] = []
        while len(found) < limit:
            size = min(limit, _PAGE)
            page = read_view(_ListPage, self.get(path, page=len(found) // size, size=size, **parameters))
            found += page.content
            if page.last or not page.content:
                break
        return found[:limit]

    def _ask(self, method: str, path: str, **content: object) -> object:
        return self._answer(method, path, **content)[1]

    def _answer(self, method: str, path: str, **content: object) -> tuple[httpx.Response, object]:
        response = self.send(method, path, **content)
        document = json_of(response)
        if response.is_success and (document is not None or response.status_code == httpx.codes.NO_CONTENT):
            return response, document
        raise self.refusal(response)


_PAGE = 100


class _ListPage(BaseModel):
    content: list[object]
    last: bool


@contextmanager
def open_server(server: str | None, data: Path | None) -> Iterator[ServerClient]:
    """The server that the options name: at a URL, or the one that holds a data directory; without any, the default.

    Raises:
        click.ClickException: there is none.
    """
    from storage.engine.lock import read_holder

    url = server or default_server()
    if data is not None:
        holder = read_holder(read_settings(None, {"data": data}).data)
        if holder is None or not holder.get("http"):
            raise ServerUnreachable(f"no server holds {one_line(str(data))}; start one with `tracejury serve`")
        url = reachable(holder["http"])
    with connect(url) as client:
        yield ServerClient(client)
