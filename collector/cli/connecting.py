"""HTTP connections to a server, and their errors."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import click
import httpx

from collector.escaping import one_line
from collector.unanswered import is_tls_problem, no_answer_text

DEFAULT_SERVER = "http://127.0.0.1:8080"
URL_VARIABLE = "TRACEJURY_URL"
KEY_VARIABLE = "TRACEJURY_API_KEY"

_CONNECT_TIMEOUT_S = 3
_ANSWER_TIMEOUT_S = 120
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME, which the module has no name for
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - the address to connect to, nothing binds

Document: TypeAlias = Mapping[str, object]
Parameters: TypeAlias = Mapping[str, str | float | bool | None]


class ServerUnreachable(click.ClickException):
    """No server listens at the URL."""


class NoAnswer(click.ClickException):
    """The response is an error, or not that of a Tracejury server."""


def chosen_server() -> str | None:
    """Return the URL of the server that the environment names, or None."""
    from collector.settings_loading import environment_variable

    return (environment_variable(URL_VARIABLE) or "").strip() or None


def default_server() -> str:
    """Return the default server: that of the environment, or the one on this machine."""
    return chosen_server() or DEFAULT_SERVER


def reachable(address: str) -> str:
    """Return the URL to connect to for a server that listens on `address`."""
    parts = urlsplit(address if "://" in address else f"http://{address}")
    host, _, port = parts.netloc.rpartition(":")
    return f"{parts.scheme}://{_ANY_ADDRESS.get(host, host)}:{port}"


@contextmanager
def connect(server: str) -> Iterator[httpx.Client]:
    """Open a client, which uses no proxy for a server on this machine."""
    with httpx.Client(**_how(server)) as client:
        yield client


def connect_async(server: str) -> httpx.AsyncClient:
    """Return a client for an event loop, which uses no proxy for a server on this machine."""
    return httpx.AsyncClient(**_how(server))


def _how(server: str) -> dict[str, Any]:
    from evaluators.chat.urls import BadUrl, read_url

    url = server if "://" in server else f"http://{server}"
    message = f"{server!r} is not a URL such as {DEFAULT_SERVER}"
    try:
        parts = read_url(url)
    except BadUrl:
        raise click.BadParameter(message, param_hint=f"--server or {URL_VARIABLE}") from None
    if parts.scheme not in {"http", "https"} or not parts.host:
        raise click.BadParameter(message, param_hint=f"--server or {URL_VARIABLE}")
    return {
        "base_url": url,
        "timeout": httpx.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S),
        "trust_env": parts.host not in _LOOPBACK,
        "verify": _trusted(parts.scheme, is_local=parts.host in _LOOPBACK),
        "headers": _key_header(),
    }


def _trusted(scheme: str, *, is_local: bool) -> ssl.SSLContext | bool:
    if scheme == "http":  # a proxy may use TLS; without one, reading all certificates would waste 15 ms
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_local else True
    # OpenSSL reads SSL_CERT_FILE by itself; httpx only if it also takes proxies from the environment.
    context = ssl.create_default_context()
    if is_local:  # an expired certificate must not hide the status, which reports it
        context.verify_flags |= _NO_CHECK_TIME
    return context


def _key_header() -> dict[str, str]:
    """Return the header with the API key of the environment, if there is one."""
    from collector.settings_loading import environment_variable

    key = (environment_variable(KEY_VARIABLE) or "").strip()
    if not key.isascii() or any(character.isspace() for character in key):
        raise click.ClickException(f"{KEY_VARIABLE} is not an API key: a key has no spaces and no letters beyond ASCII")
    return {"authorization": f"Bearer {key}"} if key else {}


def listens(client: httpx.Client) -> bool:
    """Return whether a server listens at the client's URL.

    Raises:
        ServerUnreachable: the request failed otherwise than by a refused connection.
    """
    try:
        client.get("/health")
    except httpx.RequestError as error:
        if isinstance(error, httpx.ConnectError) and not is_tls_problem(error):
            return False
        raise unreachable(client, error) from error
    return True


def unreachable(client: httpx.Client, error: Exception) -> ServerUnreachable:
    """Return the error for a request that got no response."""
    text = no_answer_text(address_of(client), error)
    if client.base_url.scheme == "http" and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        text += "; if it takes TLS, use https://"
    return ServerUnreachable(one_line(text))


def address_of(client: httpx.Client) -> str:
    """Return the URL of the client for messages."""
    return one_line(str(client.base_url).rstrip("/"))
