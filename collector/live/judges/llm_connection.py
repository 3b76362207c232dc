"""A connection to a model, without its key, and the choice of a rule's connection among several."""

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from collector.connection_text import BadText, ConnectionText, Credential, parse_connection
from evaluators.errors import BadConfiguration
from storage.operation.connections import ConnectionRow

log = logging.getLogger(__name__)

DEFAULT: Final = "default"
"""Name of the connection for rules that name none, if there are several connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmConnection:
    """One connection, without its key."""

    row: ConnectionRow
    text: ConnectionText

    @property
    def connection_id(self) -> str:
        """Return its unique id, which no later connection gets."""
        return self.row.connection_id

    @property
    def is_shared(self) -> bool:
        """Return True if rules of every tenant may use it."""
        return self.text.shared and not self.row.tenant

    @property
    def credential(self) -> Credential | None:
        """Return the origin of its key."""
        if self.row.secret is not None:
            return "apiKey"
        return None if self.text.credential_ref is None else "credentialRef"


def meant(named: str | None, tenant: str, here: Sequence[LlmConnection]) -> LlmConnection:
    """Return the connection that a rule of a tenant names by id or name; without a name, the only one, or `default`.

    The tenant's own come first: shared ones count if they are named, or if the tenant has none of its own.

    Raises:
        BadConfiguration: there is none; the message says what to do.
    """
    own = [each for each in here if each.row.tenant == tenant]
    if named is not None:
        for each in sorted(here, key=lambda each: (each.connection_id != named, each.row.tenant != tenant)):
            if named in {each.connection_id, each.row.name}:
                return each
        raise BadConfiguration(f"there is no connection {named!r}{_others(here)}")
    choice = own or here
    if len(choice) == 1:
        return choice[0]
    for each in choice:
        if each.row.name == DEFAULT:
            return each
    if not choice:
        raise BadConfiguration("no connection is configured; create one with POST /api/v1/llm-connections")
    raise BadConfiguration(
        f"no connection is named, and there are {len(choice)}: name one in connectionId, or name one {DEFAULT!r}"
    )


def read(row: ConnectionRow) -> LlmConnection:
    """Parse a row.

    Raises:
        BadText: this version does not understand it.
    """
    return LlmConnection(row=row, text=parse_connection(json.loads(row.document)))


def readable(rows: Iterable[ConnectionRow]) -> Iterable[LlmConnection]:
    """Yield the connections that this version can read; log the others."""
    for row in rows:
        try:
            yield read(row)
        except BadText as error:
            log.error("the connection %r cannot be used: %s", row.name, error)  # noqa: TRY400 - the message has the reason


def _others(here: Iterable[LlmConnection]) -> str:
    names = ", ".join(repr(each.row.name) for each in here)
    return f"; there are: {names}" if names else "; create it with POST /api/v1/llm-connections"
