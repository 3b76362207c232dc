"""Servers with keys, and requests with each key."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx

from collector.app import Running
from tests.answers import check_answer
from tests.live import NO_TLS
from tests.serving import a_server

OPERATOR_KEY = "operator-key-of-the-tests"
WRONG_KEY = "tj_this-is-no-key-of-any-server-at-all"
TRACE_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A server that asks for keys, and a key of each kind."""

    running: Running
    keys: dict[str, str]  # by their names in the tests

    def ask(self, method: str, path: str, *, key: str | None = None, **content: Any) -> httpx.Response:
        """Send a request with this key."""
        return request(f"http://{self.running.http}{path}", method, key=key, **content)


@contextmanager
def a_closed_server(data: Path, **settings: Any) -> Iterator[Closed]:
    """Start a server with the operator's key and one of each role, the latter also for tenants `acme` and `other`."""
    with a_server(data, api_key=OPERATOR_KEY, **settings) as running:
        keys = {"operator": OPERATOR_KEY}
        for tenant in (None, "acme", "other"):
            for role in ("VIEWER", "EDITOR", "ADMIN", "INGEST", "REVIEWER"):
                name = role.lower() if tenant is None else f"{role.lower()} of {tenant}"
                fields = {"name": name, "role": role, "tenantId": tenant}
                made = request(f"http://{running.http}/api/v1/api-keys", "POST", key=OPERATOR_KEY, json=fields)
                assert made.status_code == 201, made.text
                keys[name] = made.json()["key"]
        yield Closed(running=running, keys=keys)


def request(
    url: str,
    method: str = "GET",
    *,
    key: str | None = None,
    source: str = "",
    headers: dict[str, str] | None = None,
    **content: Any,
) -> httpx.Response:
    """Send a request and check the response against the contract; `source` is the local address to send from."""
    shown = {} if key is None else {"authorization": f"Bearer {key}"}
    transport = httpx.HTTPTransport(verify=NO_TLS, trust_env=False, local_address=source or None)
    with httpx.Client(transport=transport, trust_env=False, timeout=30) as client:
        return check_answer(client.request(method, url, headers=shown | (headers or {}), **content))


def call(address: str, message: bytes = b"", *, key: str | None = None, path: str = TRACE_EXPORT) -> grpc.StatusCode:
    """Return the status that a gRPC call ends with."""
    with grpc.insecure_channel(address) as channel:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
        try:
            method(message, metadata=() if key is None else (("authorization", f"Bearer {key}"),), timeout=30)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
    return grpc.StatusCode.OK
