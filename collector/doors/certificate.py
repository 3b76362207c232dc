"""The certificate that every address shows."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Files of a certificate chain and its key, in PEM."""

    chain: Path
    key: Path

    @classmethod
    def load(cls, chain: Path, key: Path) -> Self:
        """The certificate in these files, once it was read.

        Raises:
            OSError: one of them cannot be read, or they are no certificate and its key; the message names them.
        """
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key)
        except OSError as error:  # which an SSLError is, too
            raise OSError(f"{chain} and {key} are no certificate with its key: {error}") from error
        return cls(chain=chain, key=key)
