"""TLS on every address."""

import asyncio
import ssl
from pathlib import Path

import grpc
import httpx
import pytest

from collector.app import running
from collector.settings import BadSettings, Settings
from collector.settings_loading import load_settings
from storage.engine.lock import read_holder
from tests.access import TRACE_EXPORT
from tests.certificates import a_certificate
from tests.serving import ANY_PORT, a_server, run


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = a_certificate()
    chain, secret = folder / "cert.pem", folder / "key.pem"
    chain.write_bytes(certificate)
    secret.write_bytes(key)
    return chain, secret


def test_every_address_takes_tls_and_nothing_else(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """Over all three, who trusts the certificate is served, and who speaks without TLS is not."""
    chain, secret = pair
    with a_server(tmp_path / "data", tls_cert=chain, tls_key=secret) as server:
        trust = ssl.create_default_context(cafile=str(chain))
        with httpx.Client(trust_env=False, verify=trust) as client:
            assert client.get(f"https://{server.http}/health").status_code == 200
            headers = {"content-type": "application/x-protobuf"}
            assert client.post(f"https://{server.otlp_http}/v1/traces", headers=headers).status_code == 200
            for address in (server.http, server.otlp_http):
                with pytest.raises(httpx.TransportError):
                    client.get(f"http://{address}/health")
        with grpc.secure_channel(server.grpc, grpc.ssl_channel_credentials(chain.read_bytes())) as channel:
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(TRACE_EXPORT)
            assert method(b"", timeout=20) == b""


def test_commands_trust_what_the_environment_names(
    tmp_path: Path, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`SSL_CERT_FILE` names a certificate of one's own; and `--data` finds that the server speaks TLS."""
    chain, secret = pair
    with a_server(tmp_path / "data", tls_cert=chain, tls_key=secret) as server:
        assert run("traces", "list", "--server", f"https://{server.http}").exit_code == 1
        monkeypatch.setenv("SSL_CERT_FILE", str(chain))
        assert run("traces", "list", "--server", f"https://{server.http}").exit_code == 0
        assert run("traces", "list", "--data", tmp_path / "data").exit_code == 0


def test_a_pair_that_is_none_stops_the_start(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """Files that are missing, or no certificate and its key, are named, and half a pair is no setting."""
    chain, _ = pair

    async def start(key: Path) -> None:
        async with running(Settings(data=tmp_path, tls_cert=chain, tls_key=key)):
            pass

    for key in (chain, tmp_path / "missing.pem"):
        with pytest.raises(OSError, match="are no certificate with its key"):
            asyncio.run(start(key))
    with pytest.raises(BadSettings, match="need each other"):
        load_settings(None, {"tls_cert": chain}, {})


def test_quack_stays_on_this_machine_where_all_is_to_take_tls(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """An address that cannot take TLS is refused where a certificate is set, unless only this machine reaches it."""
    chain, key = pair
    settings = {"data": tmp_path, "tls_cert": chain, "tls_key": key, "quack": "0.0.0.0:0", "api_key": "k" * 20}
    settings |= {"grpc": ANY_PORT, "otlp_http": ANY_PORT, "http": ANY_PORT}

    async def start() -> None:
        async with running(Settings.model_validate(settings)):
            pass

    with pytest.raises(BadSettings, match="quack: does not take TLS"):
        asyncio.run(start())


def test_a_health_check_asks_whatever_the_server_speaks(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """`tracejury health`, which the image runs, finds the server of a directory with TLS and without, or none."""
    chain, secret = pair
    data = tmp_path / "data"
    both: tuple[dict[str, Path], ...] = ({}, {"tls_cert": chain, "tls_key": secret})
    for tls in both:
        with a_server(data, api_key="k" * 20, **tls) as server:
            holder = read_holder(data) or {}
            assert holder["http"] == f"{'https' if tls else 'http'}://{server.http}"
            for flags in ([], ["--ready"]):
                found = run("health", "--data", data, *flags)
                assert (found.exit_code, found.output) == (0, "")
            assert run("health", env={"TRACEJURY_DATA": str(data)}).exit_code == 0
            server.context.state = "stopping"
            found = run("health", "--data", data, "--ready")
            assert (found.exit_code, "503" in found.output) == (1, True)
    found = run("health", "--data", data)
    assert (found.exit_code, "no server holds" in found.output) == (1, True)
