"""The least value of each setting: a server that has them works."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from collector.settings import Settings
from tests.live import until
from tests.serving import a_server, an_export, post

SIZES = ("bytes", "memory")


def least() -> Iterator[tuple[str, Any]]:
    """Yield the least value of each number and size of the settings."""
    yield "duckdb_memory", "32MB"
    for name, schema in Settings.model_json_schema()["properties"].items():
        for each in (schema, *schema.get("anyOf", ())):
            if "minimum" in each and not name.startswith("key_"):  # what a key may send is refused above it
                yield name, each["minimum"]


@pytest.mark.parametrize("of_sizes", [True, False], ids=["sizes", "other numbers"])
def test_a_server_with_the_least_values_works(tmp_path: Path, *, of_sizes: bool) -> None:
    """With the least sizes, and with the least of all other numbers, a server takes spans and shows them."""
    settings = {name: value for name, value in least() if name.endswith(SIZES) is of_sizes}
    assert len(settings) > 5
    with a_server(tmp_path / "data", **settings) as server, grpc.insecure_channel(server.grpc) as channel:
        post(f"http://{server.otlp_http}/v1/traces", an_export("a" * 32, "over HTTP").SerializeToString())

        def stored() -> dict[str, object]:
            body = {"sql": "SELECT count(*) FROM spans"}
            reply = httpx.post(f"http://{server.http}/api/v1/sql", json=body, trust_env=False, timeout=20)
            return dict(reply.json())

        until(stored, lambda reply: reply.get("rows") == [[1]])  # before it, little room is full
        export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
        )
        export(an_export("b" * 32, "over gRPC").SerializeToString(), timeout=20)
        until(stored, lambda reply: reply.get("rows") == [[2]])
        assert httpx.get(f"http://{server.http}/traces", trust_env=False, timeout=20).is_success
