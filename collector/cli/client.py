"""The client of the API that all commands use: a server, or a data directory that no server holds."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import click
import httpx

from collector.api_calls import Listing, Refused, Value, document_of, error_of, foreign, texts_of
from collector.cli.connecting import (
    DEFAULT_SERVER,
    KEY_VARIABLE,
    Document,
    NoAnswer,
    ServerUnreachable,
    address_of,
    chosen_server,
    connect,
    default_server,
    listens,
    reachable,
    unreachable,
)
from collector.cli.options import read_settings
from collector.cli.whole_file import whole_file
from collector.escaping import file_problem, one_line, some_lines

if TYPE_CHECKING:
    from collector.settings import Settings
    from storage.store import Store

_CHUNK_BYTES: Final = 1 << 18
LONG_S: Final = 3_600
"""Timeout of requests whose duration depends on the amount of data. A guess."""


class ServerClient:
    """A client of the API. An error, or a response that is not of the API, ends the command with a message."""

    def __init__(self, client: httpx.Client, *, is_local: bool = False) -> None:
        """Wrap a client; `is_local` is for a data directory, which has no URL."""
        self._client, self._is_local = client, is_local

    def send(self, method: str, path: str, **content: object) -> httpx.Response:
        """Return the response, whatever its status.

        Raises:
            ServerUnreachable: the server did not respond.
        """
        try:
            return self._client.request(method, path, **content)  # type: ignore[arg-type] # params=, json= or timeout=
        except httpx.RequestError as error:
            raise unreachable(self._client, error) from error

    def content(self, response: httpx.Response) -> object:
        """Return the document of a response; None if it has none."""
        with self._refusing():
            return document_of(response, self.address)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except Refused as error:
            key = (
                f"; {KEY_VARIABLE} holds the key that commands send" if error.status == httpx.codes.UNAUTHORIZED else ""
            )
            raise NoAnswer(some_lines(f"{error}{key}")) from error

    @contextmanager
    def stream(self, method: str, path: str, params: Mapping[str, str] | None = None) -> Iterator[httpx.Response]:
        """Open a response that is read piece by piece.

        Raises:
            click.ClickException: the server refuses or does not respond.
        """
        try:
            with self._client.stream(method, path, params=params, timeout=LONG_S) as response:
                if not response.is_success:
                    response.read()
                    self.content(response)
                yield response
        except httpx.RequestError as error:
            raise unreachable(self._client, error) from error

    def get(self, path: str, **parameters: Value) -> object:
        """Return a document, or a list of documents.

        Raises:
            click.ClickException: the server refuses or does not respond; so do the other methods.
        """
        return self._ask("GET", path, params=texts_of(parameters))

    def find(self, path: str) -> Document | None:
        """Return a document, or None if the path has none."""
        response = self.send("GET", path)
        if response.status_code == httpx.codes.NOT_FOUND and error_of(response):
            return None
        return self._object(self.content(response))

    def document(self, method: str, path: str, **content: object) -> Document:
        """Send a request; return the document of the response."""
        return self._object(self._ask(method, path, **content))

    def _object(self, document: object) -> Document:
        if not isinstance(document, dict):
            raise NoAnswer(str(foreign(self.address)))
        return document

    def whole(self, path: str) -> list[object]:
        """Return a whole list, page by page."""
        content: list[object] = []
        place = path
        while place:
            response = self.send("GET", place)
            page = self.content(response)
            if not isinstance(page, list):
                raise NoAnswer(str(foreign(self.address)))
            content += page
            more = httpx.URL(response.links.get("next", {}).get("url", "")).query  # no other host: keys go along
            place = f"{path}?{more.decode()}" if more else ""
        return content

    def listed(self, path: str, limit: int, key: str = "id", /, **parameters: Value) -> list[object]:
        """Return the first `limit` items of a paged list."""
        listing = Listing(limit, key)
        while not listing.is_whole:
            page = self.document("GET", path, params=texts_of({**parameters, **listing.page}))
            with self._refusing():
                listing.add(page, self.address)
        return listing.documents

    def post(self, path: str, body: Mapping[str, object] | None = None) -> object:
        """Send a POST request; return the document of the response."""
        return self._ask("POST", path, json=body)

    def put(self, path: str, body: Mapping[str, object]) -> object:
        """Replace a record; return it."""
        return self._ask("PUT", path, json=body)

    def patch(self, path: str, body: Mapping[str, object]) -> object:
        """Change part of a record; return the document of the response."""
        return self._ask("PATCH", path, json=body)

    def delete(self, path: str) -> None:
        """Delete a record."""
        self._ask("DELETE", path)

    @property
    def address(self) -> str:
        """Return the URL of the server for messages."""
        return address_of(self._client)

    def link(self, path: str) -> str:
        """Return the URL of a page for a browser; for a data directory, the path."""
        return path if self._is_local else f"{self.address}{path}"

    def _ask(self, method: str, path: str, **content: object) -> object:
        return self.content(self.send(method, path, **content))


class DamagedData(ServerUnreachable):
    """The data directory is damaged and cannot be opened."""

    def __init__(self, data: Path, error: Exception) -> None:
        check = f"run `tracejury check {shlex.quote(str(data))}`, which names the commands that help"
        super().__init__(one_line(f"{error}; {check}"))
        self.data = data


class StoppedData:
    """A data directory without a running server; commands see the rows of all tenants."""

    def __init__(self, settings: "Settings", *, is_named: bool) -> None:
        self.settings, self._is_named = settings, is_named

    @contextmanager
    def store(self) -> Iterator["Store"]:
        """Open the directory, which has to exist.

        Raises:
            click.ClickException: the directory cannot be opened, or the block raises a StorageError.
        """
        from storage.engine.damage import is_damage_text
        from storage.errors import Damaged, StorageError, Unusable

        try:
            with self._open() as store:
                yield store
        except StorageError as error:
            is_damage = isinstance(error, Damaged) or (isinstance(error, Unusable) and is_damage_text(str(error)))
            if is_damage:
                raise DamagedData(self.settings.data, error) from error
            raise NoAnswer(some_lines(str(error))) from error

    @contextmanager
    def client(self) -> Iterator[ServerClient]:
        """Open a client of the API over the directory.

        Raises:
            click.ClickException: as `store`.
        """
        from collector.local_api import operating

        with self.store() as store, operating(self.settings, store) as client:
            yield ServerClient(client, is_local=True)

    def _open(self) -> "Store":
        from collector.local_api import NoData, open_to_read

        try:
            return open_to_read(self.settings)
        except NoData as error:
            nowhere = "" if self._is_named else f"no server answers at {DEFAULT_SERVER} and "
            raise ServerUnreachable(one_line(f"{nowhere}{error}")) from error
        except OSError as error:
            raise ServerUnreachable(file_problem(error, self.settings.data)) from error


@contextmanager
def find_data(server: str | None, data: Path | None) -> Iterator[ServerClient | StoppedData]:
    """Yield the server that the options or the environment name, or the one that holds the directory, or the directory.

    Without any of them, yield the default server if it listens, else the default directory.

    Raises:
        click.ClickException: neither can be opened.
    """
    named = chosen_server() if server is None and data is None else server
    if named is not None:
        with connect(named) as client:
            yield ServerClient(client)
        return
    if data is None:
        with connect(DEFAULT_SERVER) as client:
            if listens(client):
                yield ServerClient(client)
                return
    settings = read_settings(None, {} if data is None else {"data": data})
    holder = _holder_of(settings)
    if holder is None:
        yield StoppedData(settings, is_named=data is not None)
    else:
        with connect(holder) as client:
            yield ServerClient(client)


@contextmanager
def open_source(server: str | None, data: Path | None) -> Iterator[ServerClient]:
    """Open a client of the server or directory that `find_data` finds.

    Raises:
        click.ClickException: neither can be opened.
    """
    with find_data(server, data) as source:
        if isinstance(source, ServerClient):
            yield source
        else:
            with source.client() as client:
                yield client


@contextmanager
def open_server(server: str | None, data: Path | None) -> Iterator[ServerClient]:
    """Open a client of the server at a URL, of the one that holds a data directory, or of the default server.

    Raises:
        click.ClickException: no such server runs.
    """
    url = server or default_server()
    if data is not None:
        holder = _holder_of(read_settings(None, {"data": data}))
        if holder is None:
            raise ServerUnreachable(f"no server holds {one_line(str(data))}; start one with `tracejury serve`")
        url = holder
    with connect(url) as client:
        yield ServerClient(client)


def _holder_of(settings: "Settings") -> str | None:
    from storage.engine.lock import read_holder

    holder = read_holder(settings.data)
    return reachable(holder["http"]) if holder is not None and holder.get("http") else None


def download(server: str, place: str, parameters: Mapping[str, str], file: Path) -> None:
    """Write a response to a file, and print its size.

    Raises:
        click.ClickException: the server refuses or does not respond, or the file cannot be written.
    """
    fetch(server, place, parameters, file)
    click.echo(f"{one_line(str(file))}: {file.stat().st_size:,} bytes", err=True)


def fetch(server: str, place: str, parameters: Mapping[str, str], file: Path) -> None:
    """Write a response to a file. It is written under a temporary name, and renamed once complete.

    Raises:
        click.ClickException: as `download`.
    """
    try:
        with whole_file(file) as target, open_server(server, None) as client:
            _write(client, place, parameters, target)
    except OSError as error:
        raise click.ClickException(f"{one_line(str(file))} cannot be written: {error.strerror}") from error


def _write(client: ServerClient, place: str, parameters: Mapping[str, str], target: BinaryIO) -> None:
    with client.stream("GET", place, parameters) as response:
        target.writelines(response.iter_bytes(_CHUNK_BYTES))
