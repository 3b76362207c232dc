"""Client addresses that proxies forward: trusted from configured networks only, over every listener."""

from pathlib import Path

import grpc
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.access.attempts import ALLOWED
from collector.access.proxies import TrustedProxies
from collector.settings import BadSettings
from collector.settings_loading import load_settings
from tests.access import OPERATOR_KEY, TRACE_EXPORT, call, request
from tests.live import until
from tests.serving import a_server

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/listeners",
    "collector/mcp",
    "collector/settings_loading.py",
    "collector/web",
)

FORGED = "203.0.113.7"


def a_wrong_key(number: int) -> str:
    """Build a key that opens nothing, another one for each number."""
    return f"tj_wrong-key-number-{number:08}"


def guess(listener: str, address: str, number: int, forwarded: str) -> str:
    """Send another wrong key with a forwarded address; the status."""
    shown = {"x-forwarded-for": forwarded, "authorization": f"Bearer {a_wrong_key(number)}"}
    if listener == "grpc":
        with grpc.insecure_channel(address) as channel:
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(TRACE_EXPORT)
            with pytest.raises(grpc.RpcError) as raised:
                method(b"", metadata=tuple(shown.items()), timeout=30)
        return str(raised.value.code().name)
    path = {"http": "/api/v1/traces", "otlp_http": "/v1/traces", "mcp": "/mcp"}[listener]
    with httpx.Client(trust_env=False) as client:
        return str(client.request("GET" if listener == "http" else "POST", f"http://{address}{path}", headers=shown))


@pytest.mark.parametrize("listener", ["http", "otlp_http", "mcp", "grpc"])
def test_no_forged_address_evades_the_limit_of_wrong_keys(tmp_path: Path, listener: str) -> None:
    """From loopback, each guess with another forwarded address is the same guesser, and the audit has its address."""
    with a_server(tmp_path / "data", api_key=OPERATOR_KEY) as server:
        audit = f"http://{server.http}/api/v1/audit"
        request(audit, key=OPERATOR_KEY)  # a key that was good from an address stays welcome there
        address = getattr(server, "http" if listener == "mcp" else listener)
        answers = [guess(listener, address, number, f"203.0.113.{number}") for number in range(ALLOWED + 5)]
        refused = "RESOURCE_EXHAUSTED" if listener == "grpc" else "429"
        assert [refused in answer for answer in answers] == [False] * ALLOWED + [True] * 5

        def addresses() -> set[str]:
            entries = request(audit, key=OPERATOR_KEY).json()["content"]
            return {entry["address"] for entry in entries if entry["status"] in {401, 429}}

        assert until(addresses, bool) == {"127.0.0.1"}


@pytest.mark.parametrize("listener", ["http", "otlp_http", "mcp", "grpc"])
def test_a_trusted_proxy_tells_its_clients_apart(tmp_path: Path, listener: str) -> None:
    """Behind a trusted proxy a guesser is refused, and other clients of the proxy are not."""
    with a_server(tmp_path / "data", api_key=OPERATOR_KEY, trusted_proxies=["127.0.0.0/8"]) as server:
        address = getattr(server, "http" if listener == "mcp" else listener)
        answers = [guess(listener, address, number, f"198.51.100.9, {FORGED}") for number in range(ALLOWED + 1)]
        refused = "RESOURCE_EXHAUSTED" if listener == "grpc" else "429"
        assert refused in answers[-1]
        assert refused not in guess(listener, address, 100, "203.0.113.8")


def test_the_scheme_counts_from_trusted_proxies_only(tmp_path: Path) -> None:
    """The cookie of a page is `Secure` behind a trusted proxy with TLS; a client alone cannot make it so."""
    for number, (trusted, is_secure) in enumerate(((["127.0.0.1"], True), ([], False))):
        with a_server(tmp_path / str(number), api_key=OPERATOR_KEY, trusted_proxies=trusted) as server:
            answer = httpx.get(f"http://{server.http}/sign-in", headers={"x-forwarded-proto": "https"}, trust_env=False)
            cookie = answer.headers["set-cookie"].lower()
            assert ("secure" in cookie) is is_secure, cookie


def test_an_open_server_stays_open_to_grpc_with_any_metadata(tmp_path: Path) -> None:
    """A forwarded address in the metadata of a call changes nothing for who may call."""
    with a_server(tmp_path / "data") as server:
        assert call(server.grpc) is grpc.StatusCode.OK


@given(st.lists(st.one_of(st.ip_addresses().map(str), st.text(max_size=40)), max_size=6))
def test_the_client_is_the_last_untrusted_hop_and_always_an_address(hops: list[str]) -> None:
    """Whatever is forwarded, the client of an untrusted peer is the peer, and of a trusted one an address."""
    proxies = TrustedProxies(["10.0.0.0/8", "fd00::/8"])
    assert proxies.client_of("192.0.2.1", hops) == "192.0.2.1"
    client = proxies.client_of("10.0.0.1", hops)
    assert TrustedProxies(["0.0.0.0/0", "::/0"]).client_of(client, ()) == client
    assert client == "10.0.0.1" or client in TrustedProxies(["0.0.0.0/0", "::/0"])


@pytest.mark.parametrize(
    "peer, forwarded, client",
    [
        ("10.0.0.1", ["203.0.113.7, 10.0.0.2"], "203.0.113.7"),
        ("10.0.0.1", ["6.6.6.6, 203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["6.6.6.6", "203.0.113.7:4711"], "203.0.113.7"),
        ("::ffff:10.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("10.0.0.1", ["203.0.113.7, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["::ffff:203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["10.0.0.3"], "10.0.0.3"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("192.0.2.1", ["203.0.113.7"], "192.0.2.1"),
    ],
)
def test_chains_of_proxies(peer: str, forwarded: list[str], client: str) -> None:
    """Trusted hops are skipped from the right; what a client wrote left of its own address never counts."""
    assert TrustedProxies(["10.0.0.0/8"]).client_of(peer, forwarded) == client


def test_a_proxy_that_is_no_network_is_refused() -> None:
    """The setting takes addresses and networks, and says so."""
    with pytest.raises(BadSettings, match="trusted-proxies: 1: must be an address or a network"):
        load_settings(None, {"trusted_proxies": ["10.0.0.1", "proxy.internal"]}, {})
    loaded = load_settings(None, {}, {"TRACEJURY_TRUSTED_PROXIES": "10.0.0.7, 10.1.0.0/16"})
    assert loaded.trusted_proxies == ("10.0.0.7/32", "10.1.0.0/16")
