"""TLS on every address."""

import asyncio
import ssl
from contextlib import ExitStack
from pathlib import Path

import grpc
import httpx
import pytest
from cryptography import x509

from collector.app import Running, running
from collector.cli.client import ServerClient
from collector.cli.connecting import ServerUnreachable
from collector.settings import BadSettings, Settings
from collector.settings_loading import load_settings
from storage.engine.lock import read_holder
from tests.access import TRACE_EXPORT
from tests.certificates import DAY, a_certificate
from tests.live import PATIENCE_S, until
from tests.serving import ANY_PORT, a_server, run

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/cli",
    "collector/listeners",
    "collector/quack",
    "collector/settings_loading.py",
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate for this machine, signed by itself, and its key."""
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
            page = client.get(f"https://{server.http}/metrics").text
            for listener in ("http", "otlp_http"):
                assert f'tracejury_closed_connections_total{{listener="{listener}",reason="tls_failed"}} 1.0' in page
        with grpc.secure_channel(server.grpc, grpc.ssl_channel_credentials(chain.read_bytes())) as channel:
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(TRACE_EXPORT)
            assert method(b"", timeout=20) == b""


def shown(address: str) -> str:
    """Return the name in the certificate that a listener shows a new connection."""
    host, _, port = address.rpartition(":")
    pem = ssl.get_server_certificate((host, int(port)), timeout=PATIENCE_S)
    return x509.load_pem_x509_certificate(pem.encode()).subject.rfc4514_string()


def replace(pair: tuple[Path, Path], key: bytes, chain: bytes) -> None:
    """Put other files in the place of these, as tools do that renew certificates."""
    for file, content in zip(pair, (chain, key), strict=True):
        temporary = file.with_suffix(".new")
        temporary.write_bytes(content)
        temporary.replace(file)


def conditions(server: Running) -> dict[str, str]:
    """Return the condition of the certificate, as the status has it."""
    return {each.about: each.message for each in server.context.conditions.lasting if each.name == "certificate"}


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    """All listeners show it to new connections; an open connection goes on, over HTTP and over gRPC."""
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")
    replace(files, *a_certificate("before"))
    old_chain = files[0].read_bytes()
    with a_server(tmp_path / "data", tls_cert=files[0], tls_key=files[1]) as server, ExitStack() as stack:
        listeners = (server.http, server.otlp_http, server.grpc)
        assert [shown(address) for address in listeners] == ["CN=before"] * 3
        trust = ssl.create_default_context(cafile=str(files[0]))
        client = stack.enter_context(httpx.Client(trust_env=False, verify=trust))
        assert client.get(f"https://{server.http}/health").status_code == 200
        credentials = grpc.ssl_channel_credentials(old_chain)
        channel = stack.enter_context(grpc.secure_channel(server.grpc, credentials))
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(TRACE_EXPORT)
        assert method(b"", timeout=20) == b""
        replace(files, *a_certificate("after"))
        until(lambda: shown(server.http), lambda name: name == "CN=after")
        assert [shown(address) for address in listeners] == ["CN=after"] * 3
        assert client.get(f"https://{server.http}/health").status_code == 200  # which trusts the old one only
        assert method(b"", timeout=20) == b""
        assert conditions(server) == {}


def test_a_broken_certificate_leaves_the_one_from_before(tmp_path: Path) -> None:
    """A file that is not a certificate, or has no key with it, is a condition until it is mended."""
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")
    replace(files, *a_certificate("before"))
    with a_server(tmp_path / "data", tls_cert=files[0], tls_key=files[1]) as server:
        for broken in (b"nonsense", b"", a_certificate()[1]):
            files[0].write_bytes(broken)
            standing = until(lambda: conditions(server), bool)
            assert "are not a certificate with its key" in standing["files"]
            assert shown(server.http) == shown(server.grpc) == "CN=before"
        files[0].unlink()
        until(lambda: conditions(server), lambda by_name: "No such file" in by_name.get("files", ""))
        assert shown(server.otlp_http) == "CN=before"
        replace(files, *a_certificate("after"))
        until(lambda: conditions(server), lambda by_name: by_name == {})
        assert shown(server.http) == "CN=after"


def test_a_certificate_that_expires_is_a_condition(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An expired one is logged at the start, one that expires soon is in the status, and a renewed one ends it."""
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")
    replace(files, *a_certificate("old", expires_in=-DAY))
    with a_server(tmp_path / "data", tls_cert=files[0], tls_key=files[1]) as server:
        assert "the certificate of CN=old expired at" in caplog.text
        assert "expired at" in until(lambda: conditions(server), bool)["expiry"]
        replace(files, *a_certificate("soon", expires_in=DAY))
        until(lambda: conditions(server), lambda by_name: "CN=soon expires at" in by_name.get("expiry", ""))
        replace(files, *a_certificate("good"))
        until(lambda: conditions(server), lambda by_name: by_name == {})


