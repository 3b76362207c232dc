"""The reason why a Tracejury server did not answer a request, with a remedy."""

import ssl
from collections.abc import Iterator
from typing import Final

_TRUST: Final = "have SSL_CERT_FILE name a PEM file with the server's certificate, or with that of its issuer"
_NAME: Final = "use a host name that is in the certificate"
_REMEDIES: Final = {
    9: "set the clocks of both machines, or renew the certificate",
    10: "renew the certificate of the server (tls_cert)",
    62: _NAME,
    64: _NAME,
}
"""Remedies by OpenSSL's verification error (X509_V_ERR_*)."""

_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE"})


def no_answer_text(address: str, error: BaseException) -> str:
    """Describe a request that failed before its answer."""
    failed = next((each for each in _causes(error) if isinstance(each, ssl.SSLError)), None)
    if isinstance(failed, ssl.SSLCertVerificationError):
        why = failed.verify_message
        return f"the certificate of {address} is not trusted ({why}); {_REMEDIES.get(failed.verify_code, _TRUST)}"
    if failed is not None and failed.reason in _NOT_TLS:
        return f"what listens at {address} speaks no TLS; use http:// ({failed.reason})"
    if failed is not None:
        return f"no TLS connection to {address} ({failed.reason or failed})"
    return f"no server answers at {address} ({str(error) or type(error).__name__})"


def is_tls_problem(error: BaseException) -> bool:
    """Return whether a server listens there, and the TLS connection to it failed."""
    return any(isinstance(each, ssl.SSLError) for each in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
