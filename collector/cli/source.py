"""Where the commands read from: a running server, or the data directory when none runs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias
from urllib.parse import quote, urlsplit

import click
import httpx

from collector.cli.text import one_line, some_lines

if TYPE_CHECKING:
    from collector.settings import Settings
    from storage.queries import Queries

DEFAULT_SERVER = "http://127.0.0.1:8080"
PAGE_TRACES = 100
"""Traces asked for at a time. A guess."""

_CONNECT_TIMEOUT_S = 3
_ANSWER_TIMEOUT_S = 120
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - where such a server is found, nothing binds

Document = Mapping[str, object]
Parameters: TypeAlias = Mapping[str, str | float | bool | None]
NO_PARAMETERS: Final[Parameters] = MappingProxyType({})


class Source(Protocol):
    """What the commands ask. Documents are those of the HTTP API."""

    def traces(self, *, project: str | None, limit: int) -> list[Document]:
        """The newest traces."""

    def trace(self, trace_id: str) -> Document | None:
        """One trace with its spans."""

    def otlp(self, trace_id: str) -> Document | None:
        """One trace as an OTLP/JSON export request."""

    def sql(self, statement: str, parameters: Parameters = NO_PARAMETERS) -> Document:
        """The answer to a query; `parameters` are what its `$name`s stand for."""


class Unreachable(click.ClickException):
    """Nothing listens at the address."""


class NoAnswer(click.ClickException):
    """The answer is an error, or not one of our server."""


@contextmanager
def open_source(server: str | None, data: Path | None) -> Iterator[Source]:
    """The source that the options name; without any, the default server, else the default data directory.

    Raises:
        click.ClickException: there is none, said in one sentence.
    """
    if server is not None:
        with connect(server) as client:
            yield Server(client)
        return
    if data is None:
        with connect(DEFAULT_SERVER) as client:
            if _listens(client):
                yield Server(client)
                return
    with _open_directory(data) as source:
        yield source


class Server:
    """A running server, over its HTTP API."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def traces(self, *, project: str | None, limit: int) -> list[Document]:
        """The newest traces, page by page; one that moved to the next page meanwhile counts once."""
        found: dict[object, Document] = {}
        size, page = min(limit, PAGE_TRACES), 0
        while len(found) < limit:
            wanted = {"page": page, "size": size} | ({} if project is None else {"project": project})
            answer = self._ask("GET", "/api/v1/traces", params=wanted)
            content = answer.get("content")
            if not isinstance(content, list):
                raise self._not_ours()
            found |= {trace.get("traceId"): trace for trace in content if isinstance(trace, dict)}
            if answer.get("last") is not False:
                break
            page += 1
        return list(found.values())[:limit]

    def trace(self, trace_id: str) -> Document | None:
        """One trace with its spans."""
        return self._find(f"/api/v1/traces/{quote(trace_id, safe='')}")

    def otlp(self, trace_id: str) -> Document | None:
        """One trace as an OTLP/JSON export request."""
        return self._find(f"/api/v1/traces/{quote(trace_id, safe='')}/otlp")

    def sql(self, statement: str, parameters: Parameters = NO_PARAMETERS) -> Document:
        """The answer to a query."""
        return self._ask("POST", "/api/v1/sql", json={"sql": statement, "parameters": dict(parameters)})

    def _find(self, path: str) -> Document | None:
        response = self._send("GET", path)
        if response.status_code == httpx.codes.NOT_FOUND and _error(response):
            return None
        return self._document(response)

    def _ask(self, method: str, path: str, **content: object) -> Document:
        return self._document(self._send(method, path, **content))

    def _send(self, method: str, path: str, **content: object) -> httpx.Response:
        try:
            return self._client.request(method, path, **content)  # type: ignore[arg-type] # params= or json=
        except httpx.TransportError as error:
            raise unreachable(self._client, error) from error

    def _document(self, response: httpx.Response) -> Document:
        if response.is_success:
            document = _json(response)
            if isinstance(document, dict):
                return document
        reason = _error(response)
        if reason:
            raise NoAnswer(some_lines(reason))
        raise self._not_ours()

    def _not_ours(self) -> NoAnswer:
        return NoAnswer(f"what answers at {_address(self._client)} is not a Tracejury server")


