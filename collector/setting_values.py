"""Types of setting values, with their validation."""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field, SecretStr
from pydantic.functional_validators import AfterValidator

from collector.connection_text import BadText, parse_file_connections, parse_project_budgets
from collector.conventions.own_keys import OwnKeys
from collector.conventions.prices import price_table
from collector.secrets import LEAST_CHARACTERS, as_key

_LAST_PORT: Final = 65535
_PATH_PREFIX: Final = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")
_API_KEY: Final = re.compile(r"[!-~]{16,200}")


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > _LAST_PORT:
        msg = "must be HOST:PORT, as in 127.0.0.1:4317 or [::1]:4317; port 0 picks one"
        raise ValueError(msg)
    return text


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        msg = "must be an address or a network, as in 10.0.0.7 or 10.1.0.0/16"
        raise ValueError(msg) from None


def _path_prefix(text: str) -> str:
    if text and not _PATH_PREFIX.fullmatch(text):
        msg = "must begin with / and not end with it, as in /tools/tracejury; letters, digits and -._ are allowed"
        raise ValueError(msg)
    return text


def _read(text: str) -> None:
    from evaluators.chat.urls import read_url  # noqa: PLC0415 - the HTTP client takes a while to load

    read_url(text)


def _endpoint(text: str) -> str:
    _read(text)
    url = urlsplit(text)
    if url.scheme not in {"http", "https"} or not url.hostname or url.username or url.query or url.fragment:
        msg = "must be a whole URL, as in https://collector.example.com/v1/logs, without a user, a query or a fragment"
        raise ValueError(msg)
    return text


def is_grpc(url: str) -> bool:
    """Return True if an endpoint's URL is for gRPC."""
    return url.startswith(("grpc://", "grpcs://"))


def _results_endpoint(text: str) -> str:
    if not is_grpc(text):
        return _endpoint(text)
    _read(text)
    url = urlsplit(text)
    if not url.hostname or "@" in url.netloc or url.path or url.query or url.fragment or not _may_be(url.netloc):
        msg = "must be scheme, host and port for gRPC, as in grpcs://collector.example.com:4317, and nothing else"
        raise ValueError(msg)
    return text


def _lake(text: str) -> str:
    scheme, separator, place = text.partition("://")
    if separator and (scheme != "s3" or not place.strip("/") or set(place) & set("?#@")):
        msg = "must be s3://BUCKET/PREFIX or a directory; credentials and endpoint are variables of the environment"
        raise ValueError(msg)
    if not separator and not Path(text).is_absolute():
        msg = "must be a whole path, such as /srv/lake, or s3://BUCKET/PREFIX"
        raise ValueError(msg)
    return text


def _may_be(place: str) -> bool:
    _, colon, port = place.rpartition("]")[2].partition(":")
    return not colon or (port.isascii() and port.isdecimal() and 0 < int(port) <= _LAST_PORT)


def _api_key(secret: SecretStr) -> SecretStr:
    if not _API_KEY.fullmatch(secret.get_secret_value()):
        msg = "must be 16 to 200 visible ASCII characters without spaces; `openssl rand -hex 32` makes a good one"
        raise ValueError(msg)
    return secret


def _encryption_key(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if as_key(text) is None and len(text) < LEAST_CHARACTERS:
        msg = f"must be 32 bytes in hex or base64, or a passphrase of at least {LEAST_CHARACTERS} characters"
        raise ValueError(msg)
    return secret


def _keys(projects: dict[str, dict[str, tuple[str, ...]]]) -> dict[str, dict[str, tuple[str, ...]]]:
    OwnKeys(projects)  # raises an error for an unknown field
    return projects


def _scopes(projects: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    for project, scopes in projects.items():
        for scope in scopes:
            if not project or not scope.removesuffix("*").strip() or "*" in scope[:-1]:
                raise ValueError(
                    f"project {project!r}: {scope!r} is not the name of a scope, optionally with a * at its end"
                )
    return projects


def _prices(prices: dict[str, dict[str, float]] | None) -> dict[str, dict[str, float]] | None:
    price_table(prices)  # raises an error if a price is not valid
    return prices


def _parsed_by(parse: Callable[[object], object]) -> AfterValidator:
    """Return a validator that parses a value, which is parsed again on use."""

    def check(documents: dict[str, Any]) -> dict[str, Any]:
        try:
            parse(documents)
        except BadText as error:
            raise ValueError(str(error)) from None
        return documents

    return AfterValidator(check)


Address = Annotated[str, AfterValidator(_address)]
AttributeKeys = Annotated[dict[str, dict[str, tuple[str, ...]]], AfterValidator(_keys)]
DropScopes = Annotated[dict[str, tuple[str, ...]], AfterValidator(_scopes)]
ModelPrices = Annotated[dict[str, dict[str, float]] | None, AfterValidator(_prices)]
ConnectionDocuments = Annotated[dict[str, Any], _parsed_by(parse_file_connections)]
BudgetDocuments = Annotated[dict[str, Any], _parsed_by(parse_project_budgets)]
ApiKey = Annotated[SecretStr, AfterValidator(_api_key)]
Bytes = Annotated[int, Field(ge=1024, le=1 << 40)]
EncryptionKey = Annotated[SecretStr, AfterValidator(_encryption_key)]
Network = Annotated[str, AfterValidator(_network)]
PathPrefix = Annotated[str, AfterValidator(_path_prefix)]
OtlpUrl = Annotated[str, AfterValidator(_endpoint)]
LakeUri = Annotated[str, AfterValidator(_lake)]
ResultsUrl = Annotated[str, AfterValidator(_results_endpoint)]
Headers = dict[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")], Annotated[str, Field(min_length=1)]
]
"""HTTP headers, with the names of the variables that hold their values."""


_SIZE: Final = re.compile(r"([\d.]++)\s?(\w+)")
_UNITS: Final = {"MB": 10**6, "MiB": 1 << 20, "GB": 10**9, "GiB": 1 << 30}
_LEAST_MEMORY: Final = "32MB"
"""DuckDB could open a new file with 16 MB, but not with 8 MB; the rest is for the stored data."""


def bytes_of_size(size: str) -> int:
    """Parse a size in bytes."""
    number, unit = _SIZE.fullmatch(size).groups()  # type: ignore[union-attr] # the pattern is that of `Size`
    return int(float(number) * _UNITS[unit])


def _enough_memory(size: str) -> str:
    if bytes_of_size(size) < bytes_of_size(_LEAST_MEMORY):
        msg = f"must be {_LEAST_MEMORY} or more, since DuckDB may not open its file with less; 256MB is a good start"
        raise ValueError(msg)
    return size


Size = Annotated[str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9})?\s?(MB|MiB|GB|GiB)$"), AfterValidator(_enough_memory)]
"""An amount of memory in the notation of DuckDB: `512MB`, `1.5 GiB`."""
