"""The connections to models that are configured, over the API and in files, and the keys that they are used with."""

import json
import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from collector.addresses import AddressPolicy
from collector.connection_text import BadText, ConnectionProblem, ConnectionText, parse_connection
from collector.encryption_key import owner_of_connection
from collector.live.judges.egress import EgressResolver
from collector.live.judges.llm_connection import LlmConnection, meant, read, readable
from collector.secrets import CannotDecrypt, NoEncryptionKey, Secrets
from evaluators.chat.connection import BadConnection, ModelConnection
from evaluators.chat.urls import BadUrl
from evaluators.errors import BadConfiguration
from storage.errors import Conflict, NotFound, Overloaded, WriteConflict, require_version
from storage.operation.connections import ConnectionRow, Connections

log = logging.getLogger(__name__)

READ_ONLY: Final = frozenset(
    {"id", "tenant", "origin", "credential", "spentToday", "problem", "version", "createdAt", "updatedAt"}
)
"""Fields of our responses that clients cannot set. Ignored, so that a response can be changed and sent back."""


Changed = TypeVar("Changed")


class LlmConnections:
    """All connections of a server. Thread-safe: changes take a lock, reads do not."""

    def __init__(
        self,
        connections: Connections,
        secrets: Secrets,
        variable: Callable[[str], str | None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        egress: EgressResolver | None = None,
    ) -> None:
        """Set up the connections. `variable` reads the environment; `egress` checks the addresses of tenants."""
        self._store = connections
        self._secrets = secrets
        self._variable = variable
        self._clock = clock
        self._changing = threading.Lock()
        self._egress = egress or EgressResolver(AddressPolicy())
        self._followers: list[Callable[[], None]] = []
        self._gone: Mapping[str, LlmConnection] = {}
        self._here: Mapping[str, LlmConnection] = {}  # never changed, but replaced
        self._by_name: tuple[Mapping[str, LlmConnection], Sequence[LlmConnection]] = (self._here, ())
        self._read_all()

    def all(self, tenant: str | None = None) -> list[LlmConnection]:
        """Return the connections of a tenant, or all, by name."""
        of, by_name = self._by_name
        if of is not self._here:  # called for each request of a judge
            of = self._here
            by_name = sorted(of.values(), key=lambda each: (each.row.name, each.row.tenant))
            self._by_name = (of, by_name)
        return [each for each in by_name if tenant is None or each.row.tenant == tenant]

    def for_rules_of(self, tenant: str) -> list[LlmConnection]:
        """Return the connections that rules of a tenant may use, by name: its own, and shared ones."""
        return [each for each in self.all() if each.row.tenant == tenant or each.is_shared]

    def get(self, connection_id: str) -> LlmConnection:
        """Return the connection with this id, of any tenant.

        Raises:
            NotFound: no connection has this id.
        """
        connection = self._here.get(connection_id)
        if connection is None:
            raise NotFound(f"there is no connection {connection_id}")
        return connection

    def follow(self, changed: Callable[[], None]) -> None:
        """Register `changed`, which is called after each change in the thread that made the change."""
        self._followers.append(changed)

    def in_flight(self, connection_id: str) -> int | None:
        """Return how many jobs may run at once over a connection of any tenant; None if it was deleted."""
        connection = self._here.get(connection_id)
        return None if connection is None else connection.text.limits.in_flight

    def resolve(self, named: str | None, tenant: str = "") -> LlmConnection:
        """Return the connection that a rule of a tenant names by id or name, or its default one.

        Raises:
            BadConfiguration: there is none; the message says what to do.
        """
        return meant(named, tenant, self.for_rules_of(tenant))

    def fallback(self, connection_id: str) -> LlmConnection | None:
        """Return the fallback of a connection, if it has one; it may be unusable."""
        connection = self._here.get(connection_id)
        if connection is None or connection.text.fallback is None:
            return None
        try:
            other = self.resolve(connection.text.fallback, connection.row.tenant)
        except BadConfiguration:
            return None
        return None if other.connection_id == connection_id else other

    def usable(self, stored: LlmConnection) -> ModelConnection:
        """Return the connection for the chat client, with its current key.

        Raises:
            BadConfiguration: its key is not available; the message says what to do.
        """
        named = f"connection {stored.row.name!r}"
        try:
            connection = stored.text.connection(self._key(stored), self._headers(stored))
            return replace(connection, address_of=self._egress) if stored.row.tenant else connection
        except (BadConnection, NoEncryptionKey, CannotDecrypt) as error:
            raise BadConfiguration(f"{named}: {error}") from None
        except KeyError as missing:
            raise BadConfiguration(
                f"{named}: the variable {missing.args[0]}, which {missing.args[1]} names, is not set for the server"
            ) from None

    def create(self, document: Mapping[str, Any], tenant: str = "") -> LlmConnection:
        """Add a connection.

        Raises:
            BadText: the document is not a valid connection, or its key cannot be stored.
            Conflict: the name is taken.
            Overloaded: the database cannot be written now.
        """
        text = parse_connection(document)
        self._refuse_egress(tenant, text)
        now = self._now()
        row = ConnectionRow(
            tenant=tenant,
            connection_id=str(uuid.uuid4()),
            name=text.name,
            origin="API",
            document=json.dumps(text.document()),
            secret=None,
            version=1,
            created_at=now,
            updated_at=now,
        )
        with self._changing:
            self._refuse_taken(row)
            created = read(replace(row, secret=self._sealed(row, text)))
            self._store.store(new=[created.row])
            self._put(created)
        self._tell()
        return created

    def replace(
        self, connection_id: str, document: Mapping[str, Any], *, seen: Collection[int] | None = None
    ) -> LlmConnection:
        """Replace a connection by a document; read-only fields of our responses are ignored.

        With `seen`, only a connection that has one of these versions.

        A stored key stays if the document names neither a key nor a variable, as long as the address leads to the same
        host; `"apiKey": null` or a `credentialRef` removes it.

        Raises:
            NotFound: no connection has this id.
            Stale: the connection has another version.
            BadText: the document is not valid, or its key cannot be kept.
            Conflict: the name is taken, enabled rules use the old name, or the connection comes from a file.
            Overloaded: the database cannot be written now.
        """
        text = parse_connection({key: value for key, value in document.items() if key not in READ_ONLY})

        def change() -> LlmConnection:
            before = self.get(connection_id)
            require_version(before.row.version, seen)
            _refuse_file(before)
            self._refuse_egress(before.row.tenant, text)
            row = replace(
                before.row,
                name=text.name,
                document=json.dumps(text.document()),
                version=before.row.version + 1,
                updated_at=self._now(),
            )
            self._refuse_taken(row)
            if row.name != before.row.name:
                self._refuse_named(before, {before.row.name})
            after = read(replace(row, secret=self._kept(before, text, row)))
            self._store.store(changed=[after.row])
            self._put(after)
            return after

        after = self._changed(change)
        self._tell()
        return after

    def delete(self, connection_id: str, *, seen: Collection[int] | None = None) -> None:
        """Delete a connection and its key, if it has one of the versions in `seen`.

        Raises:
            NotFound: no connection has this id.
            Stale: the connection has another version.
            Conflict: an enabled rule names the connection, or a file defines it.
            Overloaded: the database cannot be written now.
        """

        def change() -> None:
            connection = self.get(connection_id)
            require_version(connection.row.version, seen)
            _refuse_file(connection)
            self._refuse_named(connection, {connection.connection_id, connection.row.name})
            self._store.store(changed=[self._ended(connection).row])
            self._here = {key: each for key, each in self._here.items() if key != connection_id}

        self._changed(change)
        self._tell()

    def adopt(self, files: Mapping[str, ConnectionText]) -> None:
        """Replace the connections of files by those of the configuration that was just read.

        One with the name of a connection of the API is left out and logged. If the database cannot be written now, they
        are used nevertheless, and the next start stores them.
        """
        with self._changing:
            known = {each.row.name: each for each in self.all("") if each.row.origin == "FILE"}
            taken = {each.row.name for each in self.all("") if each.row.origin == "API"}
            for name in sorted(files.keys() & taken):
                log.error("llm_connections: %r is ignored: a connection with that name was created over the API", name)
            filed = {name: text for name, text in files.items() if name not in taken}
            ended = [self._ended(each) for name, each in known.items() if name not in filed]
            before = {name: known.get(name) or self._gone.get(name) for name in filed}
            new = [self._filed(name, text) for name, text in filed.items() if before[name] is None]
            again = [
                self._again(old, filed[name])
                for name, old in before.items()
                if old is not None and (old.row.is_deleted or old.text != filed[name])
            ]
            if new or again or ended:
                self._keep(new, [*again, *ended])
            here = dict(self._here) | {each.connection_id: each for each in (*new, *again)}
            self._here = {key: each for key, each in here.items() if key not in {gone.connection_id for gone in ended}}
            self._gone = {**self._gone, **{each.row.name: each for each in ended}}

    def _keep(self, new: Sequence[LlmConnection], changed: Sequence[LlmConnection]) -> None:
        try:
            self._store.store(new=[each.row for each in new], changed=[each.row for each in changed])
        except Overloaded as error:
            log.error("llm_connections could not be stored: %s", error)  # noqa: TRY400 - the message has the reason

    def _key(self, connection: LlmConnection) -> str | None:
        variable = connection.text.credential_ref
        if connection.row.secret is not None:
            return self._secrets.decrypt(connection.row.secret, belongs_to=_place(connection.row))
        if variable is None:
            return None
        return self._variable_value(variable, "credentialRef")

    def _headers(self, connection: LlmConnection) -> dict[str, str]:
        return {
            name: self._variable_value(variable, "headerRefs") for name, variable in connection.text.header_refs.items()
        }

    def _variable_value(self, variable: str, by: str) -> str:
        value = self._variable(variable)
        if not value:
            raise KeyError(variable, by)
        return value

    def _sealed(self, row: ConnectionRow, text: ConnectionText) -> bytes | None:
        if text.api_key is None:
            return None
        try:
            return self._secrets.encrypt(text.api_key.get_secret_value(), belongs_to=_place(row))
        except NoEncryptionKey as error:
            message = f"{error}; or name a variable with the key in credentialRef"
            raise BadText([ConnectionProblem(key="apiKey", message=message)]) from None

    def _kept(self, before: LlmConnection, text: ConnectionText, row: ConnectionRow) -> bytes | None:
        """Return the secret to store. A new host needs a new key: the old one must not be sent there."""
        is_mentioned = "api_key" in text.model_fields_set or text.credential_ref is not None
        if before.row.secret is None or is_mentioned:
            return self._sealed(row, text)
        if _host(before.text.base_url) != _host(text.base_url):
            message = "is needed again, because baseUrl leads to another host; null for none"
            raise BadText([ConnectionProblem(key="apiKey", message=message)])
        return before.row.secret

    def _refuse_taken(self, row: ConnectionRow) -> None:
        for each in self.all(row.tenant):
            if each.row.name == row.name and each.connection_id != row.connection_id:
                raise Conflict(f"there is a connection named {row.name!r} already")

    def _refuse_named(self, connection: LlmConnection, names: Collection[str]) -> None:
        rules = [rule for rule, named in self._store.named_by_rules(connection.row.tenant) if named in names]
        if rules:
            names_text = ", ".join(map(repr, rules))
            raise Conflict(f"enabled rules name this connection: {names_text}; change, disable or delete them first")

    def _filed(self, name: str, text: ConnectionText) -> LlmConnection:
        now = self._now()
        row = ConnectionRow(
            tenant="",
            connection_id=str(uuid.uuid4()),
            name=name,
            origin="FILE",
            document=json.dumps(text.document()),
            secret=None,
            version=1,
            created_at=now,
            updated_at=now,
        )
        return LlmConnection(row=row, text=text)

    def _again(self, old: LlmConnection, text: ConnectionText) -> LlmConnection:
        row = replace(
            old.row,
            document=json.dumps(text.document()),
            version=old.row.version + 1,
            updated_at=self._now(),
            is_deleted=False,
        )
        return LlmConnection(row=row, text=text)

    def _ended(self, connection: LlmConnection) -> LlmConnection:
        row = replace(
            connection.row, secret=None, version=connection.row.version + 1, updated_at=self._now(), is_deleted=True
        )
        return replace(connection, row=row)

    def _changed(self, change: Callable[[], Changed]) -> Changed:
        """Apply a change; after a conflict read all rows and repeat: a commit that seemed to fail may be stored."""
        with self._changing:
            try:
                return change()
            except WriteConflict:
                self._read_all()
                return change()

    def _read_all(self) -> None:
        rows = list(readable(self._store.all()))
        self._gone = {each.row.name: each for each in rows if each.row.is_deleted}
        self._here = {each.connection_id: each for each in rows if not each.row.is_deleted}

    def _refuse_egress(self, tenant: str, text: ConnectionText) -> None:
        """Refuse a connection of a tenant that would use the operator's variables, network or money."""
        if not tenant:
            return
        if text.credential_ref is not None:
            message = "the variables of the server are the operator's; give the key as apiKey"
            raise BadText([ConnectionProblem(key="credentialRef", message=message)])
        if text.header_refs:
            message = "the variables of the server are the operator's; give the value in headers"
            raise BadText([ConnectionProblem(key="headerRefs", message=message)])
        if text.shared:
            raise BadText([ConnectionProblem(key="shared", message="is for connections of no tenant")])
        try:
            self._egress.check(text.base_url)
        except BadUrl as error:
            raise BadText([ConnectionProblem(key="baseUrl", message=str(error))]) from None

    def _tell(self) -> None:
        for changed in self._followers:
            changed()

    def _put(self, connection: LlmConnection) -> None:
        self._here = {**self._here, connection.connection_id: connection}

    def _now(self) -> datetime:
        return self._clock().replace(tzinfo=None)


def _refuse_file(connection: LlmConnection) -> None:
    if connection.row.origin == "FILE":
        raise Conflict("this connection is one of the settings (llm_connections); change it there, and start again")


def _place(row: ConnectionRow) -> str:
    return owner_of_connection(row.tenant, row.connection_id)


def _host(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return (parts.scheme, parts.hostname, parts.port)