class Directory:
    """A data directory that no server holds, opened for the time of one command."""

    def __init__(self, queries: "Queries", settings: "Settings") -> None:
        self._queries = queries
        self._settings = settings

    def traces(self, *, project: str | None, limit: int) -> list[Document]:
        """The newest traces."""
        from collector.api.documents import summary_document

        return [summary_document(summary) for summary in self._queries.newest_traces(project=project, limit=limit)]

    def trace(self, trace_id: str) -> Document | None:
        """One trace with its spans."""
        from collector.api.documents import trace_document
        from collector.conventions.own import OwnKeys
        from collector.conventions.trace import read_trace

        trace = self._queries.trace(trace_id)
        own_keys = OwnKeys(self._settings.attribute_keys)
        return trace_document(trace, read_trace(trace.spans, trace.logs, own_keys)) if trace else None

    def otlp(self, trace_id: str) -> Document | None:
        """One trace as an OTLP/JSON export request."""
        from collector.otlp.encode import json_request

        trace = self._queries.trace(trace_id)
        return json_request(trace) if trace else None

    def sql(self, statement: str, parameters: Parameters = NO_PARAMETERS) -> Document:
        """The answer to a query."""
        from collector.api.documents import table_document
        from storage.errors import BadQuery

        try:
            rows, seconds = self._settings.sql_rows, self._settings.sql_seconds
            return table_document(self._queries.sql(statement, parameters, max_rows=rows, timeout_s=seconds))
        except BadQuery as error:
            raise NoAnswer(some_lines(str(error))) from error


@contextmanager
def _open_directory(chosen: Path | None) -> Iterator[Source]:
    """The server that holds the directory, or the directory itself; it is never created."""
    from storage.database import FILE_NAME
    from storage.errors import Unusable
    from storage.lock import read_holder
    from storage.store import Store

    settings = read_settings(None, {} if chosen is None else {"data": chosen})
    data = settings.data
    holder = read_holder(data)
    if holder is not None and holder.get("http"):
        with connect(_reachable(holder["http"])) as client:
            yield Server(client)
        return
    if not (data / FILE_NAME).exists():
        nowhere = "" if chosen else f"no server answers at {DEFAULT_SERVER} and "
        raise Unreachable(f"{nowhere}there is no data in {one_line(str(data))}; start a server with `tracejury serve`")
    try:
        store = Store.open(data)
    except Unusable as error:
        raise Unreachable(str(error)) from error
    with store:
        yield Directory(store.queries, settings)


def read_settings(file: Path | None, flags: Mapping[str, object]) -> "Settings":
    """The settings.

    Raises:
        click.ClickException: they cannot be used, with the keys that are wrong.
    """
    from collector.settings import BadSettings, load_settings

    try:
        return load_settings(file, flags)
    except BadSettings as error:
        raise click.ClickException(one_line(str(error))) from error


def _reachable(address: str) -> str:
    """Where to connect to a server that says it listens at `address`."""
    parts = urlsplit(address if "://" in address else f"http://{address}")
    host, _, port = parts.netloc.rpartition(":")
    return f"{parts.scheme}://{_ANY_ADDRESS.get(host, host)}:{port}"


@contextmanager
def connect(server: str) -> Iterator[httpx.Client]:
    """A client; a server on this machine is never asked through a proxy."""
    url = server if "://" in server else f"http://{server}"
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise click.BadParameter(f"{server!r} is not a URL such as {DEFAULT_SERVER}", param_hint="--server")
    timeout = httpx.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
    with httpx.Client(base_url=url, timeout=timeout, trust_env=parts.hostname not in _LOOPBACK) as client:
        yield client


def _listens(client: httpx.Client) -> bool:
    try:
        client.get("/health")
    except httpx.ConnectError:
        return False
    except httpx.TransportError as error:
        raise unreachable(client, error) from error
    return True


def unreachable(client: httpx.Client, error: Exception) -> Unreachable:
    """What to say when a request got no answer."""
    return Unreachable(f"no server answers at {_address(client)} ({one_line(str(error) or type(error).__name__)})")


def _address(client: httpx.Client) -> str:
    return one_line(str(client.base_url).rstrip("/"))


def _json(response: httpx.Response) -> object:
    try:
        document: object = response.json()
    except ValueError:
        return None
    return document


def _error(response: httpx.Response) -> str | None:
    """The sentence of an error answer of our API."""
    document = _json(response)
    reason = document.get("error") if isinstance(document, dict) else None
    return reason if isinstance(reason, str) else None