def test_commands_trust_what_the_environment_names(
    tmp_path: Path, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`SSL_CERT_FILE` names a certificate of one's own; and `--data` finds that the server speaks TLS."""
    chain, secret = pair
    with a_server(tmp_path / "data", tls_cert=chain, tls_key=secret) as server:
        untrusted = run("traces", "list", "--server", f"https://{server.http}")
        assert (untrusted.exit_code, "have SSL_CERT_FILE name" in untrusted.stderr) == (1, True)
        assert "use https://" in run("status", "--server", f"http://{server.http}").stderr
        monkeypatch.setenv("SSL_CERT_FILE", str(chain))
        assert run("traces", "list", "--server", f"https://{server.http}").exit_code == 0
        assert run("traces", "list", "--data", tmp_path / "data").exit_code == 0


def test_an_expired_certificate_is_named_and_shown_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tracejury status` at a loopback address shows that it has expired; elsewhere the error says so."""
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")
    replace(files, *a_certificate("old", expires_in=-DAY))
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
    with a_server(tmp_path / "data", tls_cert=files[0], tls_key=files[1]) as server:
        until(lambda: conditions(server), bool)
        assert "the certificate of CN=old expired at" in run("status", "--server", f"https://{server.http}").output
        elsewhere = httpx.Client(base_url=f"https://{server.http}", verify=ssl.create_default_context())
        expired = pytest.raises(ServerUnreachable, match=r"certificate has expired\); renew the certificate")
        with elsewhere as client, expired:
            ServerClient(client).send("GET", "/health")


def test_a_server_without_tls_is_named_as_such(tmp_path: Path) -> None:
    """A command with `https://` reports that the server speaks no TLS, whichever address it asks first."""
    with a_server(tmp_path / "data") as server:
        assert "speaks no TLS; use http://" in run("status", "--server", f"https://{server.http}").stderr


def test_a_pair_that_is_none_stops_the_start(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """Files that are missing, or no certificate and its key, are named, and half a pair is not a setting."""
    chain, _ = pair

    async def start(key: Path) -> None:
        async with running(Settings(data=tmp_path, tls_cert=chain, tls_key=key)):
            pass

    for key in (chain, tmp_path / "missing.pem"):
        with pytest.raises(OSError, match="are not a certificate with its key"):
            asyncio.run(start(key))
    with pytest.raises(BadSettings, match="need each other"):
        load_settings(None, {"tls_cert": chain}, {})


def test_quack_stays_on_this_machine_where_all_is_to_take_tls(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """An address that cannot use TLS is refused if a certificate is set, unless only this machine reaches it."""
    chain, key = pair
    settings = {"data": tmp_path, "tls_cert": chain, "tls_key": key, "quack": "0.0.0.0:0", "api_key": "k" * 20}
    settings |= {"grpc": ANY_PORT, "otlp_http": ANY_PORT, "http": ANY_PORT}

    async def start() -> None:
        async with running(Settings.model_validate(settings)):
            pass

    with pytest.raises(BadSettings, match="quack: does not support TLS"):
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
                result = run("health", "--data", data, *flags)
                assert (result.exit_code, result.output) == (0, "")
            assert run("health", env={"TRACEJURY_DATA": str(data)}).exit_code == 0
            server.context.state = "stopping"
            result = run("health", "--data", data, "--ready")
            assert (result.exit_code, "503" in result.output) == (1, True)
    result = run("health", "--data", data)
    assert (result.exit_code, "no server holds" in result.output) == (1, True)
