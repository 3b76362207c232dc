"""The certificate that every listener shows, read again when its files change."""

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

log = logging.getLogger(__name__)

_SOON: Final = timedelta(days=14)
_SOON_SHARE: Final = 5
"""A certificate valid for less than 70 days is reported in the last fifth of its time: tools renew at a third."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A certificate chain with its key, as of one state of the files."""

    context: ssl.SSLContext
    chain: bytes
    key: bytes
    name: str
    begins: datetime
    expires: datetime


class Certificate:
    """A certificate chain and its key in PEM files. `look` reloads changed files; new connections use `current`."""

    def __init__(self, chain: Path, key: Path) -> None:
        """Load the files.

        Raises:
            OSError: the files cannot be read, or are not a certificate and its key; the message names them.
        """
        self._chain_file = chain
        self._key_file = key
        self._state = self._state_of_files()
        self._problem: str | None = None
        self.current = self._load()
        for problem in self._expiry(datetime.now(UTC)).values():
            log.warning("%s", problem)

    @property
    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        return self.current.context

    def look(self) -> Mapping[str, str]:
        """Load the files again if they have changed; return what is wrong with them or with the certificate."""
        state = self._state_of_files()
        if state != self._state:
            try:
                self.current = self._load()
            except OSError as error:
                self._problem = f"{error}; the certificate from before is shown until this is mended"
            else:
                self._problem = None
                log.info("reloaded the certificate %s; it expires at %s", self.current.name, self._expires)
            self._state = state
        problems = {} if self._problem is None else {"files": self._problem}
        return problems | self._expiry(datetime.now(UTC))

    @property
    def _expires(self) -> str:
        return f"{self.current.expires:%Y-%m-%d %H:%M} UTC"

    def _expiry(self, now: datetime) -> dict[str, str]:
        current = self.current
        soon = min(_SOON, (current.expires - current.begins) / _SOON_SHARE)
        remedy = f"renew {self._chain_file}, which is read again when it changes"
        if now >= current.expires:
            return {"expiry": f"the certificate of {current.name} expired at {self._expires}; {remedy}"}
        if now >= current.expires - soon:
            return {"expiry": f"the certificate of {current.name} expires at {self._expires}; {remedy}"}
        if now < current.begins:
            return {"expiry": f"the certificate of {current.name} is valid from {current.begins:%Y-%m-%d %H:%M} UTC"}
        return {}

    def _load(self) -> Loaded:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            chain, key = self._chain_file.read_bytes(), self._key_file.read_bytes()
            context.load_cert_chain(self._chain_file, self._key_file)
            if (chain, key) != (self._chain_file.read_bytes(), self._key_file.read_bytes()):
                raise OSError("they are being written")  # noqa: TRY301 - explained like the others
            certificates = x509.load_pem_x509_certificates(chain)
        except (OSError, ValueError) as error:  # an SSLError is an OSError, too
            files = f"{self._chain_file} and {self._key_file}"
            raise OSError(f"{files} are not a certificate with its key: {error}") from error
        first = certificates[0]
        return Loaded(
            context=context,
            chain=chain,
            key=key,
            name=first.subject.rfc4514_string() or "no name",
            begins=first.not_valid_before_utc,
            expires=min(each.not_valid_after_utc for each in certificates),
        )

    def _state_of_files(self) -> object:
        return [_state_of(file) for file in (self._chain_file, self._key_file)]


def _state_of(file: Path) -> object:
    try:
        stat = file.stat()
    except OSError as error:
        return error.errno
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
