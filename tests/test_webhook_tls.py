"""TLS: the connection goes to the checked address, and the certificate must match the host name."""

import asyncio
import datetime as dt
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from collector.addresses import AddressPolicy
from collector.delivery.sending import DeliveryResponse, Sender
from tests.alerting import PATIENT


def a_certificate(folder: Path, name: str) -> Path:
    """Build a file with a self-signed certificate for a name, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{name}.pem"
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(text + certificate.public_bytes(serialization.Encoding.PEM))
    return file


async def _serve_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    await writer.drain()
    writer.close()


async def post(certificate: Path, trusted: Path, host: str) -> tuple[DeliveryResponse, list[str | None]]:
    """POST to a name on this machine; return the response, and the server names (SNI) of the TLS handshakes."""
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda _socket, name, _context: names.append(name)

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    server = await asyncio.start_server(_serve_once, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        tls = ssl.create_default_context(cafile=str(trusted))
        sender = Sender(AddressPolicy(["127.0.0.1"]), resolve, limits=PATIENT, tls=tls)
        return await sender.post(f"https://{host}:{port}/x", b"{}", {}), names


def test_the_certificate_has_to_be_that_of_the_name(tmp_path: Path) -> None:
    """A trusted certificate for the name is accepted although the connection goes to an address."""
    certificate = a_certificate(tmp_path, "hooks.example")
    answer, names = asyncio.run(post(certificate, certificate, "hooks.example"))
    assert (answer.status, names) == (204, ["hooks.example"])


def test_another_certificate_is_refused(tmp_path: Path) -> None:
    """A certificate of another name, or one of an unknown authority, is a failed attempt."""
    good, other = a_certificate(tmp_path, "hooks.example"), a_certificate(tmp_path, "evil.example")
    for certificate, trusted in ((other, other), (other, good)):
        answer, _ = asyncio.run(post(certificate, trusted, "hooks.example"))
        assert answer.status is None
        assert "CERTIFICATE_VERIFY_FAILED" in str(answer.error)


def test_certificates_are_read_only_for_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new sender and a request over plain HTTP read no certificates; one over TLS reads those of the system."""

    def refuse() -> ssl.SSLContext:
        raise OSError("no certificates here")

    monkeypatch.setattr("httpcore.default_ssl_context", refuse)

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async def both() -> list[DeliveryResponse]:
        server = await asyncio.start_server(_serve_once, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            sender = Sender(AddressPolicy(["127.0.0.1"]), resolve, limits=PATIENT)
            return [await sender.post(f"{scheme}://127.0.0.1:{port}/", b"{}", {}) for scheme in ("http", "https")]

    plain, over_tls = asyncio.run(both())
    assert (plain.status, over_tls.status) == (204, None)
    assert "no certificates here" in str(over_tls.error)
